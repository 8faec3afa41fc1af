// What every store must do, as far as a driver of SQLite in JavaScript may get it wrong: the functions of
// wit/memories.wit, wit/directory.wit and wit/snapshots.wit, one by one. The cases are those of tests/store_suite.rs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Link, OfferFilter, SessionKey, StoredPage } from '../dist/contract.js';
import type { SqliteStore } from '../dist/sqlite/store.js';
import {
  ALL_OF_PARENT,
  FILTER,
  audit,
  delivery,
  failure,
  fresh,
  frozen,
  handOver,
  key,
  memory,
  page,
  project,
  session,
  told,
  write,
} from './sqlite_rows.js';

/** Bodies and tasks that a careless store would change. */
const AWKWARD = [
  '',
  'a\0b',
  '\0',
  `100% _under_ \\ 'quoted' "double"`,
  'ends with space \r\n\t ',
  'cafe\u{301} and caf\u{e9}',
  '\u{feff}begins with a mark',
  '固有名詞',
  '👩‍👩‍👧 \u{202e}bidi\u{2028}line \u{10ffff}',
  '\u{fffd} as it was written',
  '{"json":[null]}',
];

function ids(list: ({ id: string } | undefined)[]): (string | undefined)[] {
  return list.map((row) => row?.id);
}

test('memories come in the order asked', () => {
  const store = fresh();
  store.addMemory(memory('11', 'eleven'), 40n);
  store.addMemory(memory('55', 'fifty-five'), 41n);
  assert.deepEqual(ids(store.memories(['55', 'nobody', '11', '55'], 1_000)), ['55', undefined, '11', '55']);
  assert.deepEqual(store.memories([], 1_000), []);
  store.close();
});

test('a memory keeps every field', () => {
  const store = fresh();
  const late = 2n ** 63n - 1n;
  const change = { expiresAt: late, audience: 'workspace', trusted: false, priority: 4_294_967_295 } as const;
  store.addMemory(memory('x', 'text', change), 9_007_199_254_740_993n);
  assert.deepEqual(store.memories(['x'], 1_000)[0], {
    id: 'x',
    owner: 'ada',
    project: 'web',
    audience: 'workspace',
    active: true,
    expiresAt: late,
    trusted: false,
    category: 'fact',
    priority: 4_294_967_295,
    version: '1',
    updatedAt: 9_007_199_254_740_993n,
    attributes: [],
    bytes: 4,
    body: 'text',
  });
  store.addMemory(memory('y', '', { owner: undefined, project: '' }), 40n);
  const row = store.memories(['y'], 0)[0];
  assert.deepEqual([row?.owner, row?.project, row?.body], [undefined, undefined, '']);
  store.close();
});

test('memory ids are compared by equality', () => {
  const store = fresh();
  for (const id of ['1', '11', 'A', 'a%']) store.addMemory(memory(id, 'body'), 1n);
  for (const id of ['', '01', '1 ', '1\0', '1\0x', 'a', '_', '%', 'a_', '1.0']) {
    assert.deepEqual(store.memories([id], 9), [undefined], JSON.stringify(id));
  }
  store.close();
});

test('bodies keep their bytes', () => {
  const store = fresh();
  AWKWARD.forEach((body, number) => {
    store.addMemory(memory(`m${number}`, body), 1n);
    const row = store.memories([`m${number}`], 0xffff_ffff)[0];
    assert.equal(row?.body, body);
    assert.equal(row?.bytes, Buffer.byteLength(body));
  });
  store.close();
});

test('from the first body that would exceed it on, max-bytes gives none', () => {
  const store = fresh();
  for (const [id, body] of [
    ['a', '12345'],
    ['b', '123456'],
    ['c', '1'],
    ['d', ''],
  ] as const) {
    store.addMemory(memory(id, body), 1n);
  }
  const asked = ['a', 'b', 'missing', 'c', 'd'];
  const cases = [
    [0, ''],
    [4, ''],
    [5, 'a'],
    [10, 'a'],
    [11, 'ab'],
    [12, 'abcd'],
    [0xffff_ffff, 'abcd'],
  ] as const;
  for (const [max, expected] of cases) {
    const rows = store.memories(asked, max).filter((row) => row !== undefined);
    assert.equal(ids(rows.filter((row) => row.body !== undefined)).join(''), expected, `max-bytes ${max}`);
    assert.deepEqual(
      rows.map((row) => row.bytes),
      [5, 6, 1, 0],
    );
  }
  // A body that is asked for twice counts twice.
  assert.deepEqual(
    store.memories(['a', 'a'], 9).map((row) => row?.body),
    ['12345', undefined],
  );
  store.close();
});

