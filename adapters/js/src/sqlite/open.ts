// Opening and creating the file: whether it is ours, whether this program may use it, and how the connection is set up.
// Nothing is changed before the file is known to be ours, and several processes may do this at once.

import { accessSync, closeSync, constants, openSync, statSync } from 'node:fs';
import type { Stats } from 'node:fs';
import { resolve } from 'node:path';
import { migrations } from '../../generated/sql.js';
import { type Access, StoreFailure } from '../store.js';
import { type Connection, type DriverName, type Value, connect } from './driver.js';
import { type Held, hold, readAt } from './open_files.js';
import { integer, truth } from './rows.js';
import { sql } from './statements.js';

/** 'memp': stands in the header of every file of ours, and of no other application's. */
const APPLICATION_ID = 0x6d65_6d70;

/**
 * Bytes to which the log is cut when it begins anew, twice as many as SQLite lets come together before it moves them into
 * the file. Writing over them is faster than making the log longer; an erasure cuts off all of it.
 */
const LOG = 8 << 20;

/** How to open a file. */
export interface OpenOptions {
  /** How long to wait for another process before answering `busy`. */
  busyTimeoutMs: number;
  /** Whether to make the file if it is not there. Its directory must be. */
  create: boolean;
  driver: DriverName;
}

/** The numbers in the table `store`. */
export interface Schema {
  schema: bigint;
  oldestReader: bigint;
  oldestWriter: bigint;
  /** Its log must be cut off. */
  scrub: boolean;
}

/** A file that is open, and what to call to let go of it. */
export interface Opened {
  readonly connection: Connection;
  /** To read what is in the file itself; undefined in memory. */
  readonly handle: number | undefined;
  close(): void;
}

/** The schema that this program knows. */
const KNOWN = BigInt(migrations.length);

/** Open the file at `path`. */
export function open(path: string, options: OpenOptions): Opened {
  const end = performance.now() + options.busyTimeoutMs;
  // An absolute path is never taken for `:memory:` or a URI.
  const file = resolve(path);
  create(file, options.create);
  const held = hold(file, options.driver);
  try {
    recognise(file, held.handle);
    // Closing the last connection moves the log into the file, which must not be done to one that is refused below. A
    // connection that only reads does not do it. One of ours that is open has been through this.
    if (held.isFirst && sizeOf(logOf(file)) > 0) patiently(end, () => look(file, options));
    return openRecognised(file, options, end);
  } finally {
    held.release();
  }
}

function openRecognised(file: string, options: OpenOptions, end: number): Opened {
  const found = openConnection(file, options.driver);
  const { connection } = found;
  try {
    setBusyTimeout(connection, options.busyTimeoutMs);
    connection.exec('PRAGMA trusted_schema=OFF');
    patiently(end, () => claim(connection, file));
    const schema = patiently(end, () => findSchema(connection));
    if (schema !== undefined) allow(schema, 'read');
    patiently(end, () => writeAheadLog(connection));
    connection.exec(`PRAGMA synchronous=FULL; PRAGMA journal_size_limit=${LOG}`);
    setUp(connection);
    patiently(end, () => migrate(connection));
    return found;
  } catch (error) {
    found.close();
    throw error;
  }
}

/** A connection to a file that was recognised. */
export function openConnection(file: string, driver: DriverName): Opened {
  const held = hold(file, driver);
  try {
    return opened(connect(driver, file), held);
  } catch (error) {
    held.release();
    if (!(error instanceof StoreFailure) || error.kind !== 'absent') throw error;
    throw new StoreFailure('absent', `${file} cannot be opened: ${error.why}`);
  }
}

/** A store that is lost when it is closed. */
export function openInMemory(driver: DriverName): Opened {
  const connection = connect(driver, ':memory:');
  setUp(connection);
  migrate(connection);
  return opened(connection);
}

/** Closing it a second time does nothing. */
function opened(connection: Connection, held?: Held): Opened {
  let isOpen = true;
  return {
    connection,
    handle: held?.handle,
    close() {
      if (!isOpen) return;
      isOpen = false;
      try {
        connection.close();
      } finally {
        held?.release();
      }
    },
  };
}

/** How long SQLite waits for a lock. It counts milliseconds in an `int`. */
export function setBusyTimeout(connection: Connection, milliseconds: number): void {
  const whole = Math.min(Math.max(Math.trunc(milliseconds), 0), 0x7fff_ffff);
  connection.exec(`PRAGMA busy_timeout=${whole}`);
}

