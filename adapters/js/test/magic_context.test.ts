// The store of magic-context as a source of memories: what is read of it, who sees it, and that no byte of it is changed.
// Fixtures are made here; its program is played by a process of its own.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Prefetch, PolicyError } from '../dist/host.js';
import { MagicContext } from '../dist/sources/magic_context.js';
import { onceThere } from '../dist/sources/source.js';
import type { SourceOptions } from '../dist/sources/source.js';
import { choose, connect } from '../dist/sqlite/driver.js';
import type { Connection } from '../dist/sqlite/driver.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { StoreFailure } from '../dist/store.js';
import type { Memories } from '../dist/store.js';
import type { Memory, Receipt, SearchFilter } from '../dist/contract.js';

const NOW = 1_800_000_000_000n;

const MEMORIES = `
  CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, project_path TEXT NOT NULL, category TEXT NOT NULL, content TEXT NOT NULL,
    normalized_hash TEXT, importance INTEGER, scope TEXT DEFAULT 'project', shareable INTEGER DEFAULT 0,
    seen_count INTEGER DEFAULT 1, updated_at INTEGER, status TEXT DEFAULT 'active', expires_at INTEGER,
    superseded_by_memory_id INTEGER, metadata_json TEXT);`;

const WORKSPACES = `
  CREATE TABLE workspaces (id INTEGER PRIMARY KEY, name TEXT, share_categories TEXT DEFAULT '["CONSTRAINTS"]');
  CREATE TABLE workspace_members (workspace_id INTEGER, project_path TEXT, added_at INTEGER);
  CREATE TABLE schema_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER);
  INSERT INTO schema_migrations VALUES (60, 1), (99, 2);`;

/** With all that calls `mcown`, which only its own program has, once {@link Context.makeOwn} has written that. */
const OWN = `
  CREATE INDEX memories_own ON memories (lower(content));
  CREATE INDEX memories_some ON memories (project_path) WHERE lower(status) = 1;
  CREATE TRIGGER memories_added AFTER INSERT ON memories BEGIN SELECT lower(new.id); END;
  CREATE VIEW memories_seen AS SELECT lower(id) FROM memories;`;

/** A directory with the database of magic-context in it, in WAL mode and closed. */
class Context {
  readonly dir = mkdtempSync(join(tmpdir(), 'magic-context-'));

  constructor(...sql: string[]) {
    writeFileSync(this.path, '');
    for (const statements of ['PRAGMA journal_mode = WAL', ...sql]) this.change(statements);
  }

  get path(): string {
    return join(this.dir, 'context.db');
  }

  /** What its own program did some time ago. */
  change(sql: string): void {
    this.#write((connection) => connection.exec(sql));
  }

  add(id: number, project: string, category: string, content: string): void {
    const sql = `INSERT INTO memories (id, project_path, category, content, importance, updated_at)
      VALUES (:id, :project, :category, :content, 50, :at)`;
    this.#write((connection) => connection.run(sql, { id, project, category, content, at: 1_000 + id }));
  }

  #write(write: (connection: Connection) => void): void {
    const connection = connect(choose(undefined), this.path);
    try {
      write(connection);
    } finally {
      connection.close();
      settle(this.path);
    }
  }

  /** After this nobody else can add a row. */
  makeOwn(): void {
    this.change(OWN);
    writeFileSync(this.path, readFileSync(this.path, 'latin1').replaceAll('lower(', 'mcown('), 'latin1');
    settle(this.path);
    assert.throws(() => this.add(99, 'git:a', 'X', 'one more'), /mcown/);
  }

  open(options: SourceOptions = {}): MagicContext {
    return MagicContext.open(this.path, { busyTimeoutMs: 0, ...options });
  }

  failure(): StoreFailure {
    return failureOf(() => this.open());
  }

  bytes(): Record<string, string> {
    return bytes(this.dir);
  }
}

function fresh(): Context {
  return new Context(MEMORIES, WORKSPACES);
}

function failureOf(run: () => unknown): StoreFailure {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof StoreFailure, String(error));
    return error;
  }
  assert.fail('it did not fail');
}

/** As if it had been changed an hour ago. */
function settle(path: string): void {
  const hourAgo = Date.now() / 1000 - 3600;
  utimesSync(path, hourAgo, hourAgo);
}

/** Every file in a directory, but for the index of a log, which readers share. Read by another process: closing a file
 * drops the locks that this one has on it. */
function bytes(dir: string): Record<string, string> {
  const kept = readdirSync(dir).filter((name) => !name.endsWith('-shm'));
  return Object.fromEntries(kept.map((name) => [name, execFileSync('cat', [join(dir, name)]).toString('latin1')]));
}

const names = (dir: string) => readdirSync(dir).sort();

/** What stands beside a database at rest that was read: with better-sqlite3 SQLite leaves its two files there. */
const untouched = choose(undefined) === 'better' ? ['context.db', 'context.db-shm', 'context.db-wal'] : ['context.db'];

