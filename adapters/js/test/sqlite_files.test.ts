// What the SQLite store must do with files: which it opens, how several processes use one, what a file keeps and what
// it must not keep, and that nothing in it is taken for something else. The cases are those of tests/sqlite_files.rs.

import assert from 'node:assert/strict';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { migrations, statements } from '../generated/sql.js';
import { type Connection, choose, connect } from '../dist/sqlite/driver.js';
import { handlesOn, identity } from '../dist/sqlite/open_files.js';
import { type StatementName, sql } from '../dist/sqlite/statements.js';
import { type SqliteOptions, SqliteStore } from '../dist/sqlite/store.js';
import { StoreFailure } from '../dist/store.js';
import { inProcess } from './sqlite_processes.js';
import { MOVED_AND_ERASED, connectionOf, fillWithMoved, isNoted, leftOf } from './sqlite_moved.js';
import {
  ALL_OF_PARENT,
  delivery,
  failure,
  frozen,
  holds,
  key,
  memory,
  place,
  session,
  told,
  write,
} from './sqlite_rows.js';

const PATIENT: SqliteOptions = { busyTimeoutMs: 60_000 };
const HASTY: SqliteOptions = { busyTimeoutMs: 0 };
const EXISTING: SqliteOptions = { busyTimeoutMs: 0, create: false };

/** A connection without a store. */
function direct(path: string): Connection {
  if (!existsSync(path)) writeFileSync(path, '');
  return connect(choose(undefined), path);
}

/** Change a file behind the store's back, rules off. */
function tamper(path: string, statement: string): void {
  const connection = direct(path);
  connection.exec('PRAGMA ignore_check_constraints=ON; PRAGMA foreign_keys=OFF');
  connection.exec(statement);
  connection.close();
}

/** A store with a row of each kind, closed. */
function filled(path: string): void {
  const store = SqliteStore.open(path);
  store.addMemory(memory('11', 'eleven'), 1n);
  store.putSession(session('parent', { agent: undefined, project: undefined }));
  write(store, () => {
    store.insertSnapshot(frozen('snap_1', ['11'], ['text']));
    store.insertDelivery(delivery('child', 'start', { snapshotRef: 'snap_1' }));
  });
  store.close();
}

function fill(): { directory: string; path: string } {
  const found = place();
  filled(found.path);
  return found;
}

/** What opening this file says, after which all files have the same bytes as before, and there is no other one. */
function refused(path: string, options = PATIENT): StoreFailure {
  const directory = dirname(path);
  const bytes = () => readdirSync(directory).map((name) => [name, readFileSync(join(directory, name)).toString('hex')]);
  const before = bytes();
  const why = failure(() => SqliteStore.open(path, options).close());
  assert.deepEqual(bytes(), before);
  return why;
}

function isRefusedAs(kind: StoreFailure['kind'], why: RegExp, path: string, options = PATIENT): void {
  const found = refused(path, options);
  assert.equal(found.kind, kind, found.message);
  assert.match(found.why, why);
}

// Files that are refused.

test('a file that is not there', () => {
  const { directory, path } = place();
  assert.equal(failure(() => SqliteStore.open(path, EXISTING)).kind, 'absent');
  assert.equal(existsSync(path), false);
  assert.equal(failure(() => SqliteStore.open(join(directory, 'no', 'directory'))).kind, 'absent');
  assert.equal(failure(() => SqliteStore.open(directory)).kind, 'absent');
  assert.equal(failure(() => SqliteStore.open(join(directory, 'x'.repeat(5_000)))).kind, 'absent');
  writeFileSync(path, '');
  isRefusedAs('absent', /is empty/, path, EXISTING);
});

test('a name that SQLite would take for something else', () => {
  const { directory } = place();
  for (const name of ['file:x?mode=memory', '%41', 'a b#?c', ':memory:']) {
    const path = join(directory, name);
    SqliteStore.open(path).close();
    assert.ok(statSync(path).size > 0, name);
  }
});

test('a file that is not SQLite', () => {
  const { path } = place();
  for (const bytes of ['x', 'not a database '.repeat(1_000), 'SQLite format 3', '\0'.repeat(4_096)]) {
    writeFileSync(path, bytes);
    assert.equal(refused(path).kind, 'damaged');
  }
});

test('a file of another application, also one that is open here', () => {
  for (const setting of ['PRAGMA application_id=7', 'PRAGMA application_id=0', 'PRAGMA journal_mode=WAL']) {
    const { path } = place();
    const theirs = direct(path);
    theirs.exec(`${setting}; CREATE TABLE theirs (x)`);
    const why = failure(() => SqliteStore.open(path));
    assert.deepEqual([why.kind, /another application/.test(why.why)], ['damaged', true]);
    theirs.close();
    isRefusedAs('damaged', /another application/, path);
  }
});