test('editing raises the version with the body only, and archived memories are still rows', () => {
  const store = fresh();
  store.addMemory(memory('11', 'old', { expiresAt: 50n }), 40n);
  const get = () => store.memories(['11'], 99)[0];
  assert.equal(store.editMemory('11', { category: 'note', audience: 'agent', priority: 0, trusted: false }, 41n), true);
  let row = get();
  assert.deepEqual([row?.category, row?.audience, row?.priority, row?.trusted], ['note', 'agent', 0, false]);
  assert.deepEqual([row?.version, row?.updatedAt, row?.expiresAt], ['1', 40n, 50n]);
  assert.equal(store.editMemory('11', { body: 'new', expiresAt: null }, 42n), true);
  row = get();
  assert.deepEqual([row?.version, row?.updatedAt, row?.expiresAt, row?.body], ['2', 42n, undefined, 'new']);
  assert.equal(store.editMemory('nobody', { body: 'new' }, 42n), false);
  assert.equal(store.archiveMemory('11', true), true);
  assert.equal(get()?.active, false);
  assert.equal(store.archiveMemory('11', false), true);
  assert.equal(get()?.active, true);
  assert.equal(store.archiveMemory('nobody', true), false);
  store.close();
});

test('an id is given out once (R2)', () => {
  let store = fresh();
  store.addMemory(memory('2', 'by hand'), 1n);
  assert.equal(failure(() => store.addMemory(memory('2', 'again'), 1n)).kind, 'other');
  const seen = new Set(['2']);
  for (let count = 2; count < 7; count += 1) {
    assert.equal(seen.add(store.addMemory(memory(undefined, 'x'), 1n)).size, count);
  }
  write(store, () => assert.deepEqual(store.erase([...seen, 'nobody']).sort(), [...seen].sort()));
  store = store.reopen();
  assert.ok(!seen.has(store.addMemory(memory(undefined, 'x'), 1n)));
  assert.equal(failure(() => store.addMemory(memory('2', 'again'), 1n)).kind, 'other');
  store.close();
});

test('sessions come in the order asked, and are compared by equality (R24)', () => {
  const store = fresh();
  store.putProject(project('web', 'w'));
  store.putSession(session('s1'));
  const parent = key('s1');
  store.putSession(session('s2', { agent: undefined, project: undefined, parent, memoryOn: false }));
  const bare = { key: key('s2'), memoryOn: false, agent: undefined, project: undefined, parent, attributes: [] };
  const full = { ...bare, key: parent, memoryOn: true, agent: 'ada', project: project('web', 'w'), parent: undefined };
  const elsewhere = { harness: 'pi', id: 's1' };
  assert.deepEqual(store.sessions([key('s2'), elsewhere, key('s1'), key('s2')]), [bare, undefined, full, bare]);
  assert.deepEqual(store.sessions([]), []);
  for (const [harness, id] of [
    ['Local', 's1'],
    ['local', 'S1'],
    ['local', 's1\0x'],
    ['local\0', 's1'],
  ] as const) {
    assert.deepEqual(store.sessions([{ harness, id }]), [undefined]);
  }
  assert.equal(store.removeProject('web'), true);
  assert.equal(store.removeProject('web'), false);
  assert.equal(store.sessions([key('s1')])[0]?.project, undefined);
  assert.equal(store.removeSession(key('s1')), true);
  assert.equal(store.removeSession(key('s1')), false);
  store.close();
});

test('projects and the projects of a workspace', () => {
  const store = fresh();
  for (const [id, workspace] of [
    ['b', 'w'],
    ['a', 'w'],
    ['c', undefined],
    ['d', 'W'],
  ] as const) {
    store.putProject(project(id, workspace));
  }
  const off = { ...project('b', 'w'), memoryOn: false, trusted: false, attributes: [] };
  store.putProject(off);
  assert.deepEqual(store.projects(['c', 'x', 'b', 'c']), [project('c'), undefined, off, project('c')]);
  assert.deepEqual(store.projects([]), []);
  assert.deepEqual(store.workspaceProjects('w'), [project('a', 'w'), off]);
  assert.deepEqual(store.workspaceProjects(''), []);
  store.close();
});

test('links of one agent with some others', () => {
  const store = fresh();
  const link = (fromAgent: string, toAgent: string, direction: Link['direction']): Link => {
    return { fromAgent, toAgent, direction, kind: 'peer', attributes: [['since', '1']] };
  };
  const rows = [
    link('ada', 'bob', 'one-way'),
    link('bob', 'ada', 'two-way'),
    link('bob', 'cy', 'one-way'),
    link('cy', 'ada', 'one-way'),
  ] as const;
  for (const row of rows) store.addLink(row);
  const found = (agent: string, others: string[]) => {
    const found = store.links(agent, others).map((link) => JSON.stringify(link));
    return rows.filter((row) => found.includes(JSON.stringify(row)));
  };
  assert.deepEqual(found('ada', ['bob']), [rows[0], rows[1]]);
  assert.deepEqual(found('ada', ['bob', 'cy', 'bob']), [rows[0], rows[1], rows[3]]);
  for (const nobody of [[], ['ad'], ['bob\0']]) assert.deepEqual(found('ada', nobody), []);
  assert.equal(store.removeLinks('ada', 'bob'), 1);
  assert.equal(store.removeLinks('ada', 'bob'), 0);
  store.close();
});

