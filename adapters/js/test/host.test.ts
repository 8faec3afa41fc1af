// One call is one unit of work: what a trap, a limit or a store that fails leaves behind.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Request, SessionKey } from '../dist/contract.js';
import { ACCESS, allows } from '../dist/exports.js';
import type { ExportName, Import } from '../dist/exports.js';
import { ComponentFailure, PolicyError, Prefetch } from '../dist/host.js';
import { DEFAULT_LIMITS } from '../dist/limits.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { StoreFailure } from '../dist/store.js';

const key = (id: string): SessionKey => ({ harness: 'local', id });

function request(ids: string[]): Request {
  return {
    task: 'Look.',
    memory: { tag: 'prefetch-ids', val: { ids, mode: 'frozen' } },
    capacity: { budget: { tag: 'tokens', val: 100_000 }, model: undefined, overflow: 'refuse' },
    priorities: [],
    agentType: undefined,
    ttlSeconds: undefined,
    children: 1,
    strict: false,
    carry: 'snapshot-ref',
    callId: undefined,
    attributes: [],
  };
}

function seeded(limits = DEFAULT_LIMITS): Prefetch<SqliteStore> {
  const store = SqliteStore.inMemory();
  store.ensureDirectory({ agent: 'a', project: 'p', session: key('lead'), memoryOn: true });
  store.ensureDirectory({ agent: 'b', project: 'p', session: key('child'), parent: key('lead'), memoryOn: true });
  for (const id of ['1', '2']) {
    const body = `body ${id}`;
    store.addMemory(
      { id, owner: 'a', project: 'p', audience: 'agent', category: '', priority: 0, trusted: true, body },
      0n,
    );
  }
  return new Prefetch(store, { limits });
}

test('after a trap the next call has a new instance, and nothing of the unit is kept', () => {
  const prefetch = seeded();
  const insert = prefetch.store.insertSnapshot;
  // A host's fault in an import ends the call as a trap does: its error passes through the component's code.
  prefetch.store.insertSnapshot = () => {
    throw new TypeError('a fault of the host');
  };
  assert.throws(
    () => prefetch.delegate(key('lead'), request(['1'])),
    (error) => error instanceof ComponentFailure && /orchestrator\.delegate: a fault of the host/.test(error.message),
  );
  prefetch.store.insertSnapshot = insert;
  assert.equal(prefetch.store.allAudit(10).filter(({ rolledBack }) => !rolledBack).length, 0);
  assert.equal(prefetch.delegate(key('lead'), request(['1'])).tag, 'handed-over');
});

test('a store that fails is the policy’s error, and the unit is undone', () => {
  const prefetch = seeded();
  const { insertHandOver } = prefetch.store;
  prefetch.store.insertHandOver = () => {
    throw new StoreFailure('damaged', 'a row is wrong');
  };
  assert.throws(
    () => prefetch.delegate(key('lead'), request(['1'])),
    (error) => error instanceof PolicyError && error.error.tag === 'store' && error.error.val.tag === 'damaged',
  );
  prefetch.store.insertHandOver = insertHandOver;
  // The snapshot that had been written before was undone with it: nothing pins the memory.
  assert.deepEqual(prefetch.evictable(['1']), ['1']);
  assert.equal(prefetch.delegate(key('lead'), request(['1'])).tag, 'handed-over');
  assert.deepEqual(prefetch.evictable(['1']), []);
});

test('a store that cannot begin or commit is said, and no unit stays open', () => {
  const prefetch = seeded();
  const commit = prefetch.store.commit.bind(prefetch.store);
  prefetch.store.commit = () => {
    prefetch.store.rollBack();
    throw new StoreFailure('busy', 'somebody else writes');
  };
  assert.throws(
    () =>
      prefetch.deliver(key('child'), 'start', {
        tag: 'parent-session',
        val: { task: 'Look.', agentType: undefined, registersAll: true },
      }),
    (error) => error instanceof StoreFailure && error.kind === 'busy',
  );
  prefetch.store.commit = commit;
  assert.equal(prefetch.delegate(key('lead'), request(['1'])).tag, 'handed-over');
});

test('limits: what is over them is told, or ends the call', () => {
  const few = seeded({ ...DEFAULT_LIMITS, hostCalls: 3 });
  assert.throws(() => few.delegate(key('lead'), request(['1'])), /called the host more often/);
  const slow = seeded({ ...DEFAULT_LIMITS, timeMs: -1 });
  assert.throws(() => slow.replay(key('child')), /ran longer/);
  const small = seeded({ ...DEFAULT_LIMITS, bytesIn: 400 });
  assert.throws(
    () => small.delegate(key('lead'), request(['1'])),
    (error) => error instanceof PolicyError && error.error.tag === 'store' && error.error.val.tag === 'too-large',
  );
  assert.throws(() => small.decode('x'.repeat(401)), /the request has 401 bytes, and this host takes 400/);
});

test('exports that read may not write, and only upkeep removes', () => {
  const writing: Import[] = [
    'record-access',
    'insert-snapshot',
    'insert-hand-over',
    'insert-delivery',
    'revoke',
    'overwrite',
    'end-deliveries',
    'remove',
  ];
  for (const name of Object.keys(ACCESS) as ExportName[]) {
    const access = ACCESS[name];
    for (const one of writing)
      assert.ok(!allows(name, one) || access === 'write' || access === 'relaxed', `${name} ${one}`);
    assert.equal(allows(name, 'read'), access !== undefined);
    assert.ok(allows(name, 'log'));
  }
  assert.ok(!allows('child.deliver', 'remove') && !allows('orchestrator.delegate', 'overwrite'));
});
