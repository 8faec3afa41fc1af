// The host in a worker: an answer comes, or a failure does; never does a caller wait for ever, and never is what follows
// lost with what failed.

import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client, HostFailure, client } from '../dist/client.js';
import { readSettings } from '../dist/config.js';
import type { Settings } from '../dist/config.js';
import type { Caller } from '../dist/service.js';

function settings(more: Partial<Settings> = {}): Settings {
  const HOME = mkdtempSync(join(tmpdir(), 'memory-prefetch-client-'));
  return { ...readSettings({ HOME }), busyTimeoutMs: 100, ...more };
}

const caller: Caller = { key: { harness: 'h', id: 's' }, agent: 'a', project: 'p', parent: undefined, memoryOn: true };

const fails = (kind: string, tag: string) => (error: unknown) =>
  error instanceof HostFailure && error.kind === kind && error.tag === tag;

test('the default store is made, with its directory, at the first question', async () => {
  const host = new Client(settings());
  assert.match((await host.hello()).prefix, /^\[memory-prefetch\]/);
  assert.deepEqual(await host.get(caller, ['1']), { memories: [], unavailable: ['1'] });
  await host.close();
});

test('errors keep what callers branch on', async () => {
  const host = new Client(settings());
  await assert.rejects(host.get(caller, []), fails('policy', 'malformed'));
  await assert.rejects(host.page(caller, 'snap_'.padEnd(44, '0'), 1), fails('policy', 'unavailable'));
  await host.close();
});

test('a store that cannot be opened is said each time, until it can be', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-client-'));
  const store = join(directory, 'store.sqlite');
  writeFileSync(store, 'not a database, and long enough to be one'.repeat(100));
  const host = new Client(settings({ store, isDefaultStore: false }));
  for (let time = 0; time < 2; time += 1) await assert.rejects(host.get(caller, ['1']), fails('store', 'damaged'));
  writeFileSync(store, '');
  assert.deepEqual((await host.get(caller, ['1'])).unavailable, ['1']);
  await host.close();
});

test('a store that is locked is busy after its time, and the event loop goes on meanwhile', async () => {
  const store = join(mkdtempSync(join(tmpdir(), 'memory-prefetch-client-')), 'store.sqlite');
  const host = new Client(settings({ store, isDefaultStore: false, busyTimeoutMs: 300 }));
  await host.get(caller, ['1']);
  const { Worker } = await import('node:worker_threads');
  const locker = new Worker(new URL('./client_locker.js', import.meta.url), { workerData: store });
  await new Promise((resolve) => locker.once('message', resolve));
  let ticks = 0;
  const ticking = setInterval(() => (ticks += 1), 10);
  const delegating = {
    task: 't',
    memory: undefined,
    capacity: CAPACITY,
    agentType: undefined,
    callId: undefined,
    ttlSeconds: undefined,
  };
  await assert.rejects(host.register(caller, delegating), fails('store', 'busy'));
  clearInterval(ticking);
  assert.ok(ticks > 5, `${ticks} ticks`);
  locker.postMessage('release');
  await new Promise((resolve) => locker.once('exit', resolve));
  assert.equal((await host.register(caller, delegating)).tag, 'handed-over');
  await host.close();
});

test('one client for the same settings, another one for others', async () => {
  const same = settings();
  assert.equal(client(same), client({ ...same }));
  assert.notEqual(client(same), client({ ...same, store: '/elsewhere' }));
});

const CAPACITY = { budget: { tag: 'tokens', val: 1_000 }, model: undefined, overflow: 'refuse' } as const;