/** A number that changes whenever another connection has written to the file. Means nothing to other connections. */
export function dataVersion(connection: Connection): bigint | undefined {
  const version = connection.all('PRAGMA data_version')[0]?.[0];
  return typeof version === 'bigint' ? version : undefined;
}

/** Refuses if another program has changed the schema since: the first read of a transaction that writes. */
export function checkSchema(connection: Connection, access: Access): Schema {
  const schema = schemaOf(connection.all(sql('store_schema')));
  allow(schema, access);
  return schema;
}

function schemaOf(rows: Value[][]): Schema {
  const row = rows[0];
  if (row === undefined) throw new StoreFailure('damaged', 'the file does not say which schema it has');
  const [schema, oldestReader, oldestWriter] = [integer(row, 0), integer(row, 1), integer(row, 2)];
  return { schema, oldestReader, oldestWriter, scrub: truth(row, 3) };
}

function allow(found: Schema, access: Access): void {
  const reads = access === 'read';
  const oldest = reads || found.oldestReader > found.oldestWriter ? found.oldestReader : found.oldestWriter;
  if (KNOWN >= oldest) return;
  throw new StoreFailure(
    'other',
    `a newer program has changed this store (schema ${found.schema}); to ${reads ? 'read' : 'change'} it, a program ` +
      `that knows schema ${oldest} is needed, and this one knows ${KNOWN}. Update memory-prefetch`,
  );
}

/** What can be said without opening the file, and making it if it is not there: mode 0600, which its log takes over. */
function create(path: string, mayCreate: boolean): void {
  const found = lookAt(path);
  if (found !== undefined) {
    if (!found.isFile()) throw new StoreFailure('absent', `${path} is not a file`);
    if ((found.mode & 0o222) === 0 || !isWritable(path)) {
      const why = `${path} may only be read; allow writing to it, or use another file`;
      throw new StoreFailure('other', why);
    }
    if (!mayCreate && (found.size === 0 || isUnfinished(path))) {
      throw new StoreFailure('absent', `${path} is empty: no store was made there yet`);
    }
    return;
  }
  if (!mayCreate) throw new StoreFailure('absent', `there is no file ${path}`);
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    // Another process may have been faster.
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return;
    throw new StoreFailure('absent', `${path} cannot be created: ${(error as Error).message}`);
  }
}

/** undefined: it is not there. */
function lookAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw new StoreFailure('absent', `${path} cannot be opened: ${(error as Error).message}`);
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function damaged(path: string, why: string): StoreFailure {
  return new StoreFailure('damaged', `${path} ${why}; it was left as it is`);
}

/** Whether the file is empty or ours, by its header alone: no lock, no recovery of a log, no change. */
function recognise(path: string, handle: number): void {
  if (sizeOf(path) === 0) {
    // SQLite would delete the log of a file that was cut to nothing. Looked at twice, since another process may just
    // have filled the file.
    if (sizeOf(logOf(path)) > 0 && sizeOf(path) === 0) throw damaged(path, 'is empty, and its log is not');
    return;
  }
  if (isUnfinished(path)) return;
  const header = Buffer.alloc(HEADER);
  const size = sizeOf(path);
  if (readAt(handle, header, 0) < HEADER || size < HEADER) throw damaged(path, 'is too short to be a store');
  if (header.toString('latin1', 0, 16) !== 'SQLite format 3\0') throw damaged(path, 'is not an SQLite file');
  if (header.readInt32BE(68) !== APPLICATION_ID) throw damaged(path, 'belongs to another application');
  // 1 stands for 65536, which does not fit.
  const page = header.readUInt16BE(16) === 1 ? 65_536 : header.readUInt16BE(16);
  // A write that failed halfway, or a power cut, may leave the last page incomplete. Then it is in the log, which SQLite
  // moves into the file anew; and a file that lacks more than that is damage to SQLite, too.
  if (page < 512 || (size % page !== 0 && sizeOf(logOf(path)) === 0)) throw damaged(path, 'was cut off');
}

/** How long SQLite's header is. */
const HEADER = 100;

/** How large a file is; 0 if it is not there. */
function sizeOf(path: string): number {
  return lookAt(path)?.size ?? 0;
}

/**
 * Whether the file is ours, if it is not empty, and this program may read what is in it and in its log, without
 * moving the one into the other.
 */