/** Ends those of tests that failed, which would keep this process running. */
const running = new Set<ChildProcess>();
after(() => running.forEach((child) => child.kill('SIGKILL')));

/** A process that has a database open and does what it is told. */
async function start(path: string) {
  const script = fileURLToPath(new URL('program.js', import.meta.url));
  const child = spawn(process.execPath, [script, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  running.add(child);
  const ended = new Promise((resolve) => child.on('close', resolve));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const reply = async () => assert.equal((await lines.next()).value, 'reply: done');
  await reply();
  return {
    async run(sql: string) {
      child.stdin.write(`${sql.replace(/\n/g, ' ')}\n`);
      await reply();
    },
    /** End it in the middle of what it does. */
    async crash() {
      child.kill('SIGKILL');
      await ended;
    },
    async end() {
      child.stdin.end();
      await ended;
    },
  };
}

/** One unit of work that reads. */
function unit<M extends Memories, T>(source: M, work: (source: M) => T): T {
  source.begin?.();
  try {
    return work(source);
  } finally {
    source.end?.();
  }
}

const rows = (source: Memories, ids: string[]) => unit(source, () => source.memories(ids, 0xffff_ffff));

const bodies = (source: Memories, ids: string[]) => rows(source, ids).map((row) => row?.body);

function row(source: Memories, id: string): Memory {
  const [found] = rows(source, [id]);
  assert.ok(found, `no row ${id}`);
  return found;
}

const key = (id: string) => ({ harness: 'local', id });

/** The component over a store of our own, with a session in each project, named after it, and a child of each. */
function component(source: Memories, projects: string[]) {
  const store = SqliteStore.open(join(mkdtempSync(join(tmpdir(), 'own-')), 'own.db'));
  for (const id of projects) {
    store.putProject({ id, workspace: undefined, memoryOn: true, trusted: true, attributes: [] });
    const agent = `agent of ${id}`;
    store.addAgent(agent);
    const session = { key: key(id), agent, project: id, parent: undefined, memoryOn: true };
    store.putSession(session);
    store.putSession({ ...session, key: key(`child of ${id}`), parent: key(id) });
  }
  const prefetch = new Prefetch(store, { memories: source, clock: () => NOW });
  return {
    prefetch,
    get(session: string, ids: string[]) {
      const { memories, unavailable } = prefetch.get(key(session), ids);
      return [memories.map((view) => view.body), unavailable];
    },
    sees: (session: string, id: string) => prefetch.get(key(session), [id]).unavailable.length === 0,
    recall: (session: string, query: string) =>
      prefetch.recall(key(session), undefined, query, 10).map((view) => view.id),
    delegate(session: string, ids: string[]): Receipt {
      const outcome = prefetch.delegate(key(session), {
        task: 'the task',
        memory: { tag: 'prefetch-ids', val: { ids, mode: 'frozen' } },
        capacity: { budget: { tag: 'bytes', val: 100_000 }, overflow: 'refuse' },
        priorities: [],
        children: 1,
        strict: false,
        carry: 'snapshot-ref',
        attributes: [],
      });
      assert.ok(outcome.tag === 'handed-over' && outcome.val.receipt, JSON.stringify(outcome.tag));
      return outcome.val.receipt;
    },
    deliver(session: string, receipt: Receipt): string {
      const claim = { tag: 'snapshot-ref', val: receipt.snapshotRef! } as const;
      const answer = prefetch.deliver(key(`child of ${session}`), 'start', claim);
      assert.equal(answer.outcome.tag, 'delivered');
      return answer.block!.text;
    },
  };
}

test('delegated from by id, with no copy made and no byte changed', () => {
  const context = fresh();
  const body = '\ufeff Totals are in cents.\r\n\t日本語 🦀 a\0b \ufeff</memory>\n\n';
  context.add(11, 'git:a', 'PROJECT_RULES', body);
  context.makeOwn();
  const before = context.bytes()['context.db'];
  const unchanged = (what: string) => {
    assert.ok(context.bytes()['context.db'] === before, `${what} changed it`);
    assert.deepEqual(names(context.dir), untouched, `${what} left something beside it`);
  };
  const over = component(context.open(), ['git:a']);
  unchanged('opening');
  assert.deepEqual(over.get('git:a', ['11', '12']), [[body], ['12']]);
  unchanged('get');
  assert.deepEqual(over.recall('git:a', 'cents'), ['11']);
  unchanged('recall');
  const receipt = over.delegate('git:a', ['11', '12']);
  unchanged('delegate');
  assert.deepEqual([receipt.items.map((item) => item.id), receipt.unavailable], [['11'], ['12']]);
  assert.ok(over.deliver('git:a', receipt).includes(body));
  unchanged('deliver');
  assert.deepEqual(over.prefetch.forget(['11']).memories, [], 'a row of theirs is not ours to erase');
  unchanged('forget');
  over.prefetch.close();
  unchanged('closing');
});

test('what was frozen stays when the source changes, and when it is gone', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'PROJECT_RULES', 'as it was');
  const over = component(context.open(), ['git:a']);
  const receipt = over.delegate('git:a', ['1']);
  const program = await start(context.path);
  await program.run("UPDATE memories SET content = 'as it is'");
  const text = over.deliver('git:a', receipt);
  assert.ok(text.includes('as it was'));
  assert.deepEqual(over.get('git:a', ['1']), [['as it is'], []]);
  const version = over.delegate('git:a', ['1']).items[0]?.version;
  assert.notEqual(version, receipt.items[0]?.version);
  await program.run('UPDATE memories SET seen_count = seen_count + 1, updated_at = updated_at + 1');
  assert.equal(over.delegate('git:a', ['1']).items[0]?.version, version, 'the body is the same');
  await program.end();

  rmSync(context.dir, { recursive: true });
  assert.deepEqual(
    over.prefetch.replay(key('child of git:a')).map((block) => block.text),
    [text],
  );
  assert.throws(
    () => over.prefetch.get(key('git:a'), ['1']),
    (error) => error instanceof PolicyError && error.error.tag === 'store' && error.error.val.tag === 'absent',
  );
});

