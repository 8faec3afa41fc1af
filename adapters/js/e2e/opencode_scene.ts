// What a suite plays in: a home, a project, a store with memories, a scripted model, and the real OpenCode with the
// plugin, configured as a user would do it. All of it lies in one temporary directory, which stays there if a test
// fails.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ModelServer } from './model_server.js';
import type { ModelRequest, Reply, ToolCall } from './model_server.js';
import { OpenCode, findOpenCode } from './opencode.js';
import { PACKAGE, makeProject } from './project.js';
import type { OpenCodeOptions } from './opencode.js';
import { OpenCodeServer } from './opencode_server.js';
import { Program } from './program.js';

/** The agent that a user talks to in OpenCode. */
export const PARENT_AGENT = 'build';

const TEST_MS = 120_000;

export interface SceneOptions extends Partial<Omit<OpenCodeOptions, 'home' | 'baseUrl'>> {
  /** The user's own memory-prefetch/config.json. */
  settings?: Record<string, unknown>;
  /** The path of the store, below the scene's directory. */
  store?: string;
}

/** What the model of a child says in its `step`th request, from 1. */
export type ChildScript = (request: ModelRequest, step: number) => Reply | undefined | Promise<Reply | undefined>;

export interface Child {
  id: string;
  /** All of its requests so far, that for a compaction among them. */
  requests: ModelRequest[];
}

/** What came of one prompt whose answer was to call tools. */
export interface Played {
  parent: string;
  /** The parent's requests, without the one that gives the session a title. */
  requests: ModelRequest[];
  children: Child[];
}

/** What the model does in one parent's session. */
interface Plan {
  calls: ToolCall[];
  child: ChildScript;
}

/** A call of OpenCode's own tool that starts a child. */
export function task(prompt: string, memory?: unknown, kind = 'general'): ToolCall {
  const given = { description: 'A task', prompt, subagent_type: kind };
  return { name: 'task', arguments: memory === undefined ? given : { ...given, memory } };
}

export class Scene {
  readonly root = mkdtempSync(join(tmpdir(), 'memory-prefetch-opencode-'));
  readonly home = join(this.root, 'home');
  readonly directory = join(this.root, 'project');
  readonly store: string;
  readonly program: Program;
  readonly model: ModelServer;
  readonly opencode: OpenCode;
  #server: OpenCodeServer | undefined;
  #failed = false;
  readonly #plans = new Map<string, Plan>();
  readonly #steps = new Map<string, number>();

  private constructor(model: ModelServer, options: SceneOptions) {
    this.model = model;
    this.store = join(this.root, options.store ?? 'store.sqlite');
    this.program = new Program(this.store);
    makeProject(this.directory);
    const program = findOpenCode();
    if (program === undefined) throw new Error('OpenCode is not there: run `npm ci` in adapters/js/e2e');
    this.opencode = new OpenCode(program, {
      home: this.home,
      baseUrl: model.baseUrl,
      plugin: [PACKAGE],
      ...options,
      env: { MEMORY_PREFETCH_STORE: `sqlite:${this.store}`, ...options.env },
    });
    if (options.settings) {
      const own = join(this.home, '.config', 'memory-prefetch');
      mkdirSync(own, { recursive: true });
      writeFileSync(join(own, 'config.json'), JSON.stringify(options.settings));
    }
    model.follow((request) => this.#answer(request));
  }

  static async make(options: SceneOptions = {}): Promise<Scene> {
    return new Scene(await ModelServer.start(), options);
  }

  /** Tells the store of the project and of its agent's memories. */
  remember(bodies: Record<string, string>, ...more: string[]): void {
    const project = this.program.addProject(this.directory);
    this.program.run(['agent', 'add', PARENT_AGENT]);
    for (const [id, body] of Object.entries(bodies)) {
      this.program.addMemory({ id, body, agent: PARENT_AGENT, project }, ...more);
    }
  }

  /** OpenCode as a server, which is started where none runs. */
  async server(): Promise<OpenCodeServer> {
    return (this.#server ??= await OpenCodeServer.start(this.opencode, this.directory));
  }

  /** Ends OpenCode as a crash would. The next prompt starts another one. */
  async crash(): Promise<void> {
    await this.#server?.kill();
    this.#server = undefined;
  }

  /** Has a parent call these tools in one step, and waits until it and its children have nothing more to do. */
  async play(
    calls: ToolCall[],
    { child, session, directory }: { child?: ChildScript; session?: string; directory?: string } = {},
  ): Promise<Played> {
    const server = await this.server();
    const parent = session ?? (await server.createSession({}, directory));
    const before = this.model.requests.length;
    this.plan(parent, calls, child);
    await server.prompt(parent, 'Begin.', undefined, directory);
    return this.played(parent, before);
  }

  /** What the model shall do at the next prompt in this session. */
  plan(parent: string, calls: ToolCall[], child: ChildScript = () => undefined): void {
    this.#plans.set(parent, { calls: [...calls], child });
  }

  /** What came of a parent's requests, from the one with this number on. */
  played(parent: string, from = 0): Played {
    const since = this.model.requests.slice(from);
    const ids = new Set(since.filter((request) => parentOf(request) === parent).map(sessionOf));
    return {
      parent,
      requests: since.filter((request) => sessionOf(request) === parent && request.body.tools),
      children: [...ids].map((id) => ({ id, requests: since.filter((request) => sessionOf(request) === id) })),
    };
  }

  /** A test in this scene. */
  test(name: string, run: () => Promise<void>): void {
    void test(name, { timeout: TEST_MS }, () => this.keepIfFailed(run));
  }

  /** What is left of a scene in which something failed is kept. */
  async keepIfFailed(run: () => Promise<void>): Promise<void> {
    try {
      await run();
      if (this.model.faults.length > 0) throw this.model.faults[0];
    } catch (error) {
      this.#failed = true;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.crash();
    this.opencode.close();
    await this.model.close();
    if (this.#failed) {
      const requests = this.model.requests.map((request) => JSON.stringify(request));
      writeFileSync(join(this.root, 'requests.jsonl'), requests.join('\n'));
      console.error(`What a failed test left, requests and logs, is in ${this.root}`);
    } else {
      rmSync(this.root, { recursive: true, force: true, maxRetries: 3 });
    }
  }

  async #answer(request: ModelRequest): Promise<Reply> {
    // Titles and compactions: they are offered no tools.
    if (!request.body.tools) return { text: 'A title, or a summary.' };
    const session = sessionOf(request);
    const parent = parentOf(request);
    const step = (this.#steps.get(session) ?? 0) + 1;
    this.#steps.set(session, step);
    if (parent !== undefined) {
      return (await this.#plans.get(parent)?.child(request, step)) ?? { text: 'The task is done.' };
    }
    const calls = this.#plans.get(session)?.calls.splice(0) ?? [];
    return calls.length > 0 ? { toolCalls: calls } : { text: 'All is done.' };
  }
}

/** The session that a request belongs to, as OpenCode's headers say. */
export function sessionOf({ headers }: ModelRequest): string {
  return String(headers['x-session-id']);
}

function parentOf({ headers }: ModelRequest): string | undefined {
  const parent = headers['x-parent-session-id'];
  return typeof parent === 'string' ? parent : undefined;
}
