// What the adapters ask of the host: every delegation is registered, a child gets its own, live content is found again
// after a restart, and what the user has set stays.

import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Capacity, Claim } from '../dist/contract.js';
import { isInOrder } from '../dist/field.js';
import { PolicyError, Prefetch } from '../dist/host.js';
import { Service } from '../dist/service.js';
import type { Caller, Delegating } from '../dist/service.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { connectionOf } from './sqlite_moved.js';

const capacity: Capacity = { budget: { tag: 'tokens', val: 10_000 }, model: undefined, overflow: 'refuse' };

const parent: Caller = {
  key: { harness: 'h', id: 'lead' },
  agent: 'a',
  project: 'p',
  parent: undefined,
  memoryOn: true,
};

function child(id: string, more: Partial<Caller> = {}): Caller {
  return { key: { harness: 'h', id }, agent: 'b', project: 'p', parent: parent.key, memoryOn: true, ...more };
}

function delegating(task: string, memory: unknown, callId?: string): Delegating {
  const written = memory === undefined ? undefined : JSON.stringify(memory);
  return { task, memory: written, capacity, agentType: undefined, callId, ttlSeconds: undefined };
}

const byText = (task: string): Claim => ({
  tag: 'parent-session',
  val: { task, agentType: undefined, registersAll: true },
});

function service(file = join(mkdtempSync(join(tmpdir(), 'memory-prefetch-service-')), 's.db')): Service {
  return new Service(new Prefetch(SqliteStore.open(file)));
}

function remember(on: Service, id: string, body: string): void {
  on.recall(parent, '', undefined, 1);
  const shared = { owner: 'a', project: 'p', audience: 'agent', category: '', priority: 0, trusted: true } as const;
  on.prefetch.store.addMemory({ id, body, ...shared }, 0n);
}

test('a delegation without memories is registered too, and its child gets none', () => {
  const on = service();
  remember(on, '1', 'one');
  on.register(parent, delegating('With.', { prefetch_ids: ['1'] }));
  assert.equal(on.register(parent, delegating('Without.', undefined)).tag, 'handed-over');
  const answer = on.claim(child('c'), 'start', byText('Without.'));
  assert.deepEqual([answer.outcome, on.replay(child('c'))], [{ tag: 'nothing' }, []]);
  assert.match(on.claim(child('d'), 'start', byText('With.')).block?.text ?? '', /one/);
});

test('a field that cannot be read is malformed, and says what is allowed', () => {
  const on = service();
  const wrong: [unknown, RegExp][] = [
    [{ ids: ['1'] }, /ids.*prefetch_ids/s],
    [{ prefetch_ids: [] }, /no memory ids/],
    [{ prefetch_ids: [1.5] }, /number 1 of prefetch_ids/],
    [{ prefetch_ids: ['1'], mode: 'warm' }, /warm/],
    [{ prefetch_ids: ['1'], snapshot_ref: 'snap_1' }, /has both snapshot_ref and prefetch_ids/],
    ['11, 55', /not an object/],
  ];
  for (const [memory, why] of wrong) {
    assert.throws(
      () => on.register(parent, delegating('x', memory)),
      (error) => error instanceof PolicyError && error.error.tag === 'malformed' && why.test(error.message),
      JSON.stringify(memory),
    );
  }
});

test('a field that is in order is never one that the policy finds malformed', () => {
  const on = service();
  const ids = (count: number) => Array.from({ length: count }, (_, index) => `${index}`);
  const waited: [unknown, boolean][] = [
    [undefined, false],
    [{ prefetch_ids: ['1'] }, false],
    [{ prefetch_ids: ['#1', '##', ' ', '"', '字', 'x'.repeat(256)] }, false],
    [{ prefetch_ids: ids(64) }, false],
    [{ prefetch_ids: ids(65) }, true],
    [{ prefetch_ids: [] }, true],
    [{ prefetch_ids: '1' }, true],
    [{ prefetch_ids: [1] }, true],
    [{ prefetch_ids: [''] }, true],
    [{ prefetch_ids: ['#'] }, true],
    [{ prefetch_ids: ['a\nb'] }, true],
    [{ prefetch_ids: ['a\u0085b'] }, true],
    [{ prefetch_ids: ['字'.repeat(86)] }, true],
    [{ prefetch_ids: ['\ud800'] }, true],
    [{ prefetch_ids: ['1'], mode: 'frozen' }, true],
    [{ snapshot_ref: 'snap_1' }, true],
    [{}, true],
    [['1'], true],
    ['1', true],
    [1, true],
  ];
  for (const [memory, isWaited] of waited) {
    const shown = JSON.stringify(memory);
    assert.equal(!isInOrder(memory), isWaited, shown);
    if (!isWaited) assert.equal(on.register(parent, delegating(`With ${shown}`, memory)).tag, 'handed-over', shown);
  }
});

test('a delegation that nobody waits for does not wait for the disk, and the claim, which does, takes it there', () => {
  const on = service();
  remember(on, '1', 'one');
  const waits = () => connectionOf(on.prefetch.store).once('PRAGMA synchronous')[0]?.[0];
  const [NORMAL, FULL] = [1n, 2n];
  on.register(parent, delegating('Waited for.', { prefetch_ids: ['1'] }));
  assert.equal(waits(), FULL);
  on.register(parent, delegating('Not waited for.', { prefetch_ids: ['1'] }), false);
  assert.equal(waits(), NORMAL);
  on.claim(child('c'), 'start', byText('Not waited for.'));
  assert.equal(waits(), FULL);
});