test('a source that cannot be opened yet', () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const away = `${context.path}.away`;
  renameSync(context.path, away);
  const said: string[] = [];
  const over = component(
    onceThere(
      () => context.open(),
      (line) => said.push(line),
    ),
    ['git:a'],
  );
  assert.throws(() => over.get('git:a', ['1']), /cannot be read/);
  assert.throws(() => over.recall('git:a', 'one'), /cannot be read/);
  assert.deepEqual(over.prefetch.forget(['1']).memories, []);
  assert.deepEqual(over.prefetch.replay(key('child of git:a')), []);
  assert.equal(said.length, 1);
  writeFileSync(context.path, 'no database');
  assert.throws(() => over.get('git:a', ['1']), /not an SQLite file/);
  assert.deepEqual(over.prefetch.replay(key('child of git:a')), []);
  renameSync(away, context.path);
  assert.deepEqual(over.get('git:a', ['1']), [['one'], []]);
});

test('a link to the database, and another file in its place', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const elsewhere = mkdtempSync(join(tmpdir(), 'elsewhere-'));
  const link = join(elsewhere, 'link.db');
  symlinkSync(context.path, link);
  const source = MagicContext.open(link, { busyTimeoutMs: 0 });
  assert.deepEqual(bodies(source, ['1']), ['one']);
  // The log is beside the file, and not beside the link.
  const program = await start(context.path);
  await program.run("UPDATE memories SET content = 'in the log'");
  settle(context.path);
  assert.deepEqual(bodies(source, ['1']), ['in the log']);
  assert.deepEqual(bodies(MagicContext.open(link), ['1']), ['in the log']);
  await program.end();

  const other = fresh();
  other.add(1, 'git:a', 'X', 'restored');
  for (const suffix of ['-wal', '-shm']) rmSync(context.path + suffix, { force: true });
  renameSync(other.path, context.path);
  assert.deepEqual(bodies(source, ['1']), ['restored']);
  // With as many changes of its schema behind it, and another one.
  const older = new Context(MEMORIES.replace('importance INTEGER, ', ''), WORKSPACES);
  older.change("INSERT INTO memories (id, project_path, category, content) VALUES (1, 'git:a', 'X', 'older')");
  for (const suffix of ['-wal', '-shm']) rmSync(context.path + suffix, { force: true });
  renameSync(older.path, context.path);
  assert.deepEqual(bodies(source, ['1']), ['older']);
  assert.deepEqual(names(elsewhere), ['link.db']);
});

test('a database that its program writes to', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'PROJECT_RULES', 'one');
  const program = await start(context.path);
  const add = (body: string) =>
    program.run(`INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', '${body}')`);
  await program.run('PRAGMA wal_autocheckpoint = 0');
  await add('two');
  await program.run('BEGIN IMMEDIATE');
  await add('three');

  const before = context.bytes();
  assert.ok(before['context.db-wal']!.length > 4_096, 'nothing is in the log');
  const over = component(context.open(), ['git:a']);
  const all = ['1', '2', '3'];
  assert.deepEqual(over.get('git:a', all), [['one', 'two'], ['3']]);
  assert.deepEqual(over.recall('git:a', 'two three'), ['2']);
  assert.ok(over.deliver('git:a', over.delegate('git:a', all)).includes('two'));
  assert.deepEqual(context.bytes(), before, 'reading changed it');
  await program.run('COMMIT');
  assert.deepEqual(over.get('git:a', all), [['one', 'two', 'three'], []]);

  // A unit sees one state, whatever is committed meanwhile.
  const source = context.open();
  source.begin();
  assert.deepEqual(source.memories(['4'], 100), [undefined]);
  await add('four');
  assert.deepEqual(source.memories(['4'], 100), [undefined]);
  source.end();
  assert.deepEqual(bodies(source, ['4']), ['four']);
  await program.run('PRAGMA wal_checkpoint(TRUNCATE)');
  assert.deepEqual(bodies(source, ['4']), ['four']);
  await program.end();
});

