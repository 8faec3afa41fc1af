// One file, two hosts: what the program in Rust wrote is read here, and the reverse, down to the bytes of a replay. Needs
// the program, which MEMORY_PREFETCH_PROGRAM names (default: the debug build).

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Request, SessionKey } from '../dist/contract.js';
import { Prefetch } from '../dist/host.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { MOVED_AND_ERASED, connectionOf, fillWithMoved, isNoted, leftOf } from './sqlite_moved.js';
import { place } from './sqlite_rows.js';

const PROGRAM =
  process.env['MEMORY_PREFETCH_PROGRAM'] ??
  fileURLToPath(new URL('../../../target/debug/memory-prefetch', import.meta.url));

/** Bodies that a careless host would change: a byte order mark, a NUL, line ends, a lone combining mark, other planes. */
const BODIES = ['\ufeffmark first', 'a\u0000b', 'line\r\nend\u2028\u2029', '\u0301 alone 👩‍👩‍👧 字 𠮷', ' blanks \t\n'];

const key = (id: string): SessionKey => ({ harness: 'local', id });

function rust(file: string, ...args: string[]): string {
  return execFileSync(PROGRAM, ['--store', `sqlite:${file}`, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

function rustJson(file: string, ...args: string[]): Record<string, unknown> {
  return JSON.parse(rust(file, '--json', ...args)) as Record<string, unknown>;
}

async function over<T>(file: string, run: (prefetch: Prefetch<SqliteStore>) => T): Promise<T> {
  const prefetch = new Prefetch(await SqliteStore.open(file, { busyTimeoutMs: 5_000, create: true }));
  try {
    return run(prefetch);
  } finally {
    prefetch.close();
  }
}

function request(task: string, ids: string[]): Request {
  return {
    task,
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

const parentSession = (task: string) =>
  ({ tag: 'parent-session', val: { task, agentType: undefined, registersAll: true } }) as const;

/** A store with two agents, a parent with two children, and a memory for each of the bodies; made by this host. */
async function seeded(): Promise<string> {
  const file = join(mkdtempSync(join(tmpdir(), 'memory-prefetch-both-')), 'store.sqlite');
  await over(file, ({ store }) => {
    store.ensureDirectory({ agent: 'planner', project: 'p', session: key('lead'), memoryOn: true });
    for (const child of ['one', 'two']) {
      store.ensureDirectory({
        agent: 'reviewer',
        project: 'p',
        session: key(child),
        parent: key('lead'),
        memoryOn: true,
      });
    }
    BODIES.forEach((body, index) => {
      const shared = {
        owner: 'planner',
        project: 'p',
        audience: 'agent',
        category: '',
        priority: 0,
        trusted: true,
      } as const;
      store.addMemory({ ...shared, id: `m${index}`, body }, 1_000n);
    });
  });
  return file;
}

const IDS = BODIES.map((_, index) => `m${index}`);

test('what this host delivers, the program in Rust replays byte for byte', async () => {
  const file = await seeded();
  const text = await over(file, (prefetch) => {
    const outcome = prefetch.delegate(key('lead'), request('Look.', IDS));
    assert.equal(outcome.tag, 'handed-over');
    const answer = prefetch.deliver(key('one'), 'start', parentSession('Look.'));
    assert.deepEqual(answer.outcome, { tag: 'delivered' });
    return answer.block!.text;
  });
  for (const body of BODIES) assert.ok(text.includes(body), JSON.stringify(body));

  const replayed = rustJson(file, 'replay', '--session', 'one');
  assert.equal((replayed['blocks'] as { text: string }[])[0]?.text, text);
  const again = rustJson(
    file,
    'deliver',
    '--session',
    'one',
    '--parent',
    'lead',
    '--task',
    'Look.',
    '--occasion',
    'start',
  );
  assert.equal(again['text'], text);
  assert.equal(again['replayed'], true);
});

test('what the program in Rust delegates, a child of this host has, and the same bytes', async () => {
  const file = await seeded();
  const delegated = rustJson(
    file,
    'delegate',
    '--session',
    'lead',
    '--task',
    'Look.',
    '--ids',
    IDS.join(','),
    '--budget',
    '100000',
  );
  const ref = (delegated['receipt'] as { snapshot_ref: string }).snapshot_ref;
  rust(file, 'memory', 'edit', 'm0', '--body', 'changed');

  const text = await over(file, (prefetch) => {
    const answer = prefetch.deliver(key('two'), 'start', parentSession('Look.'));
    assert.deepEqual(answer.outcome, { tag: 'delivered' });
    assert.equal(answer.block?.snapshotRef, ref);
    return answer.block!.text;
  });
  for (const body of BODIES) assert.ok(text.includes(body), JSON.stringify(body));
  assert.equal(rustJson(file, 'deliver', '--session', 'two', '--parent', 'lead', '--task', 'Look.')['text'], text);
});

test('what one host erases, the other one does not replay', async () => {
  const file = await seeded();
  const text = () => over(file, (prefetch) => prefetch.replay(key('one'))[0]?.text ?? '');
  await over(file, (prefetch) => {
    prefetch.delegate(key('lead'), request('Look.', IDS));
    prefetch.deliver(key('one'), 'start', parentSession('Look.'));
  });
  assert.ok((await text()).includes(BODIES[3]!));
  rust(file, 'memory', 'forget', 'm3');
  assert.ok(!(await text()).includes(BODIES[3]!));

  assert.deepEqual(await over(file, (prefetch) => prefetch.forget(['m4'])), { snapshots: 1, memories: ['m4'] });
  const replayed = rustJson(file, 'replay', '--session', 'one')['blocks'] as { text: string }[];
  assert.ok(!replayed[0]?.text.includes(BODIES[4]!));
  assert.ok(replayed[0]?.text.includes(BODIES[2]!));
});

test('what one host could not take out of the file, the other one does', async () => {
  // This one ends after its commit, before the log is cut off.
  const { directory, path } = place();
  const made = SqliteStore.open(path);
  fillWithMoved(connectionOf(made));
  made.close();
  const ending = fileURLToPath(new URL('./sqlite_process.js', import.meta.url));
  spawnSync(process.execPath, [ending, 'end before the log is cut off', path, '0']);
  assert.ok(leftOf(`${path}-wal`).length > 0);
  rust(path, 'agent', 'add', 'anybody');
  assert.deepEqual(leftOf(path), []);
  assert.deepEqual(readdirSync(directory), ['store.db']);

  // The program in Rust erases while somebody reads.
  const second = place();
  const store = SqliteStore.open(second.path, { busyTimeoutMs: 0 });
  fillWithMoved(connectionOf(store));
  store.beginUnit('read');
  assert.notEqual(store.memories(['0'], 99_999)[0], undefined);
  rust(second.path, 'memory', 'forget', ...MOVED_AND_ERASED.map(String));
  store.commit();
  assert.ok(isNoted(store));
  assert.ok(leftOf(`${second.path}-wal`).length > 0);
  store.addAgent('anybody');
  assert.equal(isNoted(store), false);
  for (const name of readdirSync(second.directory)) assert.deepEqual(leftOf(join(second.directory, name)), [], name);
  store.close();
});

test('both find the same by a search, and their audits are one', async () => {
  const file = await seeded();
  const found = await over(file, (prefetch) => prefetch.recall(key('lead'), undefined, '字', 10).map(({ id }) => id));
  const memories = rustJson(file, 'recall', '--session', 'lead', '字')['memories'] as { id: string }[];
  assert.deepEqual(found, ['m3']);
  assert.deepEqual(
    memories.map(({ id }) => id),
    found,
  );
  await over(file, (prefetch) => prefetch.delegate(key('lead'), request('Look.', ['m1'])));
  rust(file, 'delegate', '--session', 'lead', '--task', 'Look again.', '--ids', 'm2', '--budget', '1000');
  const entries = await over(file, ({ store }) => store.allAudit(10).map((row) => `${row.export} ${row.component}`));
  const delegations = entries.filter((entry) => entry.startsWith('orchestrator.delegate '));
  assert.equal(delegations.length, 2);
  // The same component, whichever host ran it.
  assert.equal(new Set(delegations).size, 1);
});