/** A file and its log, as somebody left them who crashed. */
function crashed(path: string): { file: string; log: string } {
  const { directory } = place();
  const file = join(directory, 'crashed.db');
  copyFileSync(path, file);
  copyFileSync(`${path}-wal`, `${file}-wal`);
  return { file, log: `${file}-wal` };
}

test('a log of another application is left alone', () => {
  const { path } = place();
  const theirs = direct(path);
  theirs.exec('PRAGMA journal_mode=WAL; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)');
  isRefusedAs('damaged', /another application/, crashed(path).file);
  theirs.close();
});

test('a log of a newer program is left alone', () => {
  const { path } = fill();
  const newer = direct(path);
  newer.exec('UPDATE store SET schema = 9, oldest_reader = 9, oldest_writer = 9');
  const { file, log } = crashed(path);
  const before = [readFileSync(file), readFileSync(log)];
  const why = failure(() => SqliteStore.open(file));
  assert.deepEqual([why.kind, /newer program/.test(why.why)], ['other', true]);
  assert.deepEqual([readFileSync(file), readFileSync(log)], before);
  newer.close();
});

test('a log that was left by one of us is read, and what it holds is kept', () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  store.addAgent('ada');
  const { file } = crashed(path);
  store.close();
  const again = SqliteStore.open(file);
  assert.equal(again.addAgent('ada'), false);
  again.close();
  assert.equal(existsSync(`${file}-wal`), false);
});

test('a file that was cut off', () => {
  const { path } = fill();
  const whole = readFileSync(path);
  const sizes = [1, 15, 99, 100, 512, 4_095, 4_096, 4_097, whole.length / 2, whole.length - 4_096, whole.length - 1];
  for (const size of sizes) {
    writeFileSync(path, whole.subarray(0, size));
    assert.equal(refused(path).kind, 'damaged', `at ${size}`);
  }
  writeFileSync(path, whole);
  SqliteStore.open(path).close();
});

test('a file whose end was half-written beside its log', () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  store.addMemory(memory('55', 'fifty-five '.repeat(2_000)), 1n);
  for (const ending of [1, 511, 4_095]) {
    const { file } = crashed(path);
    writeFileSync(file, Buffer.concat([readFileSync(path), Buffer.alloc(ending, 0xa5)]));
    const left = SqliteStore.open(file, EXISTING);
    assert.deepEqual(
      left.memories(['11', '55'], 99_999).map((found) => found?.body?.length),
      [6, 22_000],
      `${ending}`,
    );
    left.close();
    // Without its log, it is what was cut off.
    assert.equal(existsSync(`${file}-wal`), false);
    writeFileSync(file, Buffer.concat([readFileSync(file), Buffer.alloc(ending)]));
    isRefusedAs('damaged', /was cut off/, file);
  }
  store.close();
});

/** The journal of a transaction on a file that had this many pages of 4096 bytes; sectors of 512 bytes. */
function journalOf(pages: number): Buffer {
  const journal = Buffer.alloc(512);
  journal.write('d9d505f920a163d7', 'hex');
  journal.writeUInt32BE(pages, 16);
  journal.writeUInt32BE(512, 20);
  journal.writeUInt32BE(4_096, 24);
  return journal;
}

test('a file whose first transaction was not finished', () => {
  const { path } = fill();
  const whole = readFileSync(path);
  const lefts = [4_096, 512, 50].map((size) => whole.subarray(0, size));
  for (const left of [whole, ...lefts, Buffer.alloc(4_096), Buffer.alloc(1_000, 0xa5), Buffer.alloc(0)]) {
    writeFileSync(path, left);
    writeFileSync(`${path}-journal`, journalOf(0));
    isRefusedAs('absent', /no store was made there yet/, path, EXISTING);
    const store = SqliteStore.open(path, HASTY);
    assert.deepEqual(store.memories(['11'], 99), [undefined]);
    store.addAgent('ada');
    store.close();
    // It is one of ours again.
    const again = SqliteStore.open(path, EXISTING);
    assert.equal(again.addAgent('ada'), false);
    again.close();
  }
  // The journal of a file that had pages before says nothing of the kind, nor does what is none.
  for (const journal of [journalOf(1), journalOf(0).subarray(0, 19), Buffer.alloc(512)]) {
    writeFileSync(path, 'not a database '.repeat(1_000));
    writeFileSync(`${path}-journal`, journal);
    isRefusedAs('damaged', /is not an SQLite file/, path);
  }
});

test('a file that was cut to nothing beside its log', () => {
  const { path } = fill();
  writeFileSync(`${path}-wal`, 'committed');
  writeFileSync(path, '');
  isRefusedAs('damaged', /is empty, and its log is not/, path);
});