test('what another process does between a claim and the request that follows it holds for that request', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'memory-prefetch-service-')), 's.db');
  const on = service(file);
  const other = new Prefetch(SqliteStore.open(file));
  for (const id of ['1', '2', '3', '4', '5']) remember(on, id, `the body of ${id}`);
  const given = (id: string) => {
    const outcome = on.register(parent, delegating(`Task ${id}.`, { prefetch_ids: [id] }));
    const { block } = on.claim(child(id), 'start', byText(`Task ${id}.`));
    const field = outcome.tag === 'handed-over' ? outcome.val.memory : undefined;
    return { text: block?.text, ref: field?.tag === 'snapshot-ref' ? field.val : '' };
  };
  const texts = (id: string) => on.replay(child(id)).map(({ text }) => text);

  const kept = given('1');
  assert.deepEqual([texts('1'), texts('1')], [[kept.text], [kept.text]]);
  const revoked = given('2');
  other.revoke(parent.key, revoked.ref);
  assert.deepEqual(texts('2'), []);
  given('3');
  other.forget(['3']);
  assert.match(texts('3').join(), /\[erased\]/);
  given('4');
  on.ended(child('4').key);
  assert.deepEqual(texts('4'), []);
  const own = given('5');
  on.prefetch.revoke(parent.key, own.ref);
  assert.deepEqual(texts('5'), [], 'also what this process does itself');
});

test('what stands in the requests names the turn that it came with', () => {
  const on = service();
  remember(on, '1', 'one');
  remember(on, '2', 'two');
  on.register(parent, delegating('First.', { prefetch_ids: ['1'] }));
  on.claim(child('c'), 'm1', byText('First.'));
  on.register(parent, delegating('Second.', { prefetch_ids: ['2'] }));
  on.claim(child('c'), 'm2', byText('Second.'));
  const texts = on.replay(child('c'));
  assert.deepEqual(
    texts.map(({ occasion }) => occasion),
    ['m1', 'm2'],
  );
  assert.ok(texts[0]!.text.includes('one') && texts[1]!.text.includes('two'));
});

test('live content is as it is now, at each request and after a restart', () => {
  const file = join(mkdtempSync(join(tmpdir(), 'memory-prefetch-service-')), 's.db');
  const first = service(file);
  remember(first, '1', 'as it was');
  first.register(parent, delegating('Live.', { prefetch_ids: ['1'], mode: 'live' }));
  // One that was given nothing must not be taken for a live one.
  first.register(parent, delegating('Nothing.', undefined));
  first.claim(child('n'), 'start', byText('Nothing.'));
  assert.match(first.claim(child('c'), 'm1', byText('Live.')).block?.text ?? '', /as it was/);
  first.prefetch.store.editMemory('1', { body: 'as it is' }, 1n);
  assert.match(first.replay(child('c'))[0]?.text ?? '', /as it is/);
  first.close();
  const second = service(file);
  // A later turn, whose claim comes before any request of this process.
  second.claim(child('c'), 'm2', byText('Another.'));
  second.prefetch.store.editMemory('1', { body: 'as it is now' }, 2n);
  assert.match(second.replay(child('c'))[0]?.text ?? '', /as it is now/);
  assert.deepEqual(second.replay(child('n')), []);
  second.close();
});

test('memory that is off for the child is neither given nor mentioned; what the user set stays set', () => {
  const on = service();
  remember(on, '1', 'one');
  on.register(parent, delegating('Off.', { prefetch_ids: ['1'] }));
  const off = on.claim(child('c', { memoryOn: false }), 'start', byText('Off.'));
  assert.deepEqual([off.outcome.tag, off.block, on.replay(child('c'))], ['memory-off', undefined, []]);
  const { store } = on.prefetch;
  store.putProject({ id: 'p', workspace: 'w', memoryOn: false, trusted: false, attributes: [] });
  assert.equal(on.register(parent, delegating('Off too.', { prefetch_ids: ['1'] })).tag, 'memory-off');
  assert.deepEqual(store.projects(['p']), [
    { id: 'p', workspace: 'w', memoryOn: false, trusted: false, attributes: [] },
  ]);
});

test('a project that cannot be named sees nothing', () => {
  const on = service();
  remember(on, '1', 'one');
  const nameless: Caller = { ...parent, key: { harness: 'h', id: 'nameless' }, project: undefined };
  assert.deepEqual(on.get(nameless, ['1']), { memories: [], unavailable: ['1'] });
});

test('whether a call’s memories were taken is known from its id', () => {
  const on = service();
  remember(on, '1', 'one');
  on.register(parent, delegating('Take.', { prefetch_ids: ['1'] }, 'call'));
  assert.equal(on.taken(parent, 'call'), false);
  on.claim(child('c'), 'start', byText('Take.'));
  assert.equal(on.taken(parent, 'call'), true);
  assert.equal(on.taken(parent, 'another'), false);
});
