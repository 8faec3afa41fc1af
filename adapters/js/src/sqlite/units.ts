// A connection with its units of work: how one begins and ends, what is checked by then, and how erased text is taken
// out of the log. The statements themselves are in storage.ts and store.ts.

import { type Access, StoreFailure } from '../store.js';
import type { Params } from './driver.js';
import { type Opened, checkSchema, setBusyTimeout } from './open.js';
import { type Row, integer } from './rows.js';
import { type StatementName, sql } from './statements.js';

/** How a unit of work begins. The first statement of one that reads fixes what it sees. */
const BEGIN: Record<Access, string> = { read: 'BEGIN DEFERRED', write: 'BEGIN IMMEDIATE', relaxed: 'BEGIN IMMEDIATE' };

/** Everything of a store but its statements. */
export class Units {
  #unit: Access | undefined;
  /** Whether commits wait for the disk. */
  #isDurable = true;
  /** The file's data version at which its schema was last found readable. */
  #checked: bigint | undefined;
  /** Where an erased text may still be read: nowhere; in the log, once the open unit is kept; in the log. */
  #scrub: 'clean' | 'pending' | 'due' = 'clean';
  /** The file says that its log must be cut off. */
  #isScrubNoted = false;

  protected constructor(
    protected opened: Opened,
    protected busyTimeoutMs: number,
  ) {}

  /** Take another connection, which nothing was done with yet. */
  protected renew(opened: Opened): void {
    this.opened = opened;
    this.#isDurable = true;
    this.#checked = undefined;
    this.#scrub = 'clean';
    this.#isScrubNoted = false;
  }

  beginUnit(access: Access): void {
    if (this.#unit !== undefined) throw new StoreFailure('other', 'a unit of work is open already');
    const { connection } = this.opened;
    this.#setDurable(access !== 'relaxed');
    connection.run(BEGIN[access]);
    this.#unit = access;
    // Whether a unit that reads may do so is asked before it ends.
    if (access === 'read') return;
    try {
      const schema = checkSchema(connection, access);
      this.#isScrubNoted = schema.scrub;
      if (schema.scrub && this.#scrub === 'clean') this.#scrub = 'due';
    } catch (error) {
      this.rollBack();
      throw error;
    }
  }

  commit(): void {
    if (this.#unit === undefined) throw new StoreFailure('other', 'no unit of work is open');
    const { connection } = this.opened;
    try {
      if (this.#unit === 'read') this.#checkReadable();
      connection.run('COMMIT');
    } catch (error) {
      this.rollBack();
      throw error;
    }
    const wrote = this.#unit !== 'read';
    this.#unit = undefined;
    if (wrote && this.#scrub !== 'clean') this.#cutOff();
  }

  rollBack(): void {
    try {
      if (this.opened.connection.inTransaction()) this.opened.connection.run('ROLLBACK');
    } catch {
      // Nothing can be done about it here; SQLite then undoes it when the connection is closed.
    }
    this.#unit = undefined;
    if (this.#scrub === 'pending') this.#scrub = 'clean';
  }

  close(): void {
    if (this.#unit !== undefined) this.rollBack();
    if (this.#scrub === 'due') this.#cutOff();
    this.#scrub = 'clean';
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

  /** Text is about to be erased: keep it out of the log, once the unit is kept. */
  protected erasing(): void {
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
    const version = connection.all('PRAGMA data_version')[0]?.[0];
    if (typeof version === 'bigint' && version === this.#checked) return;
    checkSchema(connection, 'read');
    this.#checked = typeof version === 'bigint' ? version : undefined;
  }

  /** Whether a commit waits for the disk. Cannot be changed inside a transaction. */
  #setDurable(isDurable: boolean): void {
    if (this.#isDurable === isDurable) return;
    this.opened.connection.exec(`PRAGMA synchronous=${isDurable ? 'FULL' : 'NORMAL'}`);
    this.#isDurable = isDurable;
  }

  /**
   * Move the log into the file and cut it off, so that erased text is not left in it. Waits for nobody: a reader that
   * still needs the log puts it off until the next unit that writes, or until the store is closed.
   */
  #cutOff(): void {
    const { connection } = this.opened;
    const isBusy = (pragma: string) => connection.once(pragma)[0]?.[0] !== 0n;
    try {
      setBusyTimeout(connection, 0);
      // The first moves the pages, and lets others write meanwhile; the second needs them to wait, for a moment.
      connection.once('PRAGMA wal_checkpoint(PASSIVE)');
      this.#scrub = isBusy('PRAGMA wal_checkpoint(TRUNCATE)') ? 'due' : 'clean';
    } catch {
      this.#scrub = 'due';
    }
    const isDue = this.#scrub === 'due';
    try {
      // So that whoever writes next does it, if this process ends before.
      if (isDue !== this.#isScrubNoted) {
        connection.run('UPDATE store SET scrub = :scrub', { scrub: isDue });
        this.#isScrubNoted = isDue;
      }
    } catch {
      // It cannot be written down; this process still knows.
    }
    setBusyTimeout(connection, this.busyTimeoutMs);
  }
}

/** The first column of a statement that answers a list: which place of `count` the row has in it, from 0. */
export function placeOf(row: Row, count: number): number {
  const place = integer(row, 0);
  if (place < 0n || place >= BigInt(count)) throw new StoreFailure('damaged', 'a row that was not asked for');
  return Number(place);
}