test('aliases lead to the canonical key (R24)', () => {
  const store = fresh();
  for (const id of ['parent', 'child']) store.putSession(session(id));
  assert.equal(store.addAlias(key('p2'), key('nobody')), false);
  assert.equal(store.addAlias(key('p2'), key('parent')), true);
  assert.equal(store.addAlias(key('p2'), key('parent')), true);
  // An alias of an alias is one of the same session.
  assert.equal(store.addAlias(key('p3'), key('p2')), true);
  assert.equal(store.addAlias(key('c2'), key('child')), true);
  assert.equal(failure(() => store.addAlias(key('p2'), key('child'))).kind, 'other');
  assert.equal(failure(() => store.addAlias(key('child'), key('parent'))).kind, 'other');
  assert.equal(failure(() => store.putSession(session('p2'))).kind, 'other');
  store.putSession(session('child', { parent: key('p3') }));
  const rows = store.sessions([key('p3'), key('c2')]);
  assert.deepEqual(
    rows.map((row) => row?.key),
    [key('parent'), key('child')],
  );
  assert.deepEqual(rows[1]?.parent, key('parent'));
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', ['11'], ['text'], { owner: key('p2') }));
    const call = handOver('hand_1', 'task', { callId: 'call', parent: key('p2') });
    assert.equal(store.insertHandOver(call), true);
    assert.equal(store.insertHandOver({ ...call, id: 'hand_2', parent: key('p3') }), false);
    assert.equal(store.insertDelivery(delivery('c2', 'start', { snapshotRef: 'snap_1' })), true);
    assert.equal(store.insertDelivery(delivery('child', 'start', { snapshotRef: 'snap_1' })), false);
  });
  assert.deepEqual(store.snapshots(['snap_1'], { tag: 'none' })[0]?.snapshot.owner, key('parent'));
  for (const id of ['parent', 'p2', 'p3']) {
    const found = store.findHandOvers({ ...ALL_OF_PARENT, parent: key(id) }, 9);
    assert.deepEqual(
      found.map((offer) => offer.handOver.parent),
      [key('parent')],
    );
  }
  for (const id of ['child', 'c2']) {
    assert.deepEqual(store.deliveries(key(id))[0]?.delivery.child, key('child'));
    assert.deepEqual(
      store.replay(key(id), undefined, 1, 0n).map((page) => page.text),
      ['text'],
    );
  }
  write(store, () => store.endDeliveries(key('c2'), 30n));
  assert.equal(store.deliveries(key('child'))[0]?.delivery.keepUntil, 30n);
  store.close();
});

test('snapshots come in the order asked, with the pages asked for', () => {
  const store = fresh();
  const one = frozen('snap_1', ['55', '11', '55'], ['a\0b', '', 'c']);
  const two = frozen('snap_2', [], [], { revokedAt: 0n });
  write(store, () => [one, two].forEach((row) => store.insertSnapshot(row)));
  const asked = ['snap_2', 'snap_', 'snap_1', 'snap_1'];
  assert.deepEqual(store.snapshots(asked, { tag: 'all' }), [two, undefined, one, one]);
  const bare = { ...one, pages: [] };
  assert.deepEqual(store.snapshots(asked, { tag: 'none' }), [two, undefined, bare, bare]);
  const second = { ...one, pages: one.pages.slice(1, 2) };
  assert.deepEqual(store.snapshots(asked, { tag: 'one', val: 2 }), [two, undefined, second, second]);
  assert.deepEqual(store.snapshots(['snap_1'], { tag: 'one', val: 4 }), [bare]);
  assert.deepEqual(store.snapshots([], { tag: 'all' }), []);
  store.beginUnit('write');
  assert.equal(failure(() => store.insertSnapshot(frozen('snap_1', [], []))).kind, 'damaged');
  assert.equal(failure(() => store.insertSnapshot(frozen('snap_3', [], [], { pages: 1 }))).kind, 'damaged');
  store.rollBack();
  store.close();
});

test('revoking, overwriting, pinning, holding', () => {
  const store = fresh();
  const old = frozen('snap_1', ['11', '55'], ['one', 'two']);
  write(store, () => {
    store.insertSnapshot(old);
    store.insertSnapshot(frozen('snap_2', ['55', '66'], ['text']));
    store.revoke(['snap_2', 'unknown'], 30n);
    store.revoke(['snap_2'], 40n);
    store.revoke([], 50n);
  });
  assert.deepEqual(store.pinned(['66', '55', '1', '11', '55'], 99n), ['55', '11', '55']);
  assert.deepEqual(store.pinned(['66', '55', '1', '11', '55'], 100n), []);
  assert.equal(store.snapshots(['snap_2'], { tag: 'none' })[0]?.snapshot.revokedAt, 30n);
  assert.deepEqual(
    store.holding(['11', '55'], 9).map((row) => row.pages.length),
    [2, 1],
  );
  assert.equal(store.holding(['11', '55'], 1).length, 1);
  assert.deepEqual(store.holding([], 9), []);
  const cut = frozen('snap_1', ['55'], [], { state: 'new', keepUntil: 9_999n, owner: key('someone else') });
  cut.pages = [page(2, 'cut')];
  write(store, () => store.overwrite([cut, frozen('unknown', ['11'], [])]));
  const snapshot = { ...old.snapshot, memoryIds: ['55'], state: 'new' };
  const expected = { snapshot, pages: [old.pages[0], page(2, 'cut')] };
  assert.deepEqual(store.snapshots(['snap_1', 'unknown'], { tag: 'all' }), [expected, undefined]);
  assert.deepEqual(store.holding(['11'], 9), []);
  store.close();
});

