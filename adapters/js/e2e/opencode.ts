// Runs the real OpenCode, in a home of its own, against a scripted model, set up as a user would have it. Nothing of
// the user's own home is read or written, and nothing is fetched from the network.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export interface Finished {
  readonly stdout: string;
  readonly stderr: string;
  /** `null` where a signal ended it, as the time limit does. */
  readonly code: number | null;
}

export interface RunOptions {
  readonly session?: string;
  /** The project that it works in. */
  readonly directory?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
}

export interface OpenCodeOptions {
  readonly home: string;
  readonly baseUrl: string;
  /** Entries of the `plugin` list of the user's own configuration. */
  readonly plugin: readonly (string | readonly [string, Readonly<Record<string, unknown>>])[];
  /** More of the user's own configuration. */
  readonly config?: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, string>>;
  /** Limits of the model that everything runs on, in tokens. */
  readonly context?: number;
  readonly output?: number;
}

/** How long one prompt, or the start of a server, may take. */
const TIME_MS = 60_000;

/** A running program with what it printed. */
export interface Running {
  process: ChildProcess;
  printed: { stdout: string; stderr: string };
  finished: Promise<Finished>;
}

export class OpenCode {
  readonly #program: string;
  readonly #env: Record<string, string>;
  readonly #running = new Set<ChildProcess>();

  constructor(program: string, options: OpenCodeOptions) {
    const { home } = options;
    this.#program = program;
    this.#env = {
      PATH: process.env['PATH'] ?? '',
      LANG: 'C.UTF-8',
      HOME: home,
      XDG_CONFIG_HOME: join(home, '.config'),
      XDG_DATA_HOME: join(home, '.local', 'share'),
      XDG_CACHE_HOME: join(home, '.cache'),
      XDG_STATE_HOME: join(home, '.local', 'state'),
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_SHARE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      ...options.env,
    };
    const own = join(home, '.config', 'opencode');
    mkdirSync(own, { recursive: true });
    pretendInstalled(own);
    writeFileSync(join(own, 'opencode.json'), JSON.stringify(configuration(options), null, 2));
  }

  /** One prompt in a process of its own. */
  async run(prompt: string, options: RunOptions = {}): Promise<Finished> {
    const { session } = options;
    return this.command(['run', ...(session === undefined ? [] : ['--session', session]), prompt], options);
  }

  async command(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    const { process, finished } = this.start(args, options);
    const limit = setTimeout(() => stop(process), options.timeoutMs ?? TIME_MS);
    try {
      return await finished;
    } finally {
      clearTimeout(limit);
    }
  }

  start(args: readonly string[], { directory, env }: RunOptions = {}): Running {
    const process = spawn(this.#program, args, {
      cwd: directory,
      env: { ...this.#env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // A group of its own, so that what it starts ends with it.
      detached: true,
    });
    this.#running.add(process);
    const printed = { stdout: '', stderr: '' };
    process.stdout.setEncoding('utf8').on('data', (text: string) => (printed.stdout += text));
    process.stderr.setEncoding('utf8').on('data', (text: string) => (printed.stderr += text));
    const finished = new Promise<Finished>((resolve, reject) => {
      process.once('error', reject);
      process.once('close', (code) => {
        this.#running.delete(process);
        resolve({ ...printed, code });
      });
    });
    return { process, printed, finished };
  }

  /** Ends whatever still runs. */
  close(): void {
    for (const process of this.#running) stop(process);
  }
}

/** Ends it at once, as a crash or a power failure would. */
export function stop(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended in the meantime.
  }
}

/** Where the program is: as the environment says, else what e2e/package.json pins and npm installed there. */
export function findOpenCode(): string | undefined {
  const named = process.env['MEMORY_PREFETCH_OPENCODE'];
  if (named) return named;
  // This file runs from dist-e2e.
  const require = createRequire(new URL('../e2e/package.json', import.meta.url));
  try {
    const found = require.resolve(`opencode-${process.platform}-${process.arch}/package.json`);
    const program = join(dirname(found), 'bin', 'opencode');
    return existsSync(program) ? program : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Where a plugin is configured, OpenCode waits at its start until npm has put `@opencode-ai/plugin` beside the
 * configuration. It looks at these two to see whether that was done; nothing that we run needs the package itself.
 */
function pretendInstalled(directory: string): void {
  mkdirSync(join(directory, 'node_modules'), { recursive: true });
  const lock = { lockfileVersion: 3, packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } };
  writeFileSync(join(directory, 'package-lock.json'), JSON.stringify(lock));
}

function configuration({ baseUrl, plugin, config, context, output }: OpenCodeOptions): object {
  const model = (name: string, limit: object) => ({ name, tool_call: true, limit });
  return {
    $schema: 'https://opencode.ai/config.json',
    model: 'scripted/usual',
    small_model: 'scripted/usual',
    plugin,
    provider: {
      scripted: {
        npm: '@ai-sdk/openai-compatible',
        name: 'scripted',
        options: { baseURL: baseUrl, apiKey: 'none' },
        models: {
          usual: model('usual', { context: context ?? 100_000, output: output ?? 4_000 }),
          // A quarter of this is left for memories: too little for most.
          tiny: model('tiny', { context: 1_200, output: 200 }),
        },
      },
    },
    agent: {
      tiny: {
        mode: 'subagent',
        model: 'scripted/tiny',
        description: 'Has a model with a small window',
        prompt: 'Work.',
      },
    },
    ...config,
  };
}