test('an index that names a delivery twice, or another child’s, is not believed (R20)', () => {
  const { path } = place();
  const store = SqliteStore.open(path);
  write(store, () => {
    for (const child of ['anna', 'bert']) {
      for (const occasion of ['a', 'b']) {
        assert.equal(store.insertDelivery(told(child, occasion, `the ${occasion} of ${child}`)), true);
      }
    }
  });
  const replayed = (child: string) => store.replay(key(child), undefined, 1, 0n).map((row) => row.text);
  assert.deepEqual(replayed('bert'), ['the a of bert', 'the b of bert']);
  const index = direct(path);
  const [row] = index.all("SELECT rootpage FROM sqlite_schema WHERE name = 'deliveries_child'", {});
  const start = (Number(row![0]) - 1) * 4096;
  index.close();
  store.close();

  const whole = readFileSync(path);
  const damaged = (change: (entry: Buffer) => void, name: string, number: number) => {
    const bytes = Buffer.from(whole);
    // An entry ends with the session and the row's number.
    const at = bytes.indexOf(Buffer.concat([Buffer.from(name), Buffer.of(number)]), start);
    assert.ok(at >= start && at < start + 4096);
    change(bytes.subarray(at, at + name.length + 1));
    writeFileSync(path, bytes);
    return SqliteStore.open(path, EXISTING);
  };
  const twice = damaged((entry) => (entry[4] = 3), 'bert', 4);
  for (const read of [() => twice.replay(key('bert'), undefined, 1, 0n), () => twice.deliveries(key('bert'))]) {
    assert.equal(failure(read).kind, 'damaged');
  }
  twice.close();
  // bert's second entry leads to anna's delivery.
  const foreign = damaged((entry) => (entry[4] = 2), 'bert', 4);
  const texts = foreign.replay(key('bert'), undefined, 1, 0n).map((row) => row.text);
  assert.deepEqual(texts, ['the a of bert']);
  foreign.close();
});

test('damage in the middle is damage, and not "nothing there"', () => {
  const { path } = fill();
  const whole = readFileSync(path);
  for (let start = 4_096; start < whole.length; start += 4_096) {
    const bytes = Buffer.from(whole);
    bytes.fill(0xa5, start, start + 4_096);
    writeFileSync(path, bytes);
    let store: SqliteStore;
    try {
      store = SqliteStore.open(path);
    } catch (error) {
      assert.ok(error instanceof StoreFailure);
      continue;
    }
    const reads = [
      () => store.memories(['11'], 99),
      () => store.snapshots(['snap_1'], { tag: 'all' }),
      () => store.replay(key('child'), undefined, 1, 0n),
      () => store.sessions([key('parent')]),
    ];
    for (const read of reads) {
      try {
        read();
      } catch (error) {
        assert.ok(error instanceof StoreFailure && error.kind === 'damaged', `at ${start}: ${error}`);
      }
    }
    store.close();
  }
});

test('a file that may only be read', () => {
  const { path } = fill();
  chmodSync(path, 0o400);
  isRefusedAs('other', /only be read/, path);
});

// Schemas.

test('a schema that this program may not read', () => {
  const { path } = fill();
  tamper(path, 'UPDATE store SET schema = 9, oldest_reader = 8, oldest_writer = 8');
  isRefusedAs('other', /newer program .* knows schema 8 is needed/, path);
});

test('a schema that this program may only read', () => {
  const { path } = fill();
  tamper(path, 'UPDATE store SET schema = 9, oldest_writer = 8; CREATE TABLE of_a_later_version (x)');
  const before = readFileSync(path);
  const store = SqliteStore.open(path);
  store.beginUnit('read');
  assert.equal(store.replay(key('child'), undefined, 1, 0n).length, 1);
  store.commit();
  assert.match(failure(() => store.beginUnit('write')).why, /newer program/);
  assert.equal(failure(() => store.addAgent('ada')).kind, 'other');
  store.close();
  assert.deepEqual(readFileSync(path), before);
});

test('a newer schema that only adds', () => {
  const { path } = fill();
  tamper(path, 'UPDATE store SET schema = 9; ALTER TABLE memories ADD COLUMN mood TEXT; CREATE TABLE more (x)');
  const store = SqliteStore.open(path);
  assert.equal(store.addMemory(memory(undefined, 'text'), 1n), '2');
  store.close();
});

test('a schema that changes meanwhile', () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  store.beginUnit('read');
  store.commit();
  tamper(path, 'UPDATE store SET schema = 9, oldest_writer = 9');
  assert.equal(failure(() => store.beginUnit('write')).kind, 'other');
  store.beginUnit('read');
  store.commit();
  tamper(path, 'UPDATE store SET oldest_reader = 9');
  // What was read is not given out.
  store.beginUnit('read');
  store.replay(key('child'), undefined, 1, 0n);
  assert.equal(failure(() => store.commit()).kind, 'other');
  assert.equal(failure(() => store.commit()).kind, 'other');
  store.close();
});