test('a log that a crash has left', async () => {
  for (const withIndex of [true, false]) {
    const context = fresh();
    const program = await start(context.path);
    await program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'in the log')");
    await program.run('BEGIN');
    await program.run(
      "INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'never committed')",
    );
    await program.crash();
    if (!withIndex) rmSync(`${context.path}-shm`);
    settle(context.path);
    const before = context.bytes();
    const over = component(context.open(), ['git:a']);
    assert.deepEqual(over.get('git:a', ['1', '2']), [['in the log'], ['2']]);
    over.prefetch.close();
    assert.deepEqual(context.bytes(), before, `withIndex: ${withIndex}`);
  }
});

test('a database at rest whose program starts while it is read', { skip: choose(undefined) === 'better' }, async () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const source = context.open();
  source.begin();
  assert.ok(source.memories(['1'], 100)[0]);
  let program = await start(context.path);
  await program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'two')");
  // It was read without a lock, so nothing more of it can be believed.
  for (let time = 0; time < 2; time++) {
    assert.equal(failureOf(() => source.memories(['1'], 100)).kind, 'busy');
    assert.equal(failureOf(() => source.places(['git:a'])).kind, 'busy');
  }
  source.end();
  assert.deepEqual(bodies(source, ['2']), ['two']);
  await program.end();

  // Also if it has come and gone: then the time of the file is another one.
  const other = fresh();
  const again = other.open();
  again.begin();
  assert.deepEqual(again.memories(['1'], 100), [undefined]);
  program = await start(other.path);
  await program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'one')");
  await program.end();
  assert.deepEqual(names(other.dir), ['context.db']);
  assert.equal(failureOf(() => again.memories(['1'], 100)).kind, 'busy');
  again.end();
  assert.deepEqual(bodies(again, ['1']), ['one']);
});

test('a directory that may not be written', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  chmodSync(context.dir, 0o500);
  if (choose(undefined) !== 'better') assert.deepEqual(bodies(context.open(), ['1']), ['one']);
  chmodSync(context.dir, 0o700);
  const program = await start(context.path);
  await program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'two')");
  await program.crash();
  rmSync(`${context.path}-shm`);
  settle(context.path);
  chmodSync(context.dir, 0o500);
  const before = context.bytes();
  // The superuser may write anyway.
  if (process.getuid?.() !== 0) {
    const failure = context.failure();
    assert.ok(failure.kind === 'absent' && failure.why.includes('-shm'), failure.message);
    assert.deepEqual(context.bytes(), before);
  }
  chmodSync(context.dir, 0o700);
});

test('a database with a rollback journal, and one that a crash has left half written', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  context.change('PRAGMA journal_mode = DELETE');
  const before = context.bytes();
  assert.deepEqual(bodies(context.open(), ['1']), ['one']);
  assert.deepEqual(names(context.dir), ['context.db']);
  assert.deepEqual(context.bytes(), before);

  // More than it may hold in memory: it is half written into the file when it crashes.
  const program = await start(context.path);
  await program.run('PRAGMA cache_size = 2');
  await program.run('BEGIN');
  await program.run(
    `WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500) INSERT INTO memories
      (project_path, category, content) SELECT 'git:a', 'X', printf('%01000d', n) FROM n`,
  );
  assert.equal(context.failure().kind, 'busy');
  await program.crash();
  assert.deepEqual(names(context.dir), ['context.db', 'context.db-journal']);
  const half = context.bytes();
  const failure = context.failure();
  assert.ok(failure.kind === 'other' && failure.why.includes('start its own program'), failure.message);
  assert.deepEqual(context.bytes(), half);
});

test('where its program is in this process too, no handle is closed, which would drop the locks of that', () => {
  const context = fresh();
  const handles = () => readdirSync('/dev/fd').filter((handle) => isLink(`/dev/fd/${handle}`, context.path)).length;
  const alone = context.open();
  assert.equal(handles(), 1);
  alone.close();
  assert.equal(handles(), 0);

  const source = context.open();
  const its = openSync(context.path, 'r');
  source.close();
  assert.equal(handles(), 2);
  closeSync(its);
});

/** Whether these are one file. */
function isLink(handle: string, path: string): boolean {
  try {
    return statSync(handle).ino === statSync(path).ino;
  } catch {
    return false;
  }
}