test('the three steps of a snapshot: needed, tombstone, gone', () => {
  const store = fresh();
  const late = frozen('snap_1', ['11'], ['one'], { keepUntil: 300n });
  const early = frozen('snap_2', ['55'], ['two'], { keepUntil: 200n });
  write(store, () => {
    store.insertSnapshot(late);
    store.insertSnapshot(early);
    store.insertHandOver(handOver('hand_1', 'task', { snapshotRef: 'snap_2' }));
    store.insertDelivery(delivery('child', 'start', { handOver: 'hand_1', snapshotRef: 'snap_2', keepUntil: 0n }));
  });
  assert.deepEqual(store.expired(199n, 9), []);
  assert.deepEqual(store.expired(300n, 9), [early.snapshot, late.snapshot]);
  assert.deepEqual(store.expired(300n, 1), [early.snapshot]);
  write(store, () => store.strip(['snap_2', 'unknown'], 400n));
  const tombstone = { ...early.snapshot, pages: 0, memoryIds: [], keepUntil: 400n, state: '' };
  assert.deepEqual(store.snapshots(['snap_2'], { tag: 'all' }), [{ snapshot: tombstone, pages: [] }]);
  assert.deepEqual(store.replay(key('child'), undefined, 1, 0n), []);
  assert.equal(store.deliveries(key('child')).length, 1);
  write(store, () => store.remove(['snap_2', 'unknown']));
  assert.deepEqual(store.snapshots(['snap_2'], { tag: 'all' }), [undefined]);
  assert.deepEqual(store.deliveries(key('child')), []);
  assert.deepEqual(store.findHandOvers(ALL_OF_PARENT, 9), []);
  store.close();
});

test('a hand-over keeps every field, and there is one for each call (R26)', () => {
  const store = fresh();
  const full = handOver('hand_1', 'a\0b', {
    callId: 'call',
    agentType: 'reviewer',
    snapshotRef: 'snap_1',
    idsKey: '["11"]',
    children: 3,
    createdAt: 1n,
    expiresAt: 2n,
    keepUntil: 3n,
  });
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', [], []));
    assert.equal(store.insertHandOver(full), true);
    assert.equal(store.insertHandOver(handOver('hand_2', 'task', { callId: 'call' })), false);
    assert.equal(store.insertHandOver(handOver('hand_3', 'task', { callId: 'call', parent: key('other') })), true);
    assert.equal(store.insertHandOver(handOver('hand_4', 'task', { parent: key('other') })), true);
  });
  assert.deepEqual(store.findHandOvers(ALL_OF_PARENT, 9), [{ handOver: full, taken: 0, nextPlace: 0 }]);
  store.beginUnit('write');
  assert.equal(failure(() => store.insertHandOver(handOver('hand_1', 'task'))).kind, 'damaged');
  assert.equal(failure(() => store.insertHandOver(handOver('hand_9', 'x', { snapshotRef: 'snap_9' }))).kind, 'damaged');
  assert.equal(failure(() => store.insertDelivery(delivery('c', 'x', { snapshotRef: 'snap_9' }))).kind, 'damaged');
  assert.equal(failure(() => store.insertDelivery(delivery('c', 'x', { handOver: 'hand_9' }))).kind, 'damaged');
  store.rollBack();
  store.close();
});

test('hand-overs by each condition and by all', () => {
  const store = fresh();
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', [], []));
    const first = { callId: 'c1', snapshotRef: 'snap_1', idsKey: 'k1', agentType: 'reviewer' };
    store.insertHandOver(handOver('hand_1', 'fix it', first));
    store.insertHandOver(handOver('hand_2', 'fix it now', { callId: 'c2', idsKey: 'k1', agentType: 'writer' }));
    store.insertHandOver(handOver('hand_3', '', { children: 2 }));
    store.insertHandOver(handOver('hand_4', 'fix it', { parent: key('other') }));
    for (const hand of ['hand_1', 'hand_3']) store.insertDelivery(delivery('child', hand, { handOver: hand }));
  });
  const cases: [Partial<OfferFilter>, string[]][] = [
    [{}, ['hand_1', 'hand_2', 'hand_3']],
    [{ callId: 'c1' }, ['hand_1']],
    [{ callId: 'c' }, []],
    [{ snapshotRef: 'snap_1' }, ['hand_1']],
    [{ snapshotRef: 'snap_9' }, []],
    [{ idsKey: 'k1' }, ['hand_1', 'hand_2']],
    [{ within: 'do: fix it now!' }, ['hand_1', 'hand_2', 'hand_3']],
    [{ within: 'fix it' }, ['hand_1', 'hand_3']],
    [{ within: '' }, ['hand_3']],
    [{ taskDigest: 'digest of fix it' }, ['hand_1']],
    [{ taskDigest: 'digest of fix' }, []],
    [{ agentType: 'reviewer' }, ['hand_1', 'hand_3']],
    [{ agentType: 'cook' }, ['hand_3']],
    [{ openOnly: true }, ['hand_2', 'hand_3']],
    [{ callId: 'c2', idsKey: 'k1', agentType: 'writer', within: 'fix it now', openOnly: true }, ['hand_2']],
  ];
  for (const [filter, expected] of cases) {
    const found = store.findHandOvers({ ...ALL_OF_PARENT, ...filter }, 9);
    assert.deepEqual(
      found.map((offer) => offer.handOver.id),
      expected,
      JSON.stringify(filter),
    );
  }
  // The limit counts from the youngest that matches; the order stays that of insertion.
  assert.deepEqual(
    store.findHandOvers(ALL_OF_PARENT, 2).map((offer) => offer.handOver.id),
    ['hand_2', 'hand_3'],
  );
  assert.deepEqual(store.findHandOvers(ALL_OF_PARENT, 0), []);
  store.close();
});

