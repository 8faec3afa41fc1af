// A harness of Pi's family at work: one parent that delegates, children that use a tool and answer, and every request
// that came of it. What differs between the harnesses is in `Harness`; the tests that both pass are in pi_behaviour.ts.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ModelServer, textsOf } from './model_server.js';
import type { JsonSchema, ModelRequest, Reply, ToolCall } from './model_server.js';
import { BLOCK } from './pi_blocks.js';
import { SeededStore } from './pi_store.js';
import type { Finished, RunOptions } from './pi_process.js';

/** A child that is to be started. */
export interface Delegated {
  readonly task: string;
  readonly memory?: unknown;
}

export interface Harness {
  readonly name: string;
  readonly home: string;
  /** The folder of its session files. */
  readonly sessions: string;
  /** What stands before a task in its child's first message. */
  readonly taskPrefix: string;
  /** The name of its task tool. */
  readonly tool: string;
  /** One call of the task tool that starts these children together. */
  delegate(children: readonly Delegated[]): ToolCall;
  /** How a child ends, with this answer. */
  finish(answer: string): Reply;
  /** The schemas that the task tool offers for `memory`, by what they are for. */
  offered(parameters: JsonSchema): Readonly<Record<string, JsonSchema | undefined>>;
  run(prompts: string | readonly string[], options: RunOptions): Promise<Finished>;
}

/** A tool that all of these harnesses have, and that does no harm. */
export const HARMLESS: ToolCall = { name: 'bash', arguments: { command: 'echo hello' } };

/** What a child does; by default it uses a tool, so that it makes a second request, and then answers. */
export type ChildScript = (child: ModelRequest, task: string) => Reply | undefined | Promise<Reply | undefined>;

export interface Play {
  readonly memories?: Readonly<Record<string, string>>;
  /** What the parent calls in its first answer. */
  readonly calls: ToolCall[];
  readonly child?: ChildScript;
  /** The user's configuration of the package. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Before the parent starts. */
  readonly before?: (store: SeededStore) => void;
  readonly options?: RunOptions;
  /** A page that a model asks for is a tool's answer, which the harness keeps as any other. */
  readonly asksForPages?: boolean;
}

/** What came of it. */
export interface Played {
  readonly store: SeededStore;
  readonly finished: Finished;
  readonly requests: readonly ModelRequest[];
  readonly parent: readonly ModelRequest[];
  /** The requests of the children that were given this task. */
  child(task: string): readonly ModelRequest[];
}

export class Bench {
  readonly model: ModelServer;
  readonly harness: Harness;
  readonly #root: string;
  #tests = 0;

  private constructor(model: ModelServer, harness: Harness, root: string) {
    this.model = model;
    this.harness = harness;
    this.#root = root;
  }

  static async open(make: (home: string, baseUrl: string) => Promise<Harness>): Promise<Bench> {
    const model = await ModelServer.start();
    const root = mkdtempSync(join(tmpdir(), 'memory-prefetch-pi-'));
    try {
      return new Bench(model, await make(join(root, 'home'), model.baseUrl), root);
    } catch (error) {
      await model.close();
      rmSync(root, { recursive: true, force: true });
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.model.close();
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** A store and a project for one test. */
  store(memories?: Readonly<Record<string, string>>): SeededStore {
    return new SeededStore(join(this.#root, `test-${++this.#tests}`), memories);
  }

  /** The user's configuration of the package, from now on. */
  configure(config: Readonly<Record<string, unknown>> = {}): void {
    const file = join(this.harness.home, '.config', 'memory-prefetch', 'config.json');
    mkdirSync(dirname(file), { recursive: true });
    // Nobody else writes to these stores for long, but for the test that means it.
    writeFileSync(file, JSON.stringify({ busyTimeoutMs: 500, ...config }));
  }

  /** One run of a parent, to its end. */
  async play(play: Play): Promise<Played> {
    const store = this.store(play.memories);
    this.configure(play.config);
    play.before?.(store);
    this.model.follow(async (request) => {
      const task = this.taskOf(request);
      if (task === undefined) return afterTool(request) ? { text: 'The parent is done.' } : { toolCalls: play.calls };
      return (await play.child?.(request, task)) ?? this.work(request, task);
    });
    return await this.#record(store, 'Please delegate.', play.options, play.asksForPages);
  }

  /** Another run in the same store, where no parent is involved. By default the session uses a tool and answers. */
  async again(
    store: SeededStore,
    prompts: string | readonly string[],
    options: RunOptions = {},
    script: (request: ModelRequest) => Reply = worksAlone,
  ): Promise<Played> {
    this.model.follow(script);
    return await this.#record(store, prompts, options);
  }

  /** What a child does where a test does not say. */
  work(request: ModelRequest, task: string): Reply {
    return afterTool(request) ? this.harness.finish(answerTo(task)) : { toolCalls: [HARMLESS] };
  }

  /** The task that this request's session was started with; undefined: it was started by the user. */
  taskOf(request: ModelRequest): string | undefined {
    const { taskPrefix } = this.harness;
    const said = request.body.messages.filter(({ role }) => role === 'user').flatMap(textsOf);
    return said.find((text) => text.startsWith(taskPrefix))?.slice(taskPrefix.length);
  }

  async #record(
    store: SeededStore,
    prompts: string | readonly string[],
    options: RunOptions = {},
    keeps = false,
  ): Promise<Played> {
    const from = this.model.requests.length;
    const before = transcripts(this.harness.sessions);
    const env = { ...store.env, ...options.env };
    const finished = await this.harness.run(prompts, { directory: store.directory, ...options, env });
    assert.deepEqual(this.model.faults.splice(0), []);
    assert.equal(finished.code, options.crash?.aborted ? null : 0, `${finished.stdout}\n${finished.stderr}`);
    assert.doesNotMatch(finished.stderr, /Extension error|Failed to load extension/);
    for (const [file, text] of transcripts(this.harness.sessions)) {
      const added = text.slice(before.get(file)?.length ?? 0);
      if (!keeps) assert.ok(!added.includes(BLOCK), `a block is kept in ${file}, where no erasure would find it`);
    }
    const requests = this.model.requests.slice(from);
    const tasks = new Map(requests.map((request) => [request, this.taskOf(request)]));
    return {
      store,
      finished,
      requests,
      parent: requests.filter((request) => tasks.get(request) === undefined),
      child: (task) => requests.filter((request) => tasks.get(request) === task),
    };
  }
}

function worksAlone(request: ModelRequest): Reply {
  return afterTool(request) ? { text: 'Done.' } : { toolCalls: [HARMLESS] };
}

/** What a child answers that has done this task. */
export function answerTo(task: string): string {
  return `Done: ${task}`;
}

/** Whether a tool has answered already. */
export function afterTool(request: ModelRequest): boolean {
  return request.body.messages.some(({ role }) => role === 'tool');
}

/** The session files, by path. */
export function transcripts(directory: string): Map<string, string> {
  const names = existsSync(directory) ? readdirSync(directory, { recursive: true, encoding: 'utf8' }) : [];
  const files = names.filter((name) => name.endsWith('.jsonl')).map((name) => join(directory, name));
  return new Map(files.map((file) => [file, readFileSync(file, 'utf8')]));
}