test('files that are no such database', () => {
  const dir = mkdtempSync(join(tmpdir(), 'no-database-'));
  const path = join(dir, 'context.db');
  const failure = (at: string) => failureOf(() => MagicContext.open(at, { busyTimeoutMs: 0 }));
  assert.equal(failure(path).kind, 'absent');
  assert.equal(failure(dir).kind, 'absent');
  assert.deepEqual(names(dir), []);
  // SQLite would delete the log of an empty file.
  writeFileSync(path, '');
  writeFileSync(`${path}-wal`, 'precious');
  assert.equal(failure(path).kind, 'absent');
  assert.deepEqual(bytes(dir), { 'context.db': '', 'context.db-wal': 'precious' });
  rmSync(`${path}-wal`);
  for (const text of ['x', 'SQLite format 3\0', 'no database '.repeat(1_000)]) {
    writeFileSync(path, text);
    const { kind, message } = failure(path);
    assert.equal(kind, 'damaged', message);
    assert.equal(bytes(dir)['context.db'], text);
  }
  const wide = new Context();
  writeFileSync(wide.path, '');
  wide.change(`PRAGMA encoding = 'UTF-16le'; ${MEMORIES}`);
  assert.match(wide.failure().message, /UTF-16le/);
});

test('a name that means something to SQLite', () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const known = ['file:x?mode=memory', '%41 b#?c&immutable=0', 'ü\'"', ':memory:'];
  for (const name of known) {
    const path = join(context.dir, name);
    copyFileSync(context.path, path);
    settle(path);
    assert.deepEqual(bodies(MagicContext.open(path), ['1']), ['one'], name);
  }
});

test('an old schema shares nothing', () => {
  const context = new Context(`
    CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, project_path TEXT, category TEXT,
      content TEXT, status TEXT, expires_at INTEGER, updated_at INTEGER);
    INSERT INTO memories VALUES (1, 'git:a', 'CONSTRAINTS', 'a', 'active', NULL, 7),
      (2, 'git:b', 'CONSTRAINTS', 'b', 'permanent', NULL, 8), (3, 'git:a', 'X', 'c', 'archived', NULL, 9);`);
  const source = context.open();
  const { audience, priority, updatedAt } = row(source, '1');
  assert.deepEqual([audience, priority, updatedAt], ['project', 0, 7n]);
  const over = component(source, ['git:a', 'git:b']);
  assert.deepEqual(over.get('git:a', ['1', '2', '3']), [['a'], ['2', '3']]);
  assert.deepEqual(over.get('git:b', ['1', '2', '3']), [['b'], ['1', '3']]);
});

test('the least that is needed', () => {
  const least = `CREATE TABLE Memories (ID INTEGER PRIMARY KEY, project_path, content, STATUS);
    INSERT INTO memories VALUES (1, 'git:a', 'a', 'active')`;
  assert.deepEqual(bodies(new Context(least).open(), ['1']), ['a']);
  const needed = ['id', 'project_path', 'content', 'status'];
  for (const missing of needed) {
    const others = needed.filter((name) => name !== missing);
    const { kind, message } = new Context(`CREATE TABLE memories (${others.join(', ')})`).failure();
    assert.ok(kind === 'damaged' && message.includes(`column memories.${missing}`), message);
  }
  for (const other of [
    'CREATE TABLE notes (id)',
    "CREATE VIEW memories AS SELECT 1 AS id, 'p' AS project_path, 'c' AS content, 'active' AS status",
  ]) {
    const { kind, message } = new Context(other).failure();
    assert.ok(kind === 'damaged' && message.includes('table memories'), message);
  }
});

test('a newer schema is read, and that is said once', () => {
  for (const version of ['INSERT INTO schema_migrations VALUES (101, 3)', 'PRAGMA user_version = 101']) {
    const context = fresh();
    context.change('ALTER TABLE memories ADD COLUMN embedding_of_tomorrow BLOB; CREATE TABLE of_tomorrow (x);');
    context.change(version);
    context.add(1, 'git:a', 'X', 'one');
    const said: string[] = [];
    const source = context.open({ warn: (line) => said.push(line) });
    for (let time = 0; time < 3; time++) assert.deepEqual(bodies(source, ['1']), ['one']);
    assert.equal(said.length, 1, version);
  }
  const known = fresh();
  known.change('INSERT INTO schema_migrations VALUES (100, 3)');
  known.open({ warn: assert.fail });
});

test('a schema that changes while it is open', async () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const source = context.open();
  assert.equal(row(source, '1').priority, 50);
  const program = await start(context.path);
  await program.run('ALTER TABLE memories DROP COLUMN importance');
  assert.equal(row(source, '1').priority, 0);
  await program.run('ALTER TABLE memories ADD COLUMN importance INTEGER DEFAULT 7');
  assert.equal(row(source, '1').priority, 7);
  await program.run('DROP TABLE workspace_members');
  assert.equal(row(source, '1').audience, 'project');
  await program.run('ALTER TABLE memories RENAME TO memories_2');
  const { kind, message } = failureOf(() => rows(source, ['1']));
  assert.ok(kind === 'damaged' && message.includes('table memories'), message);
  await program.run('ALTER TABLE memories_2 RENAME TO memories');
  assert.deepEqual(bodies(source, ['1']), ['one']);
  await program.end();
});