test('a task within a text is compared by bytes (R23)', () => {
  const store = fresh();
  const tasks = ['', 'a\0b', '\0', '50%', 'a_b', 'café', 'cafe\u{301}', '👩‍👩‍👧', '👩', '固', 'Fix', ' '];
  write(store, () => tasks.forEach((task, number) => store.insertHandOver(handOver(`hand_${number}`, task))));
  const more = ['xa\0by', 'a', 'a\0', '500', 'aXb', 'A_B', 'cafe', 'fix', '固有', '👩‍👩‍👧‍👦'];
  for (const within of [...tasks, ...more]) {
    const found = store.findHandOvers({ ...ALL_OF_PARENT, within }, 99).map((offer) => offer.handOver.task);
    assert.deepEqual(
      found,
      tasks.filter((task) => within.includes(task)),
      JSON.stringify(within),
    );
  }
  store.close();
});

test('deliveries keep every field and their order; the first one wins (R25)', () => {
  const store = fresh();
  const handed = handOver('hand_1', 'task', { snapshotRef: 'snap_1', children: 2 });
  const rows = [
    delivery('child', 'z', { handOver: 'hand_1', place: 1, snapshotRef: 'snap_1' }),
    told('child', 'a', 'not\0hing'),
    delivery('child', '', { state: '', keepUntil: 0n, at: 0n }),
  ];
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', [], ['text']));
    store.insertHandOver(handed);
    for (const row of rows) assert.equal(store.insertDelivery(row), true);
    // The same occasion, and the same place.
    assert.equal(store.insertDelivery(delivery('child', 'z')), false);
    assert.equal(store.insertDelivery(delivery('other', 'z', { handOver: 'hand_1', place: 1 })), false);
  });
  const given = store.deliveries(key('child'));
  assert.deepEqual(
    given.map((row) => row.delivery),
    rows,
  );
  // Without its task, which nobody needs here; and kept as long as the delivery.
  assert.deepEqual(given[0]?.handOver, { ...handed, keepUntil: 500n, task: '' });
  assert.deepEqual([given[1]?.handOver, given[2]?.handOver], [undefined, undefined]);
  assert.deepEqual(store.deliveries(key('nobody')), []);
  // Children are counted once, however many deliveries they have.
  write(store, () => {
    store.insertDelivery(delivery('child', 'again', { handOver: 'hand_1', place: 2 }));
    store.insertDelivery(delivery('third', 'start', { handOver: 'hand_1', place: 3 }));
  });
  const offers = store.findHandOvers({ ...ALL_OF_PARENT, withTask: false }, 9);
  assert.deepEqual(
    offers.map((offer) => [offer.taken, offer.nextPlace, offer.handOver.task]),
    [[2, 3, '']],
  );
  assert.deepEqual(store.findHandOvers({ ...ALL_OF_PARENT, openOnly: true }, 9), []);
  store.close();
});

test('replay gives every text in order, as long as it is kept for this child (R18)', () => {
  const store = fresh();
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', ['11'], ['one', 'two']));
    store.insertSnapshot(frozen('snap_2', ['11'], ['three\0']));
    store.insertSnapshot(frozen('snap_3', ['11'], ['four']));
    store.insertDelivery(delivery('child', 'd', { snapshotRef: 'snap_2' }));
    store.insertDelivery(told('child', 'c', 'a notice'));
    store.insertDelivery(delivery('child', 'b'));
    store.insertDelivery(delivery('child', 'a', { snapshotRef: 'snap_1' }));
    store.insertDelivery(delivery('child', 'A', { snapshotRef: 'snap_2' }));
    store.insertDelivery(delivery('child', 'e', { snapshotRef: 'snap_3' }));
    store.revoke(['snap_1'], 30n);
    store.strip(['snap_3'], 900n);
  });
  const text = (name: string | undefined, revokedAt: bigint | undefined, pages: number, text: string): StoredPage => {
    return { snapshotRef: name, revokedAt, pages, check: `check of ${text}`, text };
  };
  const three = text('snap_2', undefined, 1, 'three\0');
  const all = [three, text(undefined, undefined, 1, 'a notice'), text('snap_1', 30n, 2, 'one'), three];
  const replay = (ref: string | undefined, page: number, at = 0n) => store.replay(key('child'), ref, page, at);
  assert.deepEqual(replay(undefined, 1), all);
  assert.deepEqual(replay(undefined, 1, 499n), all);
  assert.deepEqual(replay(undefined, 2), [text('snap_1', 30n, 2, 'two')]);
  assert.deepEqual(replay('snap_2', 1), [three]);
  assert.deepEqual(replay('snap_1', 2), [text('snap_1', 30n, 2, 'two')]);
  for (const [ref, page] of [
    [undefined, 3],
    [undefined, 0],
    ['snap_2', 2],
    ['snap_3', 1],
    ['', 1],
  ] as const) {
    assert.deepEqual(replay(ref, page), []);
  }
  assert.deepEqual(replay(undefined, 1, 500n), []);
  assert.deepEqual(store.replay(key('nobody'), undefined, 1, 0n), []);
  store.close();
});

