// Runs the real OMP in a home of its own, against a scripted model, set up as a user would have it: the package is
// installed with `omp plugin install`. Nothing of the user's own home is read or written, and nothing is fetched from the
// network.

import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { PACKAGE } from './project.js';
import { runToEnd } from './pi_process.js';
import type { Finished, RunOptions } from './pi_process.js';

/** The tool that starts a child. */
export const TASK = 'task';

/** What stands before a task in its child's first message. */
export const TASK_PREFIX = 'Complete assignment thoroughly:\n\n';

/**
 * Where the program is: as the environment says, else what `npm install` has put into `e2e/omp`. Undefined where nobody
 * did: at 1.2 GB it is not for everybody.
 */
export function findOmp(): string | undefined {
  const named = process.env['MEMORY_PREFETCH_OMP'];
  if (named) return named;
  const pinned = join(PACKAGE, 'e2e', 'omp', 'node_modules', '.bin', 'omp');
  return existsSync(pinned) ? pinned : undefined;
}

/** Without `async` off, `omp -p` ends before a child has begun. */
const CONFIG = `modelRoles:
  default: scripted/model
async:
  enabled: false
compaction:
  enabled: true
  reserveTokens: 10000
  keepRecentTokens: 200
`;

export class Omp {
  readonly #program: string;
  readonly #env: Record<string, string>;
  readonly #own: string;

  private constructor(program: string, home: string) {
    this.#program = program;
    this.#own = join(home, '.omp', 'agent');
    // It runs on Bun, which lies beside it, or is the package's own.
    const bun = [dirname(program), join(PACKAGE, 'node_modules', '.bin'), process.env['PATH'] ?? ''];
    this.#env = { PATH: bun.join(delimiter), LANG: 'C.UTF-8', HOME: home };
  }

  /** Sets up `home` and installs the package there. */
  static async install(program: string, home: string, baseUrl: string): Promise<Omp> {
    const omp = new Omp(program, home);
    mkdirSync(omp.#own, { recursive: true });
    const model = { id: 'model', name: 'model', contextWindow: 100_000, maxTokens: 4_000 };
    const provider = { baseUrl, api: 'openai-completions', apiKey: 'none', models: [model] };
    // JSON is YAML.
    writeFileSync(join(omp.#own, 'models.yml'), JSON.stringify({ providers: { scripted: provider } }));
    writeFileSync(join(omp.#own, 'config.yml'), CONFIG);
    const installed = await omp.command(['plugin', 'install', PACKAGE]);
    if (installed.code !== 0) throw new Error(`omp plugin install failed:\n${installed.stdout}${installed.stderr}`);
    return omp;
  }

  /** Prompts, one after the other, in a process of their own, as `omp -p` has it. */
  async run(prompts: string | readonly string[], options: RunOptions = {}): Promise<Finished> {
    return await this.command(['-p', ...(options.args ?? []), ...[prompts].flat()], options);
  }

  async command(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
    return await runToEnd(this.#program, args, this.#env, options);
  }
}
