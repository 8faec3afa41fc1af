// A store with memories of known bytes, made with the Rust program as its user would: the harness under test only reads
// what another host wrote. Each test has a store and a project of its own.

import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Program } from './program.js';
import { makeProject } from './project.js';

/** The agent that owns all memories of a test; it shares them with its project. */
const OWNER = 'keeper';

export class SeededStore {
  readonly file: string;
  readonly directory: string;
  readonly #program: Program;
  readonly #project: string;

  /** `home`: a directory of this test alone. */
  constructor(home: string, memories: Readonly<Record<string, string>> = {}) {
    this.file = join(home, 'store', 'memories.sqlite');
    this.directory = join(home, 'project');
    mkdirSync(dirname(this.file), { recursive: true });
    makeProject(this.directory);
    this.#program = new Program(this.file);
    this.#project = this.#program.addProject(this.directory);
    this.program('agent', 'add', OWNER);
    for (const [id, body] of Object.entries(memories)) this.add(id, body);
  }

  get env(): Record<string, string> {
    return { MEMORY_PREFETCH_STORE: `sqlite:${this.file}` };
  }

  add(id: string, body: string): void {
    this.#program.addMemory({ id, body, agent: OWNER, project: this.#project }, '--audience', 'project');
  }

  edit(id: string, body: string): void {
    this.#program.run(['memory', 'edit', id, '-'], body);
  }

  /** Erases it, also where it was frozen. */
  forget(id: string): void {
    this.program('memory', 'forget', id);
  }

  program(...args: string[]): string {
    return this.#program.run(args);
  }
}