test('unattached rows are removed oldest first, and counted', () => {
  const store = fresh();
  write(store, () => {
    for (const [id, keepUntil] of [
      ['hand_1', 300n],
      ['hand_2', 100n],
      ['hand_3', 200n],
      ['hand_4', 301n],
    ] as const) {
      store.insertHandOver(handOver(id, 'task', { keepUntil }));
    }
    for (const [occasion, keepUntil] of [
      ['a', 300n],
      ['b', 100n],
      ['c', 301n],
    ] as const) {
      store.insertDelivery({ ...told('child', occasion, occasion), keepUntil });
    }
    // Goes with its hand-over, whatever its own time is.
    store.insertDelivery(delivery('child', 'e', { keepUntil: 1n, handOver: 'hand_2' }));
  });
  const remove = (at: bigint, limit: number) => write(store, () => store.removeUnattached(at, limit));
  assert.deepEqual([remove(99n, 9), remove(300n, 0), remove(300n, 1)], [0, 0, 2]);
  assert.deepEqual([remove(300n, 9), remove(300n, 9)], [3, 0]);
  assert.deepEqual(
    store.deliveries(key('child')).map((row) => row.delivery.occasion),
    ['c'],
  );
  store.close();
});

test("a project's own setting goes first", () => {
  const store = fresh();
  store.putSetting(undefined, 'max-ids', '64');
  store.putSetting(undefined, 'markers', 'off');
  store.putSetting('web', 'max-ids', '8');
  store.putSetting('web', 'own', '');
  const names = ['own', 'markers', 'unknown', 'max-ids', 'max-ids'];
  assert.deepEqual(store.settings(undefined, names), [undefined, 'off', undefined, '64', '64']);
  assert.deepEqual(store.settings('web', names), ['', 'off', undefined, '8', '8']);
  assert.deepEqual(store.settings('we', names), [undefined, 'off', undefined, '64', '64']);
  assert.deepEqual(store.settings('web', []), []);
  store.putSetting('web', 'max-ids', '16');
  assert.deepEqual(store.settings('web', ['max-ids']), ['16']);
  store.putSetting('web', 'max-ids', undefined);
  assert.deepEqual(store.settings('web', ['max-ids']), ['64']);
  store.close();
});

test('audit goes with its unit or by itself', () => {
  const store = fresh();
  const own = audit('own', { session: undefined, rolledBack: true });
  store.appendAudit([audit('first'), own]);
  write(store, () => store.appendAudit([audit('kept')]));
  store.beginUnit('write');
  store.appendAudit([audit('undone')]);
  store.rollBack();
  store.appendAudit([]);
  assert.deepEqual(store.allAudit(9), [audit('kept'), own, audit('first')]);
  assert.deepEqual(store.allAudit(1), [audit('kept')]);
  store.close();
});

test('rolling back undoes everything', () => {
  const store = fresh();
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', ['11'], ['text']));
    store.insertHandOver(handOver('hand_1', 'task', { snapshotRef: 'snap_1' }));
    store.insertDelivery(delivery('child', 'start', { snapshotRef: 'snap_1' }));
  });
  const everything = () => [
    store.snapshots(['snap_1', 'snap_2'], { tag: 'all' }),
    store.findHandOvers(ALL_OF_PARENT, 9),
    store.deliveries(key('child')),
    store.allAudit(9),
  ];
  const before = everything();
  store.beginUnit('write');
  store.insertSnapshot(frozen('snap_2', ['11'], ['text']));
  store.insertHandOver(handOver('hand_3', 'task'));
  store.endDeliveries(key('child'), 1n);
  store.overwrite([frozen('snap_1', [], ['cut'])]);
  store.remove(['snap_1']);
  store.appendAudit([audit('undone')]);
  assert.notDeepEqual(everything(), before);
  store.rollBack();
  assert.deepEqual(everything(), before);
  assert.equal(store.isScrubDue, false);
  // There is nothing left to undo or to keep.
  store.rollBack();
  assert.equal(failure(() => store.commit()).kind, 'other');
  store.close();
});

