// The harness's side of the worker: asks, waits no longer than it may, and starts a new worker after one that had to be
// ended. One worker in a process for each store, however many plugins and copies of this package there are: SQLite's locks
// on a file belong to the process.

import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import type { Answer, Block, Claim, DelegationOutcome, Found, SessionKey, View } from './contract.js';
import type { Settings } from './config.js';
import type { Caller, Delegating, Text } from './service.js';
import type { Method, Question, Reply, WorkerData } from './worker.js';

/** Why there is no answer. `tag`: the contract's error, or the store's; `timeout`: the worker did not answer and was ended. */
export class HostFailure extends Error {
  constructor(
    readonly kind: 'policy' | 'store' | 'component',
    readonly tag: string,
    message: string,
  ) {
    super(message);
    this.name = 'HostFailure';
  }
}

/** How long an answer may take beside the store's own waiting time, in milliseconds. A harness waits for it. */
const PATIENCE_MS = 5_000;

/**
 * How long the harness's thread stands still for an answer that is on its way, in milliseconds, before it goes on with
 * something else. A harness's event loop is full: an answer that took the worker 5 ms is otherwise seen 10 ms later.
 */
const AT_ONCE_MS = 20;

/** A worker, and how it is spoken to. */
interface Connection {
  worker: Worker;
  port: MessagePort;
  /** Counts answers. */
  signal: Int32Array;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: HostFailure): void;
  timer: NodeJS.Timeout;
}

/** The operations of `Service`, from another thread. Each throws `HostFailure`. */
export class Client {
  #connection: Connection | undefined;
  #waiting = new Map<number, Waiting>();
  #next = 1;

  constructor(readonly settings: Settings) {
    // So that it is ready when the first delegation comes.
    this.#start();
  }

  /** `isWaited`: the harness goes on when this is answered. */
  register(parent: Caller, delegating: Delegating, isWaited = true): Promise<DelegationOutcome> {
    return this.#ask('register', [parent, delegating, isWaited], isWaited ? AT_ONCE_MS : 0);
  }

  taken(parent: Caller, callId: string): Promise<boolean> {
    return this.#ask('taken', [parent, callId]);
  }

  claim(child: Caller, occasion: string, claim: Claim): Promise<Answer> {
    return this.#ask('claim', [child, occasion, claim]);
  }

  replay(child: Caller): Promise<Text[]> {
    return this.#ask('replay', [child], AT_ONCE_MS);
  }

  recall(caller: Caller, query: string, agent: string | undefined, limit: number): Promise<View[]> {
    return this.#ask('recall', [caller, query, agent, limit]);
  }

  get(caller: Caller, ids: string[]): Promise<Found> {
    return this.#ask('get', [caller, ids]);
  }

  isMemoryOn(caller: Caller): Promise<boolean> {
    return this.#ask('isMemoryOn', [caller]);
  }

  page(caller: Caller, ref: string, number: number): Promise<Block> {
    return this.#ask('page', [caller, ref, number]);
  }

  ended(key: SessionKey): Promise<void> {
    return this.#ask('ended', [key]);
  }

  sweep(): Promise<boolean> {
    return this.#ask('sweep', []);
  }

  /** How blocks begin, and which component this is. */
  hello(): Promise<{ prefix: string; digest: string }> {
    return this.#ask('hello', []);
  }

  /** Let the worker finish what it does and close the store. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    if (!connection) return;
    const { worker, port } = connection;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.ref();
    port.postMessage('close');
    await ended;
  }

  #start(): Connection {
    const { port1: port, port2 } = new MessageChannel();
    const signal = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    const workerData: WorkerData = { settings: this.settings, port: port2, signal };
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData, transferList: [port2] });
    const connection = { worker, port, signal };
    const lost = (why: string) => this.#lost(connection, new HostFailure('component', 'failed', why));
    port.on('message', (reply: Reply) => this.#answered(reply));
    worker.on('error', (error) => lost(`the worker failed: ${error.message}`));
    worker.on('exit', () => lost('the worker has ended'));
    // Nothing that waits for it may keep a harness from ending.
    worker.unref();
    port.unref();
    this.#connection = connection;
    return connection;
  }

  /** `atOnceMs`: how long to stand still for the answer. */
  #ask<T>(method: Method, args: unknown[], atOnceMs = 0): Promise<T> {
    const connection = this.#connection ?? this.#start();
    const id = this.#next++;
    return new Promise<T>((resolve, reject) => {
      const patience = this.settings.busyTimeoutMs + PATIENCE_MS;
      const timer = setTimeout(() => {
        this.#lost(connection, new HostFailure('component', 'timeout', `no answer within ${patience} ms`));
        void connection.worker.terminate();
      }, patience);
      try {
        connection.port.postMessage({ id, method, args } satisfies Question);
      } catch (error) {
        // What cannot be copied to another thread is nobody's fault but the question's.
        clearTimeout(timer);
        reject(new HostFailure('component', 'failed', `it cannot be asked: ${String(error)}`));
        return;
      }
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject, timer });
      this.#standStill(connection, id, atOnceMs);
    });
  }

  #standStill({ port, signal }: Connection, id: number, milliseconds: number): void {
    const end = performance.now() + milliseconds;
    for (;;) {
      const answers = Atomics.load(signal, 0);
      for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
        this.#answered(next.message as Reply);
      }
      const left = end - performance.now();
      if (!this.#waiting.has(id) || left <= 0) return;
      Atomics.wait(signal, 0, answers, left);
    }
  }

  #answered({ id, ok, error }: Reply): void {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    this.#waiting.delete(id);
    clearTimeout(waiting.timer);
    if (error) waiting.reject(new HostFailure(error.kind, error.tag, error.message));
    else waiting.resolve(ok);
  }

  /** Whoever waits for this worker is told, and the next question goes to a new one. */
  #lost(connection: Connection, failure: HostFailure): void {
    if (this.#connection !== connection) return;
    this.#connection = undefined;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { reject, timer } of waiting) {
      clearTimeout(timer);
      reject(failure);
    }
  }
}

const CLIENTS = Symbol.for('memory-prefetch.clients');

/** The client of this process for these settings. */
export function client(settings: Settings): Client {
  const all = ((globalThis as Record<symbol, unknown>)[CLIENTS] ??= new Map<string, Client>()) as Map<string, Client>;
  const name = JSON.stringify(settings);
  const known = all.get(name) ?? new Client(settings);
  all.set(name, known);
  return known;
}