// Locks.

test('a locked file is busy, and never "nothing there" (F22)', () => {
  const { path } = fill();
  const store = SqliteStore.open(path, HASTY);
  const other = SqliteStore.open(path, HASTY);
  other.beginUnit('write');
  assert.equal(failure(() => store.beginUnit('write')).kind, 'busy');
  assert.equal(failure(() => store.addAgent('ada')).kind, 'busy');
  // Readers wait for nobody, and a file can be opened beside a writer.
  store.beginUnit('read');
  assert.equal(store.replay(key('child'), undefined, 1, 0n).length, 1);
  store.commit();
  SqliteStore.open(path, HASTY).close();
  other.rollBack();
  store.beginUnit('write');
  store.close();
  other.close();
});

test('a file that another program keeps to itself is busy', () => {
  const { path } = fill();
  const other = direct(path);
  other.once('PRAGMA locking_mode=EXCLUSIVE');
  other.exec('BEGIN IMMEDIATE; UPDATE store SET schema = 1; COMMIT');
  for (const busyTimeoutMs of [0, 50]) {
    assert.equal(failure(() => SqliteStore.open(path, { busyTimeoutMs })).kind, 'busy');
  }
  other.close();
  SqliteStore.open(path, HASTY).close();
});

test('a fresh file that is locked, or is being read, is busy', () => {
  const { path } = place();
  const other = direct(path);
  other.exec('BEGIN EXCLUSIVE');
  assert.equal(failure(() => SqliteStore.open(path, HASTY)).kind, 'busy');
  other.exec('ROLLBACK; PRAGMA application_id=1835363696; BEGIN');
  other.once('SELECT count(*) FROM sqlite_schema');
  assert.equal(failure(() => SqliteStore.open(path, HASTY)).kind, 'busy');
  other.exec('COMMIT');
  SqliteStore.open(path, HASTY).close();
  other.close();
});

test('a unit that reads sees one state, whatever others write', () => {
  const { path } = fill();
  const reader = SqliteStore.open(path);
  const writer = SqliteStore.open(path);
  const body = () => reader.memories(['11'], 99)[0]?.body;
  reader.beginUnit('read');
  assert.equal(body(), 'eleven');
  writer.editMemory('11', { body: 'changed' }, 2n);
  assert.equal(body(), 'eleven');
  reader.commit();
  assert.equal(body(), 'changed');
  reader.close();
  writer.close();
});

test('opening does not drop the locks of this process', async () => {
  const { path } = place();
  const store = SqliteStore.open(path);
  SqliteStore.open(path).close();
  SqliteStore.open(path, EXISTING).close();
  store.reopen();
  store.lock().release();
  assert.equal(await inProcess('take', path, 0), 'busy');
  store.addAgent('ada');
  // Nor does looking through its pages.
  write(store, () => store.erase(['nobody']));
  assert.equal(await inProcess('take', path, 0), 'busy');
  store.close();
  assert.equal(await inProcess('take', path, 0), 'taken');
  // Neither those of somebody else in this process, where the system says what is open.
  if (!existsSync('/dev/fd')) return;
  const other = direct(path);
  other.once('SELECT count(*) FROM agents');
  SqliteStore.open(path).close();
  assert.equal(await inProcess('take', path, 0), 'busy');
  other.close();
});

test('closing a handle would drop them', { skip: process.platform === 'win32' }, async () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  openSync(path, 'r');
  assert.equal(await inProcess('take', path, 0), 'busy');
  readFileSync(path);
  assert.equal(await inProcess('take', path, 0), 'taken');
  store.close();
});

test('no handle is left when the file is closed', { skip: !existsSync('/dev/fd') }, () => {
  const { path } = fill();
  const file = identity(statSync(path, { bigint: true }));
  assert.equal(handlesOn(file), 0);
  const store = SqliteStore.open(path);
  const other = SqliteStore.open(path);
  const driver = choose(undefined) === 'node' ? 'better' : 'node';
  assert.match(failure(() => SqliteStore.open(path, { driver })).why, /is open in this process already/);
  store.close();
  assert.ok(handlesOn(file) > 0);
  other.close();
  assert.equal(handlesOn(file), 0);
  // One stays where another thread has the file open, until the next time.
  const theirs = direct(path);
  theirs.once('SELECT count(*) FROM agents');
  SqliteStore.open(path).close();
  assert.ok(handlesOn(file) > 1);
  theirs.close();
  assert.equal(handlesOn(file), 1);
  SqliteStore.open(path).close();
  assert.equal(handlesOn(file), 0);
  // Nor of one that is refused.
  tamper(path, 'UPDATE store SET schema = 9, oldest_reader = 9, oldest_writer = 9');
  isRefusedAs('other', /newer program/, path);
  assert.equal(handlesOn(file), 0);
});

