// One SQLite file of another program, read and never changed: neither the file, nor its log, nor what lies beside it if
// that can be helped.
//
// A connection that SQLite opened for reading only writes to neither the file nor the `-wal`: it does not checkpoint, does
// not recover a journal, does not delete a log. It reads what is committed, in a log too, beside a program that writes and
// after one that crashed. To read a file in WAL mode it must have the shared index `-shm`, and makes that and an empty
// `-wal` where they are missing, and leaves them there. A file that nobody has open in WAL mode has neither. Such a file *at
// rest* is read as one that does not change (`immutable=1`): without a lock, and without anything made beside it, so also
// in a directory that may not be written. That is right only as long as it is at rest. A program that opens it makes the
// `-shm` or a journal before it writes, and whatever it writes changes the time of the file. So both are looked at again
// after each read: if they are not as before, what was read is thrown away, and the answer is `busy`; the next unit then
// reads it as one that is in use. (better-sqlite3 cannot open a file like that, so beside one that is at rest it leaves
// both.)

import { realpathSync, statSync } from 'node:fs';
import type { BigIntStats } from 'node:fs';
import { connect } from '../sqlite/driver.js';
import type { Connection, DriverName } from '../sqlite/driver.js';
import { CODES, codeOf } from '../sqlite/failure.js';
import { setBusyTimeout } from '../sqlite/open.js';
import { handlesOn, identity } from '../sqlite/open_files.js';
import { StoreFailure } from '../store.js';

/** A file that was changed this recently, in milliseconds, may be changed again without its time showing it. */
const SETTLED_MS = 2_000;

interface Open {
  connection: Connection;
  /** Which file it is, whatever is at the path by now. */
  file: string;
  /** What a file that is read as one that does not change looked like. */
  atRest: string | undefined;
}

/** Another one whenever the schema may be another one. */
export type SchemaVersion = string;

/**
 * Connections that stay open until the process ends. POSIX drops all locks of a process on a file when one handle on it is
 * closed, and the file's own program may be in this process too, with a copy of SQLite that knows nothing of ours.
 */
const kept: Connection[] = [];

/** The file, opened when it is first needed. */
export class ReadOnly {
  #open: Open | undefined;
  /** How often it was opened: at a path there may be another file by now. */
  #opened = 0;
  /** Whether a unit of work is open. */
  #unit = false;

  /** Does not touch the file. The path is absolute. */
  constructor(
    readonly path: string,
    readonly driver: DriverName,
    readonly busyTimeoutMs: number,
  ) {}

  /** Start seeing one state of it, and say which schema that has. */
  begin(): SchemaVersion {
    this.end();
    try {
      const version = this.#begin();
      this.#unit = true;
      return version;
    } catch (error) {
      this.end();
      // The next one starts anew.
      if (!(error instanceof StoreFailure && error.kind === 'busy')) this.#drop();
      throw error;
    }
  }

  #begin(): SchemaVersion {
    let found: BigIntStats;
    try {
      found = statSync(this.path, { bigint: true });
    } catch (error) {
      throw this.#absent((error as Error).message);
    }
    if (!found.isFile()) throw this.#absent('it is not a file');
    // SQLite would delete the log of a file that was cut to nothing.
    if (found.size === 0n) throw this.#absent('it is empty, its program has stored nothing in it');
    const rest = atRest(this.path);
    const file = identity(found);
    const open = this.#open;
    if (open && (open.file !== file || (open.atRest !== undefined && open.atRest !== rest))) this.#drop();
    try {
      const { connection } = (this.#open ??= this.#connect(file, rest));
      connection.exec('BEGIN DEFERRED');
      // The first read fixes what the unit sees.
      const [[number] = []] = connection.once('PRAGMA schema_version');
      this.#check();
      return `${this.#opened}:${number}`;
    } catch (error) {
      throw this.#explained(error);
    }
  }