test('units do not nest, and reading ones do not write', () => {
  const store = fresh();
  const refused = (work: () => unknown) => assert.equal(failure(work).kind, 'other');
  refused(() => store.insertSnapshot(frozen('snap_1', [], [])));
  store.beginUnit('read');
  refused(() => store.beginUnit('read'));
  refused(() => store.beginUnit('write'));
  refused(() => store.insertSnapshot(frozen('snap_1', [], [])));
  refused(() => store.recordAccess(['1'], 1n));
  refused(() => store.appendAudit([audit('reading')]));
  assert.deepEqual(store.snapshots(['snap_1'], { tag: 'none' }), [undefined]);
  store.commit();
  assert.deepEqual(store.allAudit(9), []);
  store.close();
});

test('uses are counted', () => {
  const store = fresh();
  store.addMemory(memory('1', 'body'), 1n);
  for (const [access, at] of [
    ['write', 30n],
    ['relaxed', 30n],
    ['relaxed', 20n],
  ] as const) {
    store.beginUnit(access);
    store.recordAccess(['1', 'unknown'], at);
    store.commit();
  }
  // The clock may step back.
  const row = store.memoryRow('1');
  assert.deepEqual([row?.uses, row?.['used-at']], [3, 30]);
  assert.equal(store.memoryRow('unknown'), undefined);
  store.close();
});

function found(store: SqliteStore, query: string, filter = FILTER): string[] {
  store.beginUnit('read');
  const rows = store.search(filter, query, 99, 0xffff_ffff);
  store.commit();
  return rows.map((row) => row.id);
}

test('any text is searched for (R42)', () => {
  const store = fresh();
  const bodies = [
    "The LOGIN form: see src/login.rs (e-mail, don't)",
    'SQLiteを使う。東京タワーは高い',
    '登录表单不会自动填充',
    '로그인 양식을 고쳤다',
    '日本、語学。本\n日',
  ];
  bodies.forEach((body, place) => store.addMemory(memory(`${place + 1}`, body), 1n));
  const cases: Record<string, string[]> = {
    '1': [
      'login',
      'Login',
      'rs',
      'mail',
      'unknown LOGIN',
      'login AND unknown',
      'NOT login',
      '"login',
      'login"',
      'login*',
      '-login',
      'body:login',
      '(login',
      '^login)',
      'login\0form',
      'NEAR(login form, 1)',
      'login🎉',
      'login '.repeat(50_000),
    ],
    '2': ['sqlite', '東京', '京タ', '京', '高い', 'い', 'タワーは高い'],
    '3': ['自动填充', '录表', `${'🎉'.repeat(100_000)}登录`],
    '4': ['그인'],
    '': [
      'log',
      'logins',
      '京東',
      '인양',
      '日本語',
      '本日',
      '',
      ` \n\u{3000}🎉 " ' * ( ) \0 \u{202e} --`,
      '東京タワーは高い'.repeat(50_000),
    ],
  };
  for (const [id, queries] of Object.entries(cases)) {
    for (const query of queries) assert.deepEqual(found(store, query).join(), id, JSON.stringify(query.slice(0, 40)));
  }
  store.close();
});

test('a search finds what its filter admits', () => {
  const store = fresh();
  store.addMemory(memory('own', 'needle'), 1n);
  store.addMemory(memory('own elsewhere', 'needle', { project: 'app' }), 1n);
  store.addMemory(memory('own nowhere', 'needle', { project: undefined }), 1n);
  store.addMemory(memory('untrusted', 'needle', { trusted: false }), 1n);
  store.addMemory(memory('expired', 'needle', { expiresAt: 100n }), 1n);
  store.addMemory(memory('expires', 'needle', { expiresAt: 101n }), 1n);
  store.addMemory(memory('archived', 'needle'), 1n);
  store.archiveMemory('archived', true);
  store.addMemory(memory('private', 'needle', { owner: 'bob', audience: 'agent' }), 1n);
  store.addMemory(memory('project', 'needle', { owner: 'bob', audience: 'project' }), 1n);
  store.addMemory(memory('project elsewhere', 'needle', { owner: 'bob', audience: 'project', project: 'app' }), 1n);
  store.addMemory(memory('workspace', 'needle', { owner: 'bob', audience: 'workspace', project: 'app' }), 1n);
  store.addMemory(memory("nobody's", 'needle', { owner: undefined, audience: 'workspace' }), 1n);
  const sorted = (change: Partial<typeof FILTER>) => found(store, 'needle', { ...FILTER, ...change }).sort();
  const projects = ['web', 'app'];
  assert.deepEqual(sorted({}), ['expires', 'own']);
  assert.deepEqual(sorted({ projects }), ['expires', 'own', 'own elsewhere']);
  const shared = ['expires', 'own', 'own elsewhere', 'project', 'workspace'];
  assert.deepEqual(sorted({ projects, sharedIn: 'web' }), shared);
  assert.deepEqual(sorted({ trustedOnly: false }), ['expires', 'own', 'untrusted']);
  assert.deepEqual(sorted({ at: 0n }), ['expired', 'expires', 'own']);
  for (const nothing of [{ owner: 'ad' }, { owner: '' }, { projects: [] }]) assert.deepEqual(sorted(nothing), []);
  store.close();
});