test('a row is what its columns say', () => {
  const context = fresh();
  context.add(7, 'git:a', 'ARCHITECTURE', 'body');
  context.change('UPDATE memories SET importance = 90, updated_at = 1700000000000');
  const { version, ...found } = row(context.open(), '7');
  assert.equal(version, '230d8358dc8e8890', 'the first 16 digits of the SHA-256 of `body`');
  assert.deepEqual(found, {
    id: '7',
    owner: 'project:git:a',
    project: 'git:a',
    audience: 'project',
    active: true,
    expiresAt: undefined,
    trusted: true,
    category: 'ARCHITECTURE',
    priority: 90,
    updatedAt: 1_700_000_000_000n,
    bytes: 4,
    body: 'body',
    attributes: [],
  });
});

test('only the decimal text is the id', () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  context.add(11, 'git:a', 'X', 'eleven');
  const source = context.open();
  for (const other of [
    '01',
    '1.0',
    ' 1',
    '1 ',
    '+1',
    '1e0',
    '0x1',
    '１',
    '',
    '1\0',
    '1\n',
    '-1',
    '-0',
    '9223372036854775808',
  ]) {
    assert.deepEqual(rows(source, [other]), [undefined], JSON.stringify(other));
  }
  assert.deepEqual(bodies(source, ['11', '2', '1', '11']), ['eleven', undefined, 'one', 'eleven']);
  // One that a floating-point number cannot hold.
  context.change(
    "INSERT INTO memories (id, project_path, category, content) VALUES (9007199254740993, 'git:a', 'X', 'large')",
  );
  assert.equal(row(context.open(), '9007199254740993').id, '9007199254740993');
  assert.deepEqual(rows(context.open(), ['9007199254740992']), [undefined]);
});

test('rows that are not in use, and rows that cannot be read', () => {
  const context = fresh();
  const all = Array.from({ length: 16 }, (_, index) => String(index + 1));
  for (const id of all) context.add(Number(id), 'git:a', 'X', 'b');
  const sets: [number, string][] = [
    [2, "status = 'permanent'"],
    [3, "status = 'archived'"],
    [4, 'status = NULL'],
    [5, "status = 'ACTIVE'"],
    [6, 'superseded_by_memory_id = 1'],
    [7, 'expires_at = 1800000000000'],
    [8, 'expires_at = 1800000000001'],
    [9, "expires_at = 'tomorrow'"],
    [10, 'expires_at = -1'],
    [11, 'expires_at = 1.5'],
    [12, "content = CAST(x'ff' AS TEXT)"],
    [13, "content = x'6162'"],
    [14, "project_path = ''"],
    [15, 'importance = -3'],
    [16, "importance = 9000000000, updated_at = 'soon'"],
  ];
  for (const [id, set] of sets) context.change(`UPDATE memories SET ${set} WHERE id = ${id}`);
  const source = context.open();
  const found = rows(source, all);
  assert.deepEqual(
    all.filter((_, index) => found[index] === undefined),
    ['9', '10', '11', '12', '13'],
  );
  assert.deepEqual([found[13]?.owner, found[13]?.project], [undefined, undefined]);
  assert.equal(found[14]?.priority, 0);
  assert.deepEqual([found[15]?.priority, found[15]?.updatedAt], [0xffff_ffff, undefined]);
  const over = component(source, ['git:a']);
  assert.deepEqual(
    all.filter((id) => over.sees('git:a', id)),
    ['1', '2', '8', '15', '16'],
  );
  assert.deepEqual(over.recall('git:a', 'b').sort(), ['1', '15', '16', '2', '8']);
});

test('bodies are given as long as they fit', () => {
  const context = fresh();
  for (const [id, body] of [
    [1, '12345'],
    [2, '123'],
    [3, '1'],
  ] as const)
    context.add(id, 'git:a', 'X', body);
  const source = context.open();
  const found = unit(source, () => source.memories(['1', '2', '3'], 7));
  assert.deepEqual(
    found.map((one) => [one?.bytes, one?.body]),
    [
      [5, '12345'],
      [3, undefined],
      [1, undefined],
    ],
  );
  assert.throws(() => source.memories(['1'], 7), /no unit of work is open/);
});

