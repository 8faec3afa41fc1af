// Pi as the doctor starts it: with a copy of the user's agent directory, in which the scripted model is the default one
// and there is a kind of agent that runs on it. Extensions are the user's own. Pi's agents are processes that find all
// of this by the environment.

import { PACKAGE } from './finding.js';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join, normalize, resolve } from 'node:path';
import type { JsonSchema } from './model_server.js';
import { mirror } from './mirror.js';
import { MODEL, OUTPUT, PROVIDER, WINDOW } from './prove.js';
import type { Subject } from './prove.js';

/** The kind of agent that is started. */
const KIND = 'memory-prefetch-doctor';

export const pi: Subject = {
  name: 'pi',
  title: 'Pi',
  variable: 'MEMORY_PREFETCH_PI',
  install:
    '`npm install -g @mariozechner/pi-coding-agent` installs it;\n' +
    'MEMORY_PREFETCH_PI names its program if it is elsewhere',
  plugin: `\`pi install ${PACKAGE}\` installs it`,
  withoutStarter:
    'install one, as the `subagent` extension that Pi ships as an example: examples/extensions/subagent in its package',

  prepare({ own, baseUrl, env, prompt }) {
    const theirs = agentDirectory(env);
    const agent = join(own, 'agent');
    mirror(theirs, agent, ['sessions', 'agents', 'settings.json', 'models.json']);
    mirror(join(theirs, 'agents'), join(agent, 'agents'), []);
    const model = `${PROVIDER}/${MODEL}`;
    writeFileSync(
      join(agent, 'agents', `${KIND}.md`),
      `---\nname: ${KIND}\ndescription: Checks memory-prefetch.\nmodel: ${model}\n---\n\nAnswer.\n`,
    );
    const models = [{ id: MODEL, contextWindow: WINDOW, maxTokens: OUTPUT }];
    const provider = { baseUrl, api: 'openai-completions', apiKey: 'none', models };
    writeFileSync(join(agent, 'models.json'), JSON.stringify({ providers: { [PROVIDER]: provider } }));
    writeFileSync(join(agent, 'settings.json'), JSON.stringify(settings(theirs)));
    return {
      args: ['-p', '--model', model, prompt],
      env: {
        PI_CODING_AGENT_DIR: agent,
        PI_CODING_AGENT_SESSION_DIR: join(agent, 'sessions'),
        PI_OFFLINE: '1',
        PI_SKIP_VERSION_CHECK: '1',
        PI_TELEMETRY: '0',
      },
    };
  },

  starter(tools) {
    const taking = tools.filter((tool) => placeIn(tool.function.parameters ?? {}) !== undefined);
    // A list of things to do has tasks, too.
    const starting = taking.filter(
      ({ function: { name, parameters = {} } }) =>
        placeIn(parameters)?.['agent'] !== undefined || /agent|delegate/i.test(name),
    );
    return starting.find((tool) => tool.function.name === 'subagent') ?? starting[0];
  },
  offered: (schema) => placeIn(schema)?.['memory'],
  call(schema, task, memory) {
    const one = { ...(placeIn(schema)?.['agent'] && { agent: KIND }), task, memory };
    return schema.properties?.['task'] ? one : { tasks: [one] };
  },
  finish: (answer) => ({ text: answer }),
};

/** Where a schema takes the task of an agent. */
function placeIn({ properties }: JsonSchema): Readonly<Record<string, JsonSchema>> | undefined {
  const items = properties?.['tasks']?.['items'] as JsonSchema | undefined;
  return [properties, items?.properties].find((place) => place?.['task'] !== undefined);
}

function agentDirectory(env: Readonly<Record<string, string | undefined>>): string {
  const home = env['HOME'] || homedir();
  const named = env['PI_CODING_AGENT_DIR'];
  if (!named) return join(home, '.pi', 'agent');
  return named.startsWith('~/') ? join(home, named.slice(2)) : resolve(named);
}

/** The user's own, on the scripted model. What they name by a path is still found from the copy. */
function settings(directory: string): Record<string, unknown> {
  const file = join(directory, 'settings.json');
  // Pi, too, would not start with one that cannot be read.
  const theirs = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>) : {};
  const { enabledModels: _, ...others } = theirs;
  for (const name of LISTS) if (name in others) others[name] = moved(others[name], directory);
  return { ...others, defaultProvider: PROVIDER, defaultModel: MODEL };
}

/** Settings that are lists of paths, or of what may be one. */
const LISTS = ['packages', 'extensions', 'skills', 'prompts', 'themes'];

function moved(list: unknown, directory: string): unknown {
  if (!Array.isArray(list)) return list;
  return list.map((entry: unknown) => {
    if (typeof entry === 'string') return absolute(entry, directory);
    if (typeof entry !== 'object' || entry === null || !('source' in entry)) return entry;
    return { ...entry, source: absolute(String(entry.source), directory) };
  });
}

/** Only what lies outside of the directory: the rest is in the copy, and may be a pattern. */
function absolute(path: string, directory: string): string {
  return isAbsolute(path) || !normalize(path).startsWith('..') ? path : resolve(directory, path);
}