  #connect(file: string, rest: string | undefined): Open {
    this.#opened += 1;
    const atRest = this.driver === 'better' ? undefined : rest;
    const connection = connect(this.driver, atRest === undefined ? this.path : immutable(this.path), true);
    setBusyTimeout(connection, this.busyTimeoutMs);
    connection.exec('PRAGMA query_only=ON');
    connection.exec('PRAGMA trusted_schema=OFF');
    return { connection, file, atRest };
  }

  /** Read something. {@link begin} comes first. */
  read<T>(read: (connection: Connection) => T): T {
    if (!this.#open || !this.#unit) throw new StoreFailure('other', 'no unit of work is open');
    try {
      return read(this.#open.connection);
    } finally {
      // Also if it failed: a file that is being changed may look damaged.
      this.#check();
    }
  }

  /** Whether a file that was read as one that does not change did not. */
  #check(): void {
    const rest = this.#open?.atRest;
    if (rest === undefined || quiet(this.path) === rest) return;
    throw new StoreFailure('busy', `${this.path} was just opened or changed by its own program`);
  }

  /** The unit is over. */
  end(): void {
    this.#unit = false;
    try {
      if (this.#open?.connection.inTransaction()) this.#open.connection.exec('ROLLBACK');
    } catch {
      this.#drop();
    }
  }

  /** Let go of the file. */
  close(): void {
    this.end();
    this.#drop();
  }

  #drop(): void {
    const open = this.#open;
    this.#open = undefined;
    if (open === undefined) return;
    if (handlesOn(open.file) > 1) kept.push(open.connection);
    else open.connection.close();
  }

  #absent(why: string): StoreFailure {
    return new StoreFailure('absent', `${this.path} cannot be read: ${why}`);
  }

  /** What an error of SQLite means for a file that is another program's. */
  #explained(error: unknown): unknown {
    if (!(error instanceof StoreFailure)) return error;
    const shown = this.path;
    switch ((codeOf(error.cause) ?? 0) & 0xff) {
      // A journal of a program that crashed, or a log that only a writer may recover.
      case CODES.SQLITE_READONLY:
        return new StoreFailure(
          'other',
          `${shown} was left half written by a program that ended early, and repairing it would change it: start its ` +
            'own program once',
        );
      case CODES.SQLITE_CANTOPEN:
        if (changedJustNow(shown)) return new StoreFailure('busy', `${shown} was changed just now`);
        return new StoreFailure(
          'absent',
          `${shown} cannot be opened: this user may not read it, or may not write in its directory, where reading a ` +
            `file that is in use takes a file ${shown}-shm`,
        );
      case CODES.SQLITE_NOTADB:
        return new StoreFailure('damaged', `${shown} is not an SQLite file`);
      default:
        return error;
    }
  }
}

/** Nobody has it open in WAL mode, and it was not changed just now. */
function atRest(path: string): string | undefined {
  return changedJustNow(path) ? undefined : quiet(path);
}

/** The file as it is, if nothing that belongs to it lies beside it: all that a change of it would change. */
function quiet(path: string): string | undefined {
  try {
    // SQLite puts them beside the file that a link leads to.
    const real = realpathSync(path);
    for (const suffix of ['-wal', '-shm', '-journal']) {
      // What cannot be looked at, which throws, counts as there.
      if (statSync(real + suffix, { throwIfNoEntry: false })) return undefined;
    }
    const found = statSync(real, { bigint: true });
    return `${found.size}:${found.mtimeNs}`;
  } catch {
    return undefined;
  }
}

function changedJustNow(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false });
  const age = found && Date.now() - found.mtimeMs;
  return age === undefined || age < SETTLED_MS;
}

/** The file as a URI that says that it does not change. Every byte that could mean something in a URI is escaped. */
function immutable(path: string): string {
  const escaped = [...Buffer.from(path)].map((byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9/._-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  });
  return `file:${escaped.join('')}?immutable=1`;
}