test('another project of the workspace sees what is shared with it', () => {
  const context = fresh();
  context.change(`
    INSERT INTO workspaces VALUES (1, 'w', '["CONSTRAINTS","ARCHITECTURE"]'), (2, 'v', '["CONSTRAINTS"]');
    INSERT INTO workspace_members (workspace_id, project_path) VALUES
      (1, 'git:a'), (1, 'git:b'), (2, 'git:c'), (3, 'git:d')`);
  // Whether git:a sees it, too.
  const cases: [number, string, number, string, boolean][] = [
    [1, 'CONSTRAINTS', 1, 'project', true],
    [2, 'ARCHITECTURE', 1, 'ecosystem', true],
    [3, 'CONSTRAINTS', 1, 'universe', true],
    [4, 'CONSTRAINTS', 0, 'project', false],
    [5, 'CONFIG_VALUES', 1, 'project', false],
    [6, 'constraints', 1, 'project', false],
    [7, 'CONSTRAINTS', 1, 'private', false],
    [8, 'CONSTRAINTS', 2, 'project', false],
  ];
  for (const [id, category, shareable, scope] of cases) {
    context.add(id, 'git:b', category, 'shared word');
    context.change(`UPDATE memories SET shareable = ${shareable}, scope = '${scope}' WHERE id = ${id}`);
  }
  // Of a project in another workspace, in one that is not there, in none.
  const others = [
    [21, 'git:c'],
    [22, 'git:d'],
    [23, 'git:e'],
  ] as const;
  for (const [id, project] of others) {
    context.add(id, project, 'CONSTRAINTS', 'shared word');
    context.change(`UPDATE memories SET shareable = 1 WHERE id = ${id}`);
  }
  const projects = ['git:a', 'git:b', 'git:c', 'git:d', 'git:e'];
  const over = component(context.open(), projects);
  for (const [id, ...said] of cases) {
    assert.equal(over.sees('git:a', `${id}`), said.at(-1), said.join(' '));
    assert.ok(over.sees('git:b', `${id}`), `its own project sees ${id}`);
    for (const stranger of projects.slice(2)) assert.ok(!over.sees(stranger, `${id}`), `${stranger} sees ${id}`);
  }
  for (const [id, own] of others) {
    for (const project of projects) assert.equal(over.sees(project, `${id}`), project === own, `${project} ${id}`);
  }
  assert.deepEqual(over.recall('git:a', 'shared').sort(), ['1', '2', '3']);
  assert.deepEqual(over.recall('git:c', 'shared'), ['21']);
  assert.deepEqual(over.delegate('git:a', ['1', '4', '21']).unavailable, ['4', '21']);
});

test('what is no list of categories shares nothing', () => {
  const context = fresh();
  context.add(1, 'git:b', 'CONSTRAINTS', 'b');
  context.change(`UPDATE memories SET shareable = 1; INSERT INTO workspaces VALUES (1, 'w', NULL);
    INSERT INTO workspace_members (workspace_id, project_path) VALUES (1, 'git:a'), (1, 'git:b')`);
  const lists: [string, boolean][] = [
    [`'["CONSTRAINTS"]'`, true],
    [`'["X", "CONSTRAINTS"]'`, true],
    [`'[]'`, false],
    [`''`, false],
    ['NULL', false],
    [`'CONSTRAINTS'`, false],
    [`'"CONSTRAINTS"'`, false],
    [`'["CONSTRAINTS"'`, false],
    [`'["CONSTRAINTS", 1]'`, false],
    [`'{"0": "CONSTRAINTS"}'`, false],
    [`'null'`, false],
    [`x'5b5d'`, false],
    ['1', false],
  ];
  for (const [list, shared] of lists) {
    context.change(`UPDATE workspaces SET share_categories = ${list}`);
    const over = component(context.open(), ['git:a', 'git:b']);
    assert.equal(over.sees('git:a', '1'), shared, list);
    assert.ok(over.sees('git:b', '1'), list);
    over.prefetch.close();
  }
});

test('a project counts as in one workspace, the one with the lowest id', () => {
  const context = fresh();
  context.add(1, 'git:b', 'CONSTRAINTS', 'b');
  context.add(2, 'git:c', 'CONSTRAINTS', 'c');
  context.change(`UPDATE memories SET shareable = 1;
    INSERT INTO workspaces VALUES (10, 'ten', '["CONSTRAINTS"]'), (9, 'nine', '[]');
    INSERT INTO workspace_members (workspace_id, project_path) VALUES
      (10, 'git:a'), (10, 'git:b'), (9, 'git:b'), (8, 'git:b'), (10, NULL), (10, 'git:z')`);
  const source = context.open();
  const places = unit(source, () => source.places(['git:a', 'git:b', 'git:c', 'git:z', 'git:unknown', 'git:A', '']));
  const ten = { workspace: 'magic-context:10' };
  const nine = { workspace: 'magic-context:9' };
  assert.deepEqual(places, [ten, nine, { workspace: undefined }, ten, undefined, undefined, undefined]);
  const members = (workspace: string) => unit(source, () => source.members(workspace));
  assert.deepEqual(members('magic-context:10'), ['git:a', 'git:z']);
  assert.deepEqual(members('magic-context:9'), ['git:b']);
  for (const other of ['magic-context:8', 'magic-context:1', 'ten', '']) assert.deepEqual(members(other), [], other);
  assert.equal(row(source, '1').audience, 'project', 'what git:b is in shares nothing');
  assert.ok(!component(source, ['git:a']).sees('git:a', '1'));

  // As later schemas may have them.
  const texts = new Context(
    MEMORIES,
    `CREATE TABLE workspaces (id TEXT PRIMARY KEY, share_categories TEXT);
     CREATE TABLE workspace_members (workspace_id, project_path TEXT);
     INSERT INTO workspaces VALUES ('w-b', '["X"]'), ('w-a', '[]'), ('7', '["X"]');
     INSERT INTO workspace_members VALUES ('w-b', 'git:a'), ('w-a', 'git:a'), ('w-a', 'git:b'), (7, 'git:b'),
       ('W-B', 'git:c');`,
  ).open();
  assert.deepEqual(
    unit(texts, () => texts.places(['git:a', 'git:b', 'git:c'])),
    [{ workspace: 'magic-context:w-a' }, { workspace: 'magic-context:7' }, undefined],
  );
});

