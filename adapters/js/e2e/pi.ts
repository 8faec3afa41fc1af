// Runs the real Pi in a home of its own, against a scripted model, set up as a user would have it: the package is
// installed with `pi install`, and the subagent extension that Pi ships as an example is linked as its page says. Nothing
// of the user's own home is read or written, and nothing is fetched from the network.

import { existsSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PACKAGE } from './project.js';
import { runToEnd } from './pi_process.js';
import type { Finished, RunOptions } from './pi_process.js';

/** The tool that starts a child. */
export const SUBAGENT = 'subagent';

/** The kinds of agents that a test may name. The second one has no tools of ours (`tools` lists all that it has). */
export const WORKER = 'worker';
export const READER = 'reader';

/** What stands before a task in its child's first message. */
export const TASK_PREFIX = 'Task: ';

/** Where the program is: as the environment says, else what `npm ci` has installed in `e2e`. */
export function findPi(): string {
  const named = process.env['MEMORY_PREFETCH_PI'];
  if (named) return named;
  const pinned = join(PACKAGE, 'e2e', 'node_modules', '.bin', 'pi');
  if (!existsSync(pinned)) throw new Error(`${pinned} is not there: run \`npm ci\` in adapters/js/e2e`);
  return pinned;
}

export class Pi {
  readonly #program: string;
  readonly #env: Record<string, string>;

  private constructor(program: string, home: string) {
    this.#program = program;
    this.#env = {
      PATH: process.env['PATH'] ?? '',
      LANG: 'C.UTF-8',
      HOME: home,
      PI_OFFLINE: '1',
      PI_SKIP_VERSION_CHECK: '1',
      PI_TELEMETRY: '0',
    };
  }

  /** Sets up `home` and installs the package there. */
  static async install(program: string, home: string, baseUrl: string): Promise<Pi> {
    const own = join(home, '.pi', 'agent');
    mkdirSync(join(own, 'agents'), { recursive: true });
    const model = { id: 'model', contextWindow: 100_000, maxTokens: 4_000 };
    const provider = { baseUrl, api: 'openai-completions', apiKey: 'none', models: [model] };
    writeFileSync(join(own, 'models.json'), JSON.stringify({ providers: { scripted: provider } }));
    const compaction = { enabled: true, reserveTokens: 10_000, keepRecentTokens: 200 };
    writeFileSync(
      join(own, 'settings.json'),
      JSON.stringify({ defaultProvider: 'scripted', defaultModel: 'model', compaction }),
    );
    writeFileSync(join(own, 'agents', `${WORKER}.md`), agent(WORKER, ''));
    writeFileSync(join(own, 'agents', `${READER}.md`), agent(READER, 'tools: read, grep\n'));
    linkSubagent(program, own);
    const pi = new Pi(program, home);
    const installed = await pi.command(['install', PACKAGE]);
    if (installed.code !== 0) throw new Error(`pi install failed:\n${installed.stdout}${installed.stderr}`);
    return pi;
  }

  /** Prompts, one after the other, in a process of their own, as `pi -p` has it. */
  async run(prompts: string | readonly string[], options: RunOptions = {}): Promise<Finished> {
    return await this.command(['-p', ...(options.args ?? []), ...[prompts].flat()], options);
  }

  async command(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    return await runToEnd(this.#program, args, this.#env, options);
  }
}

function agent(name: string, more: string): string {
  return `---\nname: ${name}\ndescription: Does what it is told.\n${more}---\n\nYou are the agent ${name}.\n`;
}

/** As examples/extensions/subagent/README.md in Pi's package says. */
function linkSubagent(program: string, own: string): void {
  const example = join(dirname(realpathSync(program)), '..', 'examples', 'extensions', 'subagent');
  const directory = join(own, 'extensions', 'subagent');
  mkdirSync(directory, { recursive: true });
  for (const file of ['index.ts', 'agents.ts']) symlinkSync(join(example, file), join(directory, file));
}