test('the best first, and no more than asked; the index follows the rows', () => {
  const store = fresh();
  for (let n = 0; n < 30; n += 1) store.addMemory(memory(`one ${n}`, 'alpha of many words that say nothing'), 1n);
  store.addMemory(memory('both', 'alpha and omega'), 1n);
  const all = found(store, 'alpha omega');
  assert.deepEqual([all.length, all[0], all[1], all[30]], [31, 'both', 'one 29', 'one 0']);
  assert.equal(store.search(FILTER, 'alpha', 2, 99).length, 2);
  assert.deepEqual(store.search(FILTER, 'alpha', 0, 99), []);
  assert.deepEqual(
    store.search(FILTER, 'alpha', 3, 50).map((row) => row.body !== undefined),
    [true, false, false],
  );
  store.editMemory('both', { body: 'beta 東京' }, 2n);
  assert.deepEqual([found(store, 'omega'), found(store, 'beta'), found(store, '東京')], [[], ['both'], ['both']]);
  store.archiveMemory('both', true);
  assert.deepEqual(found(store, 'beta'), []);
  store.archiveMemory('both', false);
  store.beginUnit('write');
  assert.deepEqual(store.erase(['both', 'unknown']), ['both']);
  store.rollBack();
  assert.deepEqual(found(store, 'beta'), ['both']);
  write(store, () => store.erase(['both']));
  assert.deepEqual(found(store, 'beta'), []);
  store.close();
});

test('instants beyond the store are too large', () => {
  const store = fresh();
  store.beginUnit('write');
  const late = (keepUntil: bigint) => store.insertSnapshot(frozen('snap_1', [], [], { keepUntil }));
  assert.equal(failure(() => late(2n ** 64n - 1n)).kind, 'too-large');
  assert.equal(failure(() => store.pinned(['11'], 2n ** 63n)).kind, 'too-large');
  late(2n ** 63n - 1n);
  assert.equal(store.snapshots(['snap_1'], { tag: 'none' })[0]?.snapshot.keepUntil, 2n ** 63n - 1n);
  store.rollBack();
  store.close();
});

test('the directory of a harness: what is there is left, and what differs is changed', () => {
  const store = fresh();
  const of = (id: string, parent?: SessionKey) => {
    return { agent: 'ada', project: 'web', session: key(id), parent, memoryOn: true };
  };
  store.ensureDirectory(of('lead'));
  assert.deepEqual(store.sessions([key('lead')])[0], {
    key: key('lead'),
    memoryOn: true,
    agent: 'ada',
    project: { id: 'web', workspace: undefined, memoryOn: true, trusted: true, attributes: [] },
    parent: undefined,
    attributes: [],
  });
  assert.equal(store.addAgent('ada'), false);
  // The project is the user's.
  const off = { ...project('web', 'w'), memoryOn: false, trusted: false };
  store.putProject(off);
  store.ensureDirectory(of('child', key('lead')));
  assert.deepEqual(store.projects(['web']), [off]);
  assert.deepEqual(store.sessions([key('child')])[0]?.parent, key('lead'));
  // It changes what the harness says, and switches nothing on.
  store.ensureDirectory({ ...of('child', key('other')), memoryOn: false });
  store.ensureDirectory({ ...of('child'), agent: 'bob' });
  const child = store.sessions([key('child')])[0];
  assert.deepEqual([child?.agent, child?.parent, child?.memoryOn], ['bob', undefined, false]);
  // An alias stays one, also as a parent.
  store.addAlias(key('l2'), key('lead'));
  store.ensureDirectory({ ...of('l2'), agent: 'bob' });
  assert.equal(store.sessions([key('l2')])[0]?.agent, 'ada');
  store.ensureDirectory(of('third', key('l2')));
  // Where nothing differs nothing is written, so that nobody is waited for.
  store.setBusyTimeout(0);
  const lock = store.lock();
  for (const parent of [key('l2'), key('lead')]) store.ensureDirectory(of('third', parent));
  store.ensureDirectory(of('lead'));
  store.ensureDirectory({ ...of('l2'), agent: 'bob' });
  assert.equal(failure(() => store.ensureDirectory(of('fourth'))).kind, 'busy');
  lock.release();
  store.close();
});

test('for conformance: another writer, a damaged page, a store that is opened anew', () => {
  const store = fresh();
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', [], ['text']));
    store.insertDelivery(delivery('child', 'start', { snapshotRef: 'snap_1' }));
  });
  store.setBusyTimeout(0);
  const lock = store.lock();
  assert.equal(failure(() => store.beginUnit('write')).kind, 'busy');
  store.beginUnit('read');
  store.commit();
  lock.release();
  assert.equal(store.damagePage('snap_1', 2), false);
  assert.equal(store.damagePage('snap_1', 1), true);
  assert.equal(store.reopen(), store);
  assert.equal(store.replay(key('child'), undefined, 1, 0n)[0]?.text, 'text.');
  store.close();
});
