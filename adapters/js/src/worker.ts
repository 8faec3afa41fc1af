// The thread that the host runs in, so that a store which is locked, or a component that does not end, never stops the
// harness's event loop. One message asks, one answers.

import { workerData } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { compile, digest } from './component.js';
import type { Settings } from './config.js';
import { openService } from './open.js';
import { PolicyError } from './host.js';
import type { Service } from './service.js';
import { StoreFailure } from './store.js';
import { warmUp } from './warm_up.js';

/** What is asked: a method of `Service`. */
export interface Question {
  id: number;
  method: Method;
  args: unknown[];
}

export type Method =
  'register' | 'taken' | 'claim' | 'replay' | 'recall' | 'get' | 'isMemoryOn' | 'page' | 'ended' | 'sweep' | 'hello';

/** What is answered. Errors keep what the other side branches on. */
export interface Reply {
  id: number;
  ok?: unknown;
  error?: { kind: 'policy' | 'store' | 'component'; tag: string; message: string };
}

/** What a worker is started with. */
export interface WorkerData {
  settings: Settings;
  port: MessagePort;
  /** Counts answers, for an asker that stands still. */
  signal: Int32Array;
}

const { settings, port, signal } = workerData as WorkerData;
let service: Promise<Service> | undefined;

// What takes long is done before the first question. The store is opened at that: a harness that delegates nothing makes
// no file.
compile();
setImmediate(warmUp);

port.on('message', (question: Question | 'close') => {
  if (question === 'close') {
    void Promise.resolve(service)
      .then((open) => open?.close())
      .finally(() => port.close());
    return;
  }
  void answer(question).then((reply) => {
    port.postMessage(reply);
    Atomics.add(signal, 0, 1);
    Atomics.notify(signal, 0);
  });
});

async function answer({ id, method, args }: Question): Promise<Reply> {
  try {
    // Opened at the first question, and again at the next one if that failed: a store may be repaired meanwhile.
    service ??= openService(settings);
    const open = await service.catch((error: unknown) => {
      service = undefined;
      throw error;
    });
    if (method === 'hello') return { id, ok: { prefix: open.prefix, digest } };
    const run = open[method] as (...args: unknown[]) => unknown;
    return { id, ok: run.apply(open, args) };
  } catch (error) {
    return { id, error: described(error) };
  }
}

function described(error: unknown): NonNullable<Reply['error']> {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof PolicyError) {
    const { error: policy } = error;
    return {
      kind: policy.tag === 'store' ? 'store' : 'policy',
      tag: policy.tag === 'store' ? policy.val.tag : policy.tag,
      message,
    };
  }
  if (error instanceof StoreFailure) return { kind: 'store', tag: error.kind, message };
  return { kind: 'component', tag: 'failed', message };
}
