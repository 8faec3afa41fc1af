// OMP as the doctor starts it: with a copy of the user's `.omp` in which only the scripted model is known. Extensions
// and plugins are the user's own. A file of settings that goes before all others switches to that model, and has agents
// end before their parent does, which `omp -p` needs.

import { PACKAGE } from './finding.js';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, relative } from 'node:path';
import type { JsonSchema } from './model_server.js';
import { mirror } from './mirror.js';
import { MODEL, OUTPUT, PROVIDER, WINDOW } from './prove.js';
import type { Subject } from './prove.js';

type Environment = Readonly<Record<string, string | undefined>>;

export const omp: Subject = {
  name: 'omp',
  title: 'OMP',
  variable: 'MEMORY_PREFETCH_OMP',
  install:
    '`bun install -g @oh-my-pi/pi-coding-agent` installs it; MEMORY_PREFETCH_OMP names its program if it is elsewhere',
  plugin: `\`omp plugin install ${PACKAGE}\` installs it`,
  withoutStarter: 'its tool `task` may be switched off in your configuration',

  prepare({ own, baseUrl, env, prompt }) {
    const home = env['HOME'] || homedir();
    const theirs = directories(env, home);
    const root = join(own, 'omp');
    mirror(theirs.agent, join(root, 'agent'), [...KEPT, 'models.yml', 'models.yaml', 'models.json']);
    mkdirSync(root, { recursive: true });
    for (const [name, place] of Object.entries({ plugins: theirs.plugins, natives: join(theirs.root, 'natives') })) {
      if (existsSync(place)) symlinkSync(place, join(root, name), 'dir');
    }
    const models = [{ id: MODEL, name: MODEL, contextWindow: WINDOW, maxTokens: OUTPUT }];
    const provider = { baseUrl, api: 'openai-completions', apiKey: 'none', models };
    // JSON is YAML.
    writeFileSync(join(root, 'agent', 'models.yml'), JSON.stringify({ providers: { [PROVIDER]: provider } }));
    const overlay = join(own, 'overlay.yml');
    const model = `${PROVIDER}/${MODEL}`;
    const roles = Object.fromEntries(ROLES.map((role) => [role, model]));
    writeFileSync(
      overlay,
      JSON.stringify({
        modelRoles: roles,
        task: { agentModelOverrides: { task: model } },
        enabledModels: [],
        async: { enabled: false },
        startup: { checkUpdate: false },
      }),
    );
    return {
      args: ['-p', '--no-title', '--config', overlay, '--model', model, prompt],
      env: {
        // It is looked for from the home directory on.
        PI_CONFIG_DIR: relative(home, root),
        PI_CODING_AGENT_DIR: undefined,
        OMP_PROFILE: undefined,
        PI_PROFILE: undefined,
        // Where these have a directory `omp`, it would go before.
        XDG_DATA_HOME: undefined,
        XDG_STATE_HOME: undefined,
        XDG_CACHE_HOME: undefined,
      },
    };
  },

  starter: (tools) => tools.find((tool) => tool.function.name === 'task'),
  offered: (schema) => placeIn(schema)?.['memory'],
  call(schema, task, memory) {
    const one = { task, memory };
    return { i: 'Check', ...(schema.properties?.['tasks'] ? { context: 'None.', tasks: [one] } : one) };
  },
  finish: (answer) => ({ toolCalls: [{ name: 'yield', arguments: { i: 'Report', data: { report: answer } } }] }),
};

function placeIn({ properties }: JsonSchema): Readonly<Record<string, JsonSchema>> | undefined {
  const items = properties?.['tasks']?.['items'] as JsonSchema | undefined;
  return items?.properties ?? properties;
}

/** What a user may have a model of its own for. */
const ROLES = ['default', 'smol', 'slow', 'plan', 'task', 'commit', 'tiny'];

/** What OMP keeps for itself in its agent directory. */
const KEPT = [
  'sessions',
  'blobs',
  'cache',
  'logs',
  'memories',
  'terminal-sessions',
  'custom-session-files',
  'python-gateway',
];

/** Where OMP looks, for this user. */
function directories(env: Environment, home: string): { root: string; agent: string; plugins: string } {
  const profile = env['OMP_PROFILE'] ?? env['PI_PROFILE'];
  const below = profile && profile !== 'default' ? ['profiles', profile] : [];
  const root = join(home, env['PI_CONFIG_DIR'] || '.omp', ...below);
  const named = below.length === 0 ? env['PI_CODING_AGENT_DIR'] : undefined;
  const data = env['XDG_DATA_HOME'] && join(env['XDG_DATA_HOME'], 'omp', ...below);
  return {
    root,
    agent: named || join(root, 'agent'),
    plugins: join(!named && data && existsSync(data) ? data : root, 'plugins'),
  };
}
