// A connection with its units of work: how one begins and ends, what is checked by then, and how erased text is taken
// out of the log and the file. The statements themselves are in storage.ts and store.ts.

import { type Access, StoreFailure } from '../store.js';
import type { Params } from './driver.js';
import { type Opened, checkSchema, dataVersion, inTransaction, setBusyTimeout } from './open.js';
import { areLeft } from './remains.js';
import { type Row, integer } from './rows.js';
import { type StatementName, sql } from './statements.js';

/** How a unit of work begins. The first statement of one that reads fixes what it sees. */
const BEGIN: Record<Access, string> = { read: 'BEGIN DEFERRED', write: 'BEGIN IMMEDIATE', relaxed: 'BEGIN IMMEDIATE' };

/** Everything of a store but its statements. */
export abstract class Units {
  #unit: Access | undefined;
  /** Whether commits wait for the disk. */
  #isDurable = true;
  /** The file's data version at which its schema was last found readable. */
  #checked: bigint | undefined;
  /** Where an erased text may still be read: nowhere; in the log, once the open unit is kept; in the log. */
  #scrub: 'clean' | 'pending' | 'due' = 'clean';
  /** The file says that its log must be cut off. */
  #isScrubNoted = false;
  /** The file's data version as of the last unit that was kept while there was something to take out. */
  #scrubAt: bigint | undefined;
  /** A memory was erased, or nobody knows what: what SQLite has moved within the file must go too. */
  #isThorough = false;
  /** Counts connections, and units that were kept and may have written: see {@link version}. */
  #connections = 0;
  #kept = 0;

  protected constructor(
    protected opened: Opened,
    protected busyTimeoutMs: number,
  ) {}

  /** The same file once more; undefined: the store is in memory. */
  protected abstract openAnew(): Opened | undefined;

  /** Take a new connection. */
  protected renew(): void {
    const opened = this.openAnew();
    if (opened === undefined) return;
    const old = this.opened;
    this.opened = opened;
    this.#connections += 1;
    this.#isDurable = true;
    this.#checked = undefined;
    this.#isScrubNoted = false;
    this.#scrubAt = undefined;
    try {
      old.close();
    } catch {
      // It has failed before, and nothing of it is needed any more.
    }
  }