// Processes.

test('eight processes open a fresh file at once (F23)', async () => {
  for (let round = 0; round < 3; round += 1) {
    const { path } = place();
    const children = Array.from({ length: 8 }, (_, number) => inProcess('open', path, number));
    writeFileSync(`${path}.go`, '');
    await Promise.all(children);
    const file = direct(path);
    assert.deepEqual(file.once('SELECT (SELECT count(*) FROM agents), (SELECT count(*) FROM memories)'), [[8n, 8n]]);
    file.close();
  }
});

test('eight processes deliver to one child (R25)', async () => {
  const { path } = fill();
  await Promise.all(Array.from({ length: 8 }, (_, number) => inProcess('deliver', path, number)));
  const store = SqliteStore.open(path, EXISTING);
  assert.equal(store.deliveries(key('racer')).length, 1);
  store.close();
});

test('a process that ends in the middle', async () => {
  const { path } = fill();
  await inProcess('end in the middle', path, 0);
  assert.ok(existsSync(`${path}-wal`));
  const store = SqliteStore.open(path, HASTY);
  assert.equal(store.addAgent('kept'), false);
  assert.deepEqual(store.snapshots(['snap_lost'], { tag: 'none' }), [undefined]);
  store.close();
});

// What the file keeps.

test('only its owner may open the file', { skip: process.platform === 'win32' }, () => {
  const { directory, path } = place();
  const store = SqliteStore.open(path);
  store.addAgent('ada');
  const names = readdirSync(directory).sort();
  assert.deepEqual(names, ['store.db', 'store.db-shm', 'store.db-wal']);
  for (const name of names) assert.equal(statSync(join(directory, name)).mode & 0o777, 0o600, name);
  store.close();
  assert.deepEqual(readdirSync(directory), ['store.db']);
});

test('the connection is set up', () => {
  const { path } = place();
  for (let time = 0; time < 2; time += 1) {
    const store = SqliteStore.open(path);
    const connection = connectionOf(store);
    const settings = {
      busy_timeout: 5_000n,
      cache_size: -16_384n,
      cell_size_check: 1n,
      foreign_keys: 1n,
      journal_mode: 'wal',
      journal_size_limit: 8_388_608n,
      secure_delete: 1n,
      synchronous: 2n,
      trusted_schema: 0n,
    };
    const of = () => Object.keys(settings).map((name) => [name, connection.once(`PRAGMA ${name}`)[0]?.[0]]);
    assert.deepEqual(of(), Object.entries(settings));
    store.beginUnit('relaxed');
    assert.deepEqual(connection.once('PRAGMA synchronous'), [[1n]]);
    store.commit();
    store.beginUnit('write');
    assert.deepEqual(of(), Object.entries(settings));
    store.close();
  }
});

test('reads never write (F21)', () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  store.putSetting(undefined, 'max-ids', '9');
  const bytes = () => [readFileSync(path), readFileSync(`${path}-wal`)];
  const before = bytes();
  store.beginUnit('read');
  const child = key('child');
  store.memories(['11'], 99);
  store.search({ owner: 'ada', projects: ['web'], at: 1n, trustedOnly: true }, 'eleven', 9, 99);
  store.sessions([child]);
  store.projects(['web']);
  store.workspaceProjects('w');
  store.links('ada', ['bob']);
  store.snapshots(['snap_1'], { tag: 'all' });
  store.pinned(['11'], 1n);
  store.holding(['11'], 9);
  store.expired(1_000n, 9);
  store.findHandOvers(ALL_OF_PARENT, 9);
  store.deliveries(child);
  store.replay(child, undefined, 1, 0n);
  store.settings(undefined, ['max-ids']);
  store.allAudit(9);
  store.commit();
  assert.deepEqual(bytes(), before);
  // Opening and closing do not write either.
  SqliteStore.open(path).close();
  assert.deepEqual(bytes(), before);
  store.close();
});

test('erased text does not survive (R17)', () => {
  const cases: Record<string, (store: SqliteStore) => unknown> = {
    overwrite: (store) => store.overwrite([frozen('snap_2', [], ['short'])]),
    strip: (store) => store.strip(['snap_2'], 1n),
    remove: (store) => store.remove(['snap_2']),
    erase: (store) => store.erase(['55']),
    unattached: (store) => store.removeUnattached(1_000n, 9),
  };
  for (const [name, erase] of Object.entries(cases)) {
    const { directory, path } = fill();
    const store = SqliteStore.open(path);
    const secret = `SECRET-${name}-`.repeat(2_000);
    if (name === 'erase') store.addMemory(memory('55', secret), 1n);
    else if (name === 'unattached') write(store, () => store.insertDelivery(told('told', 'start', secret)));
    else write(store, () => store.insertSnapshot(frozen('snap_2', ['11'], [secret])));
    assert.ok(holds(directory, `SECRET-${name}-`), name);
    write(store, () => erase(store));
    assert.ok(!holds(directory, `SECRET-${name}-`), name);
    store.close();
  }
});