test("a workspace of the directory does not open the source: the source's word about its projects counts", async () => {
  const context = fresh();
  context.add(1, 'git:b', 'CONSTRAINTS', 'b');
  context.change(`UPDATE memories SET shareable = 1; INSERT INTO workspaces VALUES (1, 'w', '["CONSTRAINTS"]');
    INSERT INTO workspace_members (workspace_id, project_path) VALUES (1, 'git:b')`);
  const over = component(context.open(), ['git:a', 'git:b']);
  for (const id of ['git:a', 'git:b']) {
    over.prefetch.store.putProject({ id, workspace: 'magic-context:1', memoryOn: true, trusted: true, attributes: [] });
  }
  // It does not know git:a, so the user's own word holds for it, and names that workspace.
  assert.ok(over.sees('git:a', '1'));
  assert.deepEqual(over.recall('git:a', 'b'), ['1']);
  const program = await start(context.path);
  await program.run("INSERT INTO memories (project_path, category, content) VALUES ('git:a', 'X', 'a')");
  await program.end();
  assert.ok(!over.sees('git:a', '1'), 'now it knows git:a, and has it in no workspace');
});

test('what the user does not trust is handed to nobody', () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'one');
  const over = component(context.open({ trusted: false }), ['git:a']);
  assert.ok(!over.sees('git:a', '1'));
  assert.deepEqual(over.recall('git:a', 'one'), []);
  const { items, unavailable } = over.delegate('git:a', ['1']);
  assert.deepEqual([items, unavailable], [[], ['1']]);
});

test('a search takes the best of what the filter admits', () => {
  const context = fresh();
  context.add(1, 'git:a', 'X', 'login form');
  context.add(2, 'git:a', 'X', 'the LOGIN page');
  context.add(3, 'git:a', 'X', 'logins');
  context.add(4, 'git:b', 'X', 'login form');
  context.add(5, 'git:a', 'X', '日本語のログイン');
  context.change("INSERT INTO memories (project_path, category, content) VALUES ('GIT:A', 'X', 'login')");
  const source = context.open();
  const filter: SearchFilter = {
    owner: 'project:git:a',
    projects: ['git:a', 'git:b'],
    at: NOW,
    trustedOnly: true,
  };
  const search = (filter: SearchFilter, query: string, limit: number, max = 100) =>
    unit(source, () => source.search(filter, query, limit, max)).map((found) => [found.id, found.body !== undefined]);
  assert.deepEqual(
    search(filter, 'form login', 10),
    [
      ['1', true],
      ['2', true],
    ],
    'two words before one',
  );
  assert.deepEqual(
    search(filter, 'login', 10),
    [
      ['2', true],
      ['1', true],
    ],
    'the youngest first',
  );
  assert.deepEqual(search(filter, 'login', 1), [['2', true]]);
  assert.deepEqual(search(filter, 'login', 10, 14), [
    ['2', true],
    ['1', false],
  ]);
  assert.deepEqual(search(filter, '本語', 10), [['5', true]]);
  assert.deepEqual(search(filter, '" OR *', 10), []);
  const shared = { ...filter, owner: 'planner', sharedIn: 'git:b' };
  assert.deepEqual(search(shared, 'login', 10), [['4', true]], 'the audience of a project is that project');
  assert.deepEqual(search({ ...filter, projects: [] }, 'login', 10), []);
  assert.deepEqual(search({ ...filter, owner: 'planner' }, 'login', 10), []);
});

test('a search goes through more rows than it reads at a time', () => {
  const context = fresh();
  context.change(`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
    INSERT INTO memories (project_path, category, content, updated_at)
      SELECT iif(n % 2, 'git:a', 'git:b'), 'X', iif(n % 100 = 1, 'needle', 'hay'), n FROM n`);
  const over = component(context.open(), ['git:a']);
  const expected = Array.from({ length: 10 }, (_, index) => String(901 - 100 * index));
  assert.deepEqual(over.recall('git:a', 'needle'), expected);
});
