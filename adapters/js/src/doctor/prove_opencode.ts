// OpenCode as the doctor starts it: the user's configuration stays where it is, and on top of it comes a provider that
// is the scripted model, a kind of agent that runs on it, and nothing else. Its data is in the temporary directory.

import { join } from 'node:path';
import { PACKAGE } from './finding.js';
import { MODEL, OUTPUT, PROVIDER, WINDOW } from './prove.js';
import type { Subject } from './prove.js';

/** The kind of agent that is started. */
const KIND = 'memory-prefetch-doctor';

export const opencode: Subject = {
  name: 'opencode',
  title: 'OpenCode',
  variable: 'MEMORY_PREFETCH_OPENCODE',
  install: '`npm install -g opencode-ai` installs it; MEMORY_PREFETCH_OPENCODE names its program if it is elsewhere',
  plugin: `is the line "plugin": [${JSON.stringify(PACKAGE)}] in ~/.config/opencode/opencode.json?`,
  withoutStarter: 'its tool `task` may be switched off in your configuration, by `tools` or by `permission`',

  prepare({ own, baseUrl, env, prompt }) {
    const model = `${PROVIDER}/${MODEL}`;
    const theirs = parsed(env['OPENCODE_CONFIG_CONTENT']);
    const content = {
      ...theirs,
      model,
      small_model: model,
      // So that no request goes elsewhere, whatever else is configured.
      enabled_providers: [PROVIDER],
      disabled_providers: [],
      provider: {
        [PROVIDER]: {
          npm: '@ai-sdk/openai-compatible',
          name: PROVIDER,
          options: { baseURL: baseUrl, apiKey: 'none' },
          models: { [MODEL]: { name: MODEL, tool_call: true, limit: { context: WINDOW, output: OUTPUT } } },
        },
      },
      agent: {
        ...(theirs['agent'] as object | undefined),
        [KIND]: { mode: 'subagent', model, description: 'Checks memory-prefetch', prompt: 'Answer.' },
        title: { model },
      },
      share: 'disabled',
      autoupdate: false,
      // Of a large project, one would take long.
      snapshot: false,
    };
    return {
      // A user who is asked says yes; what is denied stays so.
      args: ['run', '--auto', '--model', model, prompt],
      env: {
        XDG_DATA_HOME: join(own, 'data'),
        XDG_STATE_HOME: join(own, 'state'),
        OPENCODE_CONFIG_CONTENT: JSON.stringify(content),
        OPENCODE_DISABLE_AUTOUPDATE: '1',
        OPENCODE_DISABLE_MODELS_FETCH: '1',
        OPENCODE_DISABLE_SHARE: '1',
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
        OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      },
    };
  },

  starter: (tools) => tools.find((tool) => tool.function.name === 'task'),
  offered: (schema) => schema.properties?.['memory'],
  call: (_schema, task, memory) => ({ description: 'A check', prompt: task, subagent_type: KIND, memory }),
  finish: (answer) => ({ text: answer }),
};

function parsed(content: string | undefined): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(content ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