test('a body that was replaced does not survive, nor does a word of one that was erased (R17, R42)', () => {
  const { directory, path } = place();
  const store = SqliteStore.open(path);
  store.addMemory(memory('11', 'SECRET-EDIT-'.repeat(2_000)), 1n);
  store.editMemory('11', { body: 'short' }, 2n);
  assert.ok(!holds(directory, 'SECRET-EDIT-'));
  const word = (n: number) => `zy${((n * 7_919) % 99_991).toString(16)}`;
  const filler = (from: number) => {
    for (let n = from; n < from + 60; n += 1) {
      const words = Array.from({ length: 300 }, (_, k) => word(n * 300 + k));
      store.addMemory(memory(`filler ${n}`, words.join(' ')), 1n);
    }
  };
  filler(0);
  store.addMemory(memory('55', 'zyzzyvaform and abfrakt 固定小数'), 1n);
  filler(60);
  assert.ok(holds(directory, 'zyzzyvaform'));
  write(store, () => store.erase(['55']));
  for (const rest of ['zyzzyvaform', 'zzyvaform', 'abfrakt', '固定', '小数']) assert.ok(!holds(directory, rest), rest);
  const all = Array.from({ length: 120 }, (_, n) => `filler ${n}`);
  assert.equal(write(store, () => store.erase(all)).length, 120);
  assert.ok(!holds(directory, word(1)));
  store.close();
  const file = direct(path);
  file.exec("INSERT INTO memory_words (memory_words, rank) VALUES ('integrity-check', 1)");
  assert.deepEqual(file.once('PRAGMA integrity_check'), [['ok']]);
  file.close();
});

test('erased text is taken out of the log later, by whoever writes next, if a reader needs it', () => {
  const { directory, path } = place();
  const secret = 'SECRET-LATER-'.repeat(2_000);
  const reader = SqliteStore.open(path, HASTY);
  const store = SqliteStore.open(path, HASTY);
  const other = SqliteStore.open(path, HASTY);
  write(store, () => store.insertSnapshot(frozen('snap_1', ['11'], [secret])));
  reader.beginUnit('read');
  reader.snapshots(['snap_1'], { tag: 'none' });
  write(store, () => store.strip(['snap_1'], 1n));
  assert.ok(store.isScrubDue && holds(directory, 'SECRET-LATER-'));
  assert.equal(reader.snapshots(['snap_1'], { tag: 'all' })[0]?.pages[0]?.text, secret);
  reader.commit();
  // The process that erased it does nothing more.
  assert.ok(!other.isScrubDue);
  other.addAgent('ada');
  assert.ok(!other.isScrubDue && !holds(directory, 'SECRET-LATER-'));
  for (const one of [reader, store, other]) one.close();
  const file = direct(path);
  assert.deepEqual(file.once('SELECT scrub FROM store'), [[0n]]);
  file.close();
});

test('the unit that erases notes it in the file, and takes the note out when the text is gone', () => {
  const { path } = fill();
  const store = SqliteStore.open(path);
  const other = SqliteStore.open(path);
  store.beginUnit('write');
  assert.equal(isNoted(store), false);
  store.erase(['11']);
  assert.deepEqual([isNoted(store), isNoted(other)], [true, false]);
  store.rollBack();
  assert.deepEqual([isNoted(store), store.isScrubDue], [false, false]);
  write(store, () => store.strip(['snap_1'], 1n));
  assert.deepEqual([isNoted(store), isNoted(other), store.isScrubDue], [false, false, false]);
  for (const one of [store, other]) one.close();
});

test('the note of another one who erases is not taken out', () => {
  const { path } = fill();
  const store = SqliteStore.open(path, HASTY);
  const other = direct(path);
  const connection = connectionOf(store);
  const { once } = connection;
  let written = 0;
  // It ends right after its commit, just when this store has cut off the log.
  connection.once = (statement) => {
    const found = once(statement);
    if (statement.includes('TRUNCATE')) {
      other.exec('BEGIN; UPDATE store SET scrub = 1; DELETE FROM memories; COMMIT');
      written += 1;
    }
    return found;
  };
  write(store, () => store.strip(['snap_1'], 1n));
  connection.once = once;
  assert.deepEqual([written, store.isScrubDue, isNoted(store)], [1, false, true]);
  store.addAgent('ada');
  assert.equal(isNoted(store), false);
  other.close();
  store.close();
});