function look(path: string, options: OpenOptions): void {
  const connection = connect(options.driver, path, true);
  try {
    setBusyTimeout(connection, options.busyTimeoutMs);
    if (sizeOf(path) > 0 && applicationOf(connection) !== APPLICATION_ID) {
      throw damaged(path, 'belongs to another application');
    }
    const schema = findSchema(connection);
    if (schema !== undefined) allow(schema, 'read');
  } finally {
    connection.close();
  }
}

function applicationOf(connection: Connection): number {
  return Number(connection.once('PRAGMA application_id')[0]?.[0]);
}

/**
 * Whether the first transaction on this file was not finished: its journal says that the file was empty before. Whatever
 * is in the file, SQLite empties it again as soon as a transaction begins, unless the other one is still going on.
 */
function isUnfinished(path: string): boolean {
  // Magic bytes, number of records, a random number, number of pages before.
  const header = Buffer.alloc(20);
  let journal: number;
  try {
    journal = openSync(`${path}-journal`, 'r');
  } catch {
    return false;
  }
  try {
    const isWhole = readAt(journal, header, 0) === header.length;
    return isWhole && header.subarray(0, 8).equals(JOURNAL) && header.readUInt32BE(16) === 0;
  } finally {
    // A journal has no locks that this could drop.
    closeSync(journal);
  }
}

/** What a journal begins with, as long as its transaction is not finished. */
const JOURNAL = Buffer.from('d9d505f920a163d7', 'hex');

/** Make an empty file ours, so that its header says so from the first byte on. */
function claim(connection: Connection, path: string): void {
  if (sizeOf(path) > 0 && !isUnfinished(path)) return;
  inTransaction(connection, () => {
    const application = applicationOf(connection);
    if (application === APPLICATION_ID) return;
    // Whoever filled it since it was found empty is not one of us.
    const objects = connection.once('SELECT count(*) FROM sqlite_schema')[0]?.[0];
    if (application !== 0 || objects !== 0n) throw damaged(path, 'belongs to another application');
    connection.exec(`PRAGMA application_id=${APPLICATION_ID}`);
  });
}

/** The numbers in the table `store`, if there is one. */
function findSchema(connection: Connection): Schema | undefined {
  const there = connection.once(`SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'store'`);
  return there.length === 0 ? undefined : schemaOf(connection.once(sql('store_schema')));
}

/** Switching to a write-ahead log can answer "busy" without having waited. */
function writeAheadLog(connection: Connection): void {
  if (connection.once('PRAGMA journal_mode')[0]?.[0] === 'wal') return;
  if (connection.once('PRAGMA journal_mode=WAL')[0]?.[0] === 'wal') return;
  throw new StoreFailure('other', 'its file system cannot hold a write-ahead log; keep the store on a local disk');
}

/**
 * What every connection of ours has. A search looks at rows all over the file; SQLite's own cache of 2 MB holds too
 * little of a large store. What a statement has changed is copied before, in case that it fails; those copies stay out of
 * other directories.
 */
function setUp(connection: Connection): void {
  connection.exec(
    'PRAGMA foreign_keys=ON; PRAGMA secure_delete=ON; PRAGMA cell_size_check=ON; PRAGMA cache_size=-16384; PRAGMA temp_store=MEMORY',
  );
}

/** Run the migrations that the file lacks, all or none of them. */
function migrate(connection: Connection): void {
  const isDone = (found: Schema | undefined) => found !== undefined && found.schema >= KNOWN;
  if (isDone(findSchema(connection))) return;
  inTransaction(connection, () => {
    // Another process may have been faster.
    const found = findSchema(connection);
    if (found !== undefined) allow(found, 'write');
    for (const migration of migrations.slice(Number(found?.schema ?? 0n))) connection.exec(migration);
  });
}

export function inTransaction<T>(connection: Connection, work: () => T): T {
  connection.exec('BEGIN IMMEDIATE');
  try {
    const done = work();
    connection.exec('COMMIT');
    return done;
  } finally {
    if (connection.inTransaction()) connection.exec('ROLLBACK');
  }
}

/** Try again while it is busy, until `end`. */
function patiently<T>(end: number, attempt: () => T): T {
  for (let pause = 1; ; pause = Math.min(2 * pause, 25)) {
    try {
      return attempt();
    } catch (error) {
      if (!(error instanceof StoreFailure) || error.kind !== 'busy' || performance.now() >= end) throw error;
      sleep(pause);
    }
  }
}

/** Everything here is synchronous, since SQLite is. */
function sleep(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function logOf(path: string): string {
  return `${path}-wal`;
}
