// What an error of SQLite means to the caller: which may be tried again, which need a person.

import { StoreFailure } from '../store.js';

/** SQLite's primary result codes that mean something of their own. */
export const CODES = {
  SQLITE_BUSY: 5,
  SQLITE_LOCKED: 6,
  SQLITE_NOMEM: 7,
  SQLITE_READONLY: 8,
  SQLITE_INTERRUPT: 9,
  SQLITE_IOERR: 10,
  SQLITE_CORRUPT: 11,
  SQLITE_FULL: 13,
  SQLITE_CANTOPEN: 14,
  SQLITE_PROTOCOL: 15,
  SQLITE_TOOBIG: 18,
  SQLITE_CONSTRAINT: 19,
  SQLITE_NOTADB: 26,
} as const;

/** Two rows with one id, or a row that names another which is not there. */
const REFERENCES: Readonly<Record<string, number>> = {
  SQLITE_CONSTRAINT_FOREIGNKEY: 787,
  SQLITE_CONSTRAINT_PRIMARYKEY: 1555,
  SQLITE_CONSTRAINT_UNIQUE: 2067,
};

/** The disk, or memory, has failed SQLite in the middle of something. */
const OF_MACHINE: readonly number[] = [
  CODES.SQLITE_IOERR,
  CODES.SQLITE_FULL,
  CODES.SQLITE_CANTOPEN,
  CODES.SQLITE_NOMEM,
];

/** Whether what a driver threw says that the disk, or memory, has failed it. */
export function isOfMachine(error: unknown): boolean {
  return OF_MACHINE.includes((codeOf(error) ?? 0) & 0xff);
}

/** What a driver threw, as a store's failure. What is none of SQLite's errors is a fault, and goes on as it is. */
export function failureOf(error: unknown): unknown {
  const code = codeOf(error);
  if (code === undefined || !(error instanceof Error)) return error;
  const failure = meaning(code, error.message);
  failure.cause = error;
  return failure;
}

function meaning(code: number, why: string): StoreFailure {
  switch (code & 0xff) {
    // A lost race for the write-ahead log's locks is one more kind of busy.
    case CODES.SQLITE_BUSY:
    case CODES.SQLITE_LOCKED:
    case CODES.SQLITE_PROTOCOL:
      return new StoreFailure('busy', why);
    case CODES.SQLITE_NOTADB:
    case CODES.SQLITE_CORRUPT:
      return new StoreFailure('damaged', why);
    case CODES.SQLITE_CANTOPEN:
      return new StoreFailure('absent', why);
    case CODES.SQLITE_TOOBIG:
      return new StoreFailure('too-large', why);
    case CODES.SQLITE_INTERRUPT:
      return new StoreFailure('other', 'a statement took too long and was stopped');
    case CODES.SQLITE_FULL:
      return new StoreFailure('other', `no space is left for it: ${why}`);
    case CODES.SQLITE_READONLY:
      return new StoreFailure('other', `it may only be read: ${why}`);
    case CODES.SQLITE_IOERR:
      return new StoreFailure('other', `reading or writing its file failed: ${why}`);
    case CODES.SQLITE_CONSTRAINT:
      return new StoreFailure(Object.values(REFERENCES).includes(code) ? 'damaged' : 'other', why);
    default:
      return new StoreFailure('other', why);
  }
}

/**
 * The (extended) result code: Bun gives it as `errno`, Node as `errcode`, better-sqlite3 its name as `code`. undefined:
 * this error is none of SQLite's.
 */
export function codeOf(error: unknown): number | undefined {
  const { errcode, errno, code } = (error ?? {}) as { errcode?: unknown; errno?: unknown; code?: unknown };
  if (typeof errcode === 'number') return errcode;
  if (typeof code !== 'string' || !code.startsWith('SQLITE_')) return undefined;
  if (typeof errno === 'number') return errno;
  const primary = code.split('_', 2).join('_');
  // SQLITE_ERROR for what is in neither table.
  return REFERENCES[code] ?? (CODES as Readonly<Record<string, number>>)[primary] ?? 1;
}