test('who ends before the log is cut off leaves that to whoever writes next', async () => {
  const { directory, path } = place();
  const made = SqliteStore.open(path);
  fillWithMoved(connectionOf(made));
  made.close();
  await inProcess('end before the log is cut off', path, 0);
  const store = SqliteStore.open(path, HASTY);
  assert.ok(isNoted(store) && leftOf(`${path}-wal`).length > 0);
  store.beginUnit('read');
  assert.deepEqual(
    store.memories(['0', '1'], 0).map((found) => found === undefined),
    [true, false],
  );
  store.commit();
  store.addAgent('ada');
  assert.deepEqual([isNoted(store), store.isScrubDue], [false, false]);
  for (const name of readdirSync(directory)) assert.deepEqual(leftOf(join(directory, name)), [], name);
  store.close();
});

test('the note of another erasure is not taken for one’s own', () => {
  const { path } = place();
  const first = SqliteStore.open(path);
  fillWithMoved(connectionOf(first));
  const reader = SqliteStore.open(path);
  reader.beginUnit('read');
  reader.memories(['1'], 10);
  first.editMemory('1', { body: 'short' }, 2n);
  assert.ok(first.isScrubDue);
  const second = SqliteStore.open(path);
  write(second, () => second.erase(MOVED_AND_ERASED.map(String)));
  assert.ok(second.isScrubDue);
  second.close();
  reader.commit();
  const version = first.version();
  first.addAgent('another');
  assert.notEqual(first.version(), version);
  assert.ok(!first.isScrubDue);
  assert.deepEqual(leftOf(path), []);
  reader.close();
  first.close();
});

test('the file is written anew only if it has copies', () => {
  const { path } = place();
  const store = SqliteStore.open(path);
  for (const id of ['one', 'two', 'three']) store.addMemory(memory(id, `the body of ${id}`), 1n);
  const connection = connectionOf(store);
  const { exec } = connection;
  const done: string[] = [];
  connection.exec = (statement) => {
    if (statement === 'VACUUM') done.push(statement);
    exec(statement);
  };
  write(store, () => store.erase(['one', 'three']));
  assert.deepEqual(done, []);
  fillWithMoved(connection);
  write(store, () => store.erase(['0']));
  assert.deepEqual(done, ['VACUUM']);
  write(store, () => store.erase(['5']));
  assert.deepEqual(done, ['VACUUM']);
  store.close();
});

test('no copy of an erased memory is left where it was once (R17)', () => {
  for (const isClosed of [false, true]) {
    const { directory, path } = place();
    const store = SqliteStore.open(path, HASTY);
    fillWithMoved(connectionOf(store));
    const reader = isClosed ? SqliteStore.open(path, HASTY) : undefined;
    reader?.beginUnit('read');
    reader?.memories(['0'], 9);
    const erased = write(store, () => store.erase(MOVED_AND_ERASED.map(String)));
    assert.equal(erased.length, MOVED_AND_ERASED.length);
    assert.equal(store.isScrubDue, isClosed);
    if (reader !== undefined) {
      // Then closing the store makes up for it.
      const { file } = crashed(path);
      const copy = direct(file);
      copy.once('PRAGMA wal_checkpoint(TRUNCATE)');
      copy.close();
      assert.ok(leftOf(file).length > 0, 'this test has lost its point');
      reader.commit();
      store.close();
      assert.equal(isNoted(reader), false);
    }
    for (const name of readdirSync(directory)) assert.deepEqual(leftOf(join(directory, name)), [], name);
    const rest = reader ?? store;
    const ids = Array.from({ length: 600 }, (_, n) => `${n}`);
    assert.equal(rest.memories(ids, 99_999_999).filter((found) => found !== undefined).length, 480);
    assert.deepEqual(connectionOf(rest).once('PRAGMA integrity_check'), [['ok']]);
    rest.close();
    store.close();
  }
});

// What comes out of the file.

/** As {@link fill}, with columns that take any type, as no store makes them; then changed. */
function tampered(change: string): string {
  const { path } = place();
  const loose = (migrations[0] ?? '')
    .replace(/\) STRICT(, )?/g, (_, more) => (more ? ') ' : ')'))
    .replace(/(INTEGER|TEXT) +NOT NULL/g, '$1')
    .replaceAll('INTEGER ', 'ANY ')
    .replaceAll('ANY PRIMARY KEY', 'INTEGER PRIMARY KEY');
  tamper(path, `PRAGMA application_id=1835363696; ${loose}`);
  filled(path);
  const store = SqliteStore.open(path);
  store.addMemory(memory('55', 'fine'), 1n);
  store.close();
  tamper(path, `UPDATE ${change}`);
  return path;
}

