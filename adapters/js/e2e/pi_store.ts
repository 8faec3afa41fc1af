// A store with memories of known bytes, made with the Rust program as its user would: the harness under test only reads
// what another host wrote. Each test has a store and a project of its own.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package, as a user installs it: this file runs from `dist-e2e` in it. */
export const PACKAGE = fileURLToPath(new URL('..', import.meta.url));

/** The Rust program: named by the environment, or as cargo builds it. */
export function findProgram(): string {
  return process.env['MEMORY_PREFETCH_PROGRAM'] || join(PACKAGE, '..', '..', 'target', 'debug', 'memory-prefetch');
}

/** The agent that owns all memories of a test; it shares them with its project. */
const OWNER = 'keeper';

export class SeededStore {
  readonly file: string;
  readonly directory: string;
  readonly #project: string;

  /** `home`: a directory of this test alone. */
  constructor(home: string, memories: Readonly<Record<string, string>> = {}) {
    this.file = join(home, 'store', 'memories.sqlite');
    this.directory = join(home, 'project');
    mkdirSync(dirname(this.file), { recursive: true });
    makeProject(this.directory);
    this.#project = this.program('project', 'id', this.directory).trim();
    this.program('project', 'add', this.#project);
    this.program('agent', 'add', OWNER);
    for (const [id, body] of Object.entries(memories)) this.add(id, body);
  }

  get env(): Record<string, string> {
    return { MEMORY_PREFETCH_STORE: `sqlite:${this.file}` };
  }

  /** The text goes by stdin, since an argument cannot carry every text. */
  add(id: string, body: string): void {
    const whose = ['--agent', OWNER, '--project', this.#project, '--audience', 'project'];
    this.#run(['memory', 'add', ...whose, '--id', id, '-'], body);
  }

  edit(id: string, body: string): void {
    this.#run(['memory', 'edit', id, '-'], body);
  }

  /** Erases it, also where it was frozen. */
  forget(id: string): void {
    this.program('memory', 'forget', id);
  }

  program(...args: string[]): string {
    return this.#run(args, '');
  }

  #run(args: string[], input: string): string {
    const env = { PATH: process.env['PATH'] ?? '', HOME: dirname(this.file), ...this.env };
    return execFileSync(findProgram(), args, { input, encoding: 'utf8', env, timeout: 20_000 });
  }
}

/** A git repository with one commit, after which the project is named; the directory's name makes it another one. */
function makeProject(directory: string): void {
  mkdirSync(directory, { recursive: true });
  writeFileSync(join(directory, 'README.md'), `A project in ${directory}.\n`);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=e2e', '-c', 'user.email=e2e@localhost', ...args], { cwd: directory });
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '--message', 'The first commit');
}
