// The three ways to SQLite that JavaScript has, behind one small interface, and which of them is taken: Bun's own,
// Node's own, or the package better-sqlite3. What they throw becomes a `StoreFailure` here, and nowhere else.

import { StoreFailure } from '../store.js';
import { better } from './better.js';
import { bun } from './bun.js';
import { failureOf, isOfMachine } from './failure.js';
import { node } from './node.js';

/** `bun`: `bun:sqlite`. `node`: `node:sqlite`. `better`: the package better-sqlite3. */
export type DriverName = 'bun' | 'node' | 'better';

/** A value as it comes out of a file. Every integer is a bigint, so that none is rounded. */
export type Value = bigint | number | string | Uint8Array | null;

/** A value as it goes in; undefined is NULL, a truth value 1 or 0. */
export type Param = bigint | number | string | boolean | null | undefined;

/** Named parameters, without the colon. */
export type Params = Readonly<Record<string, Param>>;

/** What is bound, after {@link bound}. */
export type Bound = Record<string, bigint | string | null>;

/** A statement of a driver. */
export interface RawStatement {
  /** All rows, each as its values in order. */
  all(params: Bound): Value[][];
  /** How many rows were changed, without those that triggers changed. */
  run(params: Bound): number;
  finalize(): void;
}

/** A connection of a driver. */
export interface RawConnection {
  /** One or more statements without parameters and rows. */
  exec(sql: string): void;
  prepare(sql: string): RawStatement;
  inTransaction(): boolean;
  /** Lets go of the file, now. All statements are finalized before. */
  close(): void;
}

/** How one of them is loaded; undefined: this runtime does not have it. */
export interface Driver {
  name: DriverName;
  load(): ((path: string, readOnly: boolean) => RawConnection) | undefined;
}

/** An open file, whichever driver it is open with. Functions throw `StoreFailure`. */
export interface Connection {
  readonly driver: DriverName;
  exec(sql: string): void;
  /** A statement that is prepared once. */
  all(sql: string, params?: Params): Value[][];
  /** Answers how many rows it changed. */
  run(sql: string, params?: Params): number;
  /** The rows of a statement that is not needed again. */
  once(sql: string): Value[][];
  inTransaction(): boolean;
  /**
   * Whether the disk has failed it: what SQLite keeps in memory may not go together any more. Its search index has been
   * seen to take a sound file for damaged then.
   */
  hasFailed(): boolean;
  close(): void;
}

const DRIVERS: Record<DriverName, Driver> = { bun, node, better };

/** The driver to take: the one asked for, the one that `MEMORY_PREFETCH_SQLITE` names, or the runtime's own. */
export function choose(asked: DriverName | undefined): DriverName {
  const name = asked ?? process.env.MEMORY_PREFETCH_SQLITE;
  if (name) {
    if (!Object.hasOwn(DRIVERS, name)) {
      throw new StoreFailure('other', `there is no SQLite driver ${JSON.stringify(name)}; take bun, node or better`);
    }
    return name as DriverName;
  }
  if (process.versions.bun !== undefined) return 'bun';
  return node.load() === undefined ? 'better' : 'node';
}

/**
 * Open a file that is there. The path is absolute, so that it is no URI and not `:memory:` by accident; or it is a URI,
 * which better-sqlite3 does not take, and then the file is only read.
 */
export function connect(name: DriverName, path: string, readOnly = false): Connection {
  const open = DRIVERS[name].load();
  if (open === undefined) throw new StoreFailure('other', MISSING[name]);
  const raw = translated(() => open(path, readOnly));
  let hasFailed = false;
  const noting = <T>(work: () => T): T =>
    translated(() => {
      try {
        return work();
      } catch (error) {
        hasFailed ||= isOfMachine(error);
        throw error;
      }
    });
  const prepared = new Map<string, RawStatement>();
  const statement = (sql: string) => {
    let found = prepared.get(sql);
    if (found === undefined) prepared.set(sql, (found = raw.prepare(sql)));
    return found;
  };
  return {
    driver: name,
    exec: (sql) => noting(() => raw.exec(sql)),
    all: (sql, params) => noting(() => statement(sql).all(bound(params))),
    run: (sql, params) => noting(() => statement(sql).run(bound(params))),
    once: (sql) =>
      noting(() => {
        const single = raw.prepare(sql);
        try {
          return single.all({});
        } finally {
          single.finalize();
        }
      }),
    inTransaction: () => raw.inTransaction(),
    hasFailed: () => hasFailed,
    close() {
      for (const one of prepared.values()) one.finalize();
      prepared.clear();
      translated(() => raw.close());
    },
  };
}

const MISSING: Record<DriverName, string> = {
  bun: 'bun:sqlite is only in Bun; leave the choice of the SQLite driver to this program',
  node: 'there is no node:sqlite here that is new enough: take Node 22.16 or later, or run this in Bun',
  better:
    'there is no SQLite here: run this in Node 22.16 or later or in Bun, which have their own. Before that, Node needs ' +
    'better-sqlite3, which `npm ci` compiles with a C++ compiler and python3, and passes over where it cannot',
};

/** Numbers are bound as integers: some drivers would make each of them a floating-point number. */
function bound(params: Params | undefined): Bound {
  const values: Bound = {};
  for (const name in params) {
    const value = params[name];
    switch (typeof value) {
      case 'number':
        values[name] = BigInt(value);
        break;
      case 'boolean':
        values[name] = value ? 1n : 0n;
        break;
      default:
        values[name] = value ?? null;
    }
  }
  return values;
}

function translated<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw failureOf(error);
  }
}