test('a memory that cannot be read is left out (F20)', () => {
  const cases = [
    "body = CAST(x'ff41' AS TEXT)",
    "body = CAST(x'e59b' AS TEXT)",
    "body = x'41'",
    'body = NULL',
    'expires_at = -1',
    "expires_at = '2026-01-01'",
    "expires_at = 'never'",
    'expires_at = 1.5',
    "expires_at = x'00'",
    'priority = -1',
    'priority = 4294967296',
    'version = NULL',
    "updated_at = 'yesterday'",
    "audience = 'everybody'",
    'audience = NULL',
    "active = 'yes'",
    'trusted = NULL',
    "category = CAST(x'80' AS TEXT)",
    "owner = CAST(x'80' AS TEXT)",
    "attributes = '{'",
    'attributes = \'[["a"]]\'',
    'attributes = NULL',
  ];
  for (const change of cases) {
    const store = SqliteStore.open(tampered(`memories SET ${change} WHERE memory_id = '11'`));
    for (const maxBytes of [0, 99]) {
      const rows = store.memories(['11', '55'], maxBytes);
      assert.ok(rows[0] === undefined && rows[1] !== undefined, change);
    }
    store.close();
  }
});

test('a text that is not UTF-8 is left out in a memory, and is damage elsewhere', () => {
  const { path } = fill();
  tamper(path, "UPDATE memories SET body = CAST(x'ff41' AS TEXT); UPDATE pages SET text = CAST(x'ff' AS TEXT)");
  const store = SqliteStore.open(path);
  assert.deepEqual(store.memories(['11'], 99), [undefined]);
  assert.equal(failure(() => store.replay(key('child'), undefined, 1, 0n)).kind, 'damaged');
  assert.equal(failure(() => store.snapshots(['snap_1'], { tag: 'all' })).kind, 'damaged');
  store.close();
});

test('any other row that cannot be read is damage', () => {
  const reads: Record<string, (store: SqliteStore) => unknown> = {
    snapshots: (store) => store.snapshots(['snap_1'], { tag: 'all' }),
    replay: (store) => store.replay(key('child'), undefined, 1, 0n),
    deliveries: (store) => store.deliveries(key('child')),
    sessions: (store) => store.sessions([key('parent')]),
  };
  const cases = [
    ['snapshots SET keep_until = NULL', 'snapshots'],
    ["snapshots SET revoked_at = 'x'", 'replay'],
    ['snapshots SET revoked_at = -1', 'replay'],
    ['snapshots SET pages = -1', 'replay'],
    ["snapshots SET state = CAST(x'ff' AS TEXT)", 'snapshots'],
    ["pages SET text = x'41'", 'replay'],
    ['pages SET text = NULL', 'replay'],
    ['pages SET checksum = NULL', 'replay'],
    ['pages SET text = NULL', 'snapshots'],
    ['deliveries SET at = 1.5', 'deliveries'],
    ['deliveries SET state = NULL', 'deliveries'],
    ['deliveries SET place = -1', 'deliveries'],
    ['sessions SET memory_on = NULL', 'sessions'],
    ["sessions SET attributes = '[1]'", 'sessions'],
  ] as const;
  for (const [change, read] of cases) {
    const store = SqliteStore.open(tampered(change));
    assert.equal(failure(() => reads[read]?.(store)).kind, 'damaged', change);
    store.close();
  }
});

// Statements and drivers.

test('statements are made ready without a change of their plan or of their columns', () => {
  const { path } = fill();
  const file = direct(path);
  const original = (name: StatementName) => statements[name].replace(/--.*\n/g, '');
  const plan = (text: string) => {
    const params = Object.fromEntries([...text.matchAll(/:(\w+)/g)].map((match) => [match[1], null]));
    return file.all(`EXPLAIN QUERY PLAN ${text}`, params).map((row) => row[3]);
  };
  let read = 0;
  for (const name of Object.keys(statements) as StatementName[]) {
    assert.deepEqual(plan(sql(name)), plan(original(name)), name);
    if (sql(name).includes('CAST(')) read += 1;
    assert.ok(!sql(name).includes('--'), name);
  }
  assert.ok(read > 20, `only ${read}`);
  file.close();
});

test('another driver is refused for a file that is open, and one that is not there is said', () => {
  const unknown = failure(() => SqliteStore.open(place().path, { driver: 'other' as 'bun' }));
  assert.match(unknown.why, /take bun, node or better/);
  const { path } = place();
  const here = process.versions.bun === undefined ? 'bun' : 'better';
  const why = failure(() => SqliteStore.open(path, { driver: here })).why;
  assert.match(why, here === 'bun' ? /only in Bun/ : /better-sqlite3, which `npm ci` compiles/);
  assert.equal(statSync(path).size, 0);
  const store = SqliteStore.inMemory();
  assert.equal(store.addAgent('ada'), true);
  assert.equal(store.reopen().addAgent('ada'), false);
  store.close();
  store.close();
});