  beginUnit(access: Access): void {
    if (this.#unit !== undefined) throw new StoreFailure('other', 'a unit of work is open already');
    // What the disk has failed is not used again.
    if (this.opened.connection.hasFailed()) this.renew();
    const { connection } = this.opened;
    this.#setDurable(access !== 'relaxed');
    connection.run(BEGIN[access]);
    this.#unit = access;
    // Whether a unit that reads may do so is asked before it ends.
    if (access === 'read') return;
    try {
      const schema = checkSchema(connection, access);
      this.#isScrubNoted = schema.scrub;
      if (schema.scrub) {
        // It may be another's note, also where this one has something to take out itself.
        this.#isThorough = true;
        if (this.#scrub === 'clean') this.#scrub = 'due';
      }
    } catch (error) {
      this.rollBack();
      throw error;
    }
  }

  commit(): void {
    if (this.#unit === undefined) throw new StoreFailure('other', 'no unit of work is open');
    const { connection } = this.opened;
    const wrote = this.#unit !== 'read';
    const erases = wrote && this.#scrub !== 'clean';
    try {
      if (!wrote) this.#checkReadable();
      if (erases) this.#scrubAt = dataVersion(connection);
      connection.run('COMMIT');
    } catch (error) {
      this.rollBack();
      throw error;
    }
    this.#unit = undefined;
    if (wrote) this.#kept += 1;
    if (erases) this.#scrubFile();
  }

  rollBack(): void {
    try {
      if (this.opened.connection.inTransaction()) this.opened.connection.run('ROLLBACK');
    } catch {
      // Nothing can be done about it here; SQLite then undoes it when the connection is closed.
    }
    this.#unit = undefined;
    // A note of its own is undone with the unit. One that was there before is found by the next unit that writes.
    this.#isScrubNoted = false;
    if (this.#scrub === 'pending') this.#beClean();
  }

  close(): void {
    if (this.#unit !== undefined) this.rollBack();
    if (this.#scrub === 'due') this.#scrubFile();
    this.#beClean();
    this.opened.close();
  }

  /** How long to wait for another process before answering `busy`. */
  setBusyTimeout(milliseconds: number): void {
    this.busyTimeoutMs = milliseconds;
    setBusyTimeout(this.opened.connection, milliseconds);
  }

  /**
   * Whether erased text may still be in the file's log, since somebody is reading: it goes with the next unit of work
   * that writes after that, in whichever process.
   */
  get isScrubDue(): boolean {
    return this.#scrub !== 'clean';
  }

  /** Another text whenever anybody, this store too, may have written to the file; undefined: it is not known. */
  version(): string | undefined {
    const version = dataVersion(this.opened.connection);
    return version === undefined ? undefined : `${this.#connections} ${this.#kept} ${version}`;
  }

  protected get isUnitOpen(): boolean {
    return this.#unit !== undefined;
  }

  /** A transaction around `work`; a list may also be asked for inside an open unit. */
  protected unitOf<T>(access: Access, work: () => T): T {
    if (access === 'read' && this.#unit !== undefined) return work();
    this.beginUnit(access);
    let done: T;
    try {
      done = work();
    } catch (error) {
      this.rollBack();
      throw error;
    }
    this.commit();
    return done;
  }

  /** All rows of a statement. */
  protected read<T>(name: StatementName, params: Params, read: (row: Row) => T): T[] {
    return this.opened.connection.all(sql(name), params).map(read);
  }

  /**
   * The rows of a statement of which this column is their number, which grows from row to row. R20: an index in which a
   * disk has lost a bit names one of them twice, in place of another.
   */
  protected readNumbered<T>(name: StatementName, params: Params, column: number, read: (row: Row) => T): T[] {
    let last = -1n;
    return this.read(name, params, (row) => {
      const number = integer(row, column);
      if (number <= last) throw new StoreFailure('damaged', 'an index names a row twice');
      last = number;
      return read(row);
    });
  }

  /**
   * The rows of a statement whose first column is the position, from 0, in a list of `count`; undefined where there is
   * no row.
   */
  protected readPlaced<T>(
    count: number,
    name: StatementName,
    params: Params,
    read: (row: Row) => T,
  ): (T | undefined)[] {
    const placed = new Array<T | undefined>(count).fill(undefined);
    if (count === 0) return placed;
    for (const row of this.opened.connection.all(sql(name), params)) placed[placeOf(row, count)] = read(row);
    return placed;
  }

  /** Run a statement that writes, and say how many rows it changed. */
  protected change(name: StatementName, params: Params): number {
    this.#mayChange();
    return this.opened.connection.run(sql(name), params);
  }

  /** Run a statement that writes and answers with rows. */
  protected changeReturning<T>(name: StatementName, params: Params, read: (row: Row) => T): T[] {
    this.#mayChange();
    return this.read(name, params, read);
  }

  /**
   * Text is about to be erased: keep it out of the log, once the unit is kept. The unit itself notes that in the file, so
   * that whoever writes next does it if this process ends before. `isThorough`: it is a memory's.
   */
  protected erasing(isThorough = false): void {
    if (!this.#isScrubNoted) {
      this.change('store_scrub', { scrub: true });
      this.#isScrubNoted = true;
    }
    if (isThorough) this.#isThorough = true;
    if (this.#scrub === 'clean') this.#scrub = 'pending';
  }

  #mayChange(): void {
    if (this.#unit === undefined || this.#unit === 'read') {
      throw new StoreFailure('other', 'this writes, and no unit of work that writes is open');
    }
    if (!this.opened.connection.inTransaction()) {
      throw new StoreFailure('other', 'this unit of work was undone after an error');
    }
  }

  /** What was read is not given out if a newer program has changed the schema since it was last looked at. */
  #checkReadable(): void {
    const { connection } = this.opened;
    const version = dataVersion(connection);
    if (version !== undefined && version === this.#checked) return;
    checkSchema(connection, 'read');
    this.#checked = version;
  }

  /** Whether a commit waits for the disk. Cannot be changed inside a transaction. */
  #setDurable(isDurable: boolean): void {
    if (this.#isDurable === isDurable) return;
    this.opened.connection.exec(`PRAGMA synchronous=${isDurable ? 'FULL' : 'NORMAL'}`);
    this.#isDurable = isDurable;
  }

  #beClean(): void {
    this.#scrub = 'clean';
    this.#isThorough = false;
  }

  /**
   * Move the log into the file and cut it off, so that erased text is not left in it; and write the file anew, if copies
   * of what was erased may be left in there. Waits for nobody: a reader that still needs the log, and whoever writes, put
   * it off until the next unit that writes, or until the store is closed.
   */
  #scrubFile(): void {
    const { connection } = this.opened;
    this.#scrub = 'due';
    try {
      setBusyTimeout(connection, 0);
      if (this.#isScrubbed()) {
        this.#beClean();
        this.#unsetScrub();
      }
    } catch {
      // The unit is kept all the same. What is not done yet, or only not noted, is done again by the next one who writes.
    }
    setBusyTimeout(connection, this.busyTimeoutMs);
  }

  /** Whether it could be done. */
  #isScrubbed(): boolean {
    const { connection, handle } = this.opened;
    const isBusy = (pragma: string) => connection.once(pragma)[0]?.[0] !== 0n;
    const isCutOff = () => {
      // The first moves the pages, and lets others write meanwhile; the second needs them to wait, for a moment.
      connection.once('PRAGMA wal_checkpoint(PASSIVE)');
      return !isBusy('PRAGMA wal_checkpoint(TRUNCATE)');
    };
    if (!isCutOff()) return false;
    if (!this.#isThorough || handle === undefined || !areLeft(connection, handle)) return true;
    // The copy of the whole file that it makes may be larger than the machine's memory.
    connection.exec('PRAGMA temp_store=FILE');
    try {
      connection.exec('VACUUM');
    } finally {
      connection.exec('PRAGMA temp_store=MEMORY');
    }
    return isCutOff();
  }

  /** Take the note out of the file, unless another one has written since: that note may be its own. */
  #unsetScrub(): void {
    if (!this.#isScrubNoted) return;
    const { connection } = this.opened;
    // It is not worth waiting for the disk.
    this.#setDurable(false);
    inTransaction(connection, () => {
      if (dataVersion(connection) === this.#scrubAt) connection.run(sql('store_scrub'), { scrub: false });
    });
  }
}

/** The first column of a statement that answers a list: which place of `count` the row has in it, from 0. */
export function placeOf(row: Row, count: number): number {
  const place = integer(row, 0);
  if (place < 0n || place >= BigInt(count)) throw new StoreFailure('damaged', 'a row that was not asked for');
  return Number(place);
}
