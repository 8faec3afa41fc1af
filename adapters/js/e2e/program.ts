// The Rust host's program, which the tests take to fill a store and to look at it from outside: what the harness's
// plugin wrote there must be the same to the other host.

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Where the program is: as the environment says, else where `cargo build -p memory-prefetch` puts it. */
const PROGRAM =
  process.env['MEMORY_PREFETCH_PROGRAM'] ||
  fileURLToPath(new URL('../../../target/debug/memory-prefetch', import.meta.url));

export interface Memory {
  id: string;
  body: string;
  agent: string;
  project: string;
}

export class Program {
  readonly #store: string;

  /** `store`: the path of its file. */
  constructor(store: string) {
    this.#store = store;
  }

  /** Answers what it printed, byte for byte. Throws where it fails. */
  run(args: string[], input?: string): string {
    const env = { PATH: process.env['PATH'], MEMORY_PREFETCH_STORE: `sqlite:${this.#store}` };
    return execFileSync(PROGRAM, args, { env, input: input ?? '', encoding: 'utf8', timeout: 60_000 });
  }

  /** What magic-context, and so the plugin, calls the project of a directory. */
  projectOf(directory: string): string {
    return this.run(['project', 'id', directory]).trim();
  }

  addProject(directory: string, ...more: string[]): string {
    const project = this.projectOf(directory);
    this.run(['project', 'add', project, ...more]);
    return project;
  }

  addMemory({ id, body, agent, project }: Memory, ...more: string[]): void {
    // By stdin: an argument could not hold every text.
    this.run(['memory', 'add', '--id', id, '--agent', agent, '--project', project, ...more, '-'], body);
  }

  /** Everything that a session was given, as this host replays it. */
  replay(harness: string, session: string): string {
    return this.run(['replay', '--session', `${harness}/${session}`]);
  }
}
