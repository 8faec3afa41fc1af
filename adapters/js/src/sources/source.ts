// What all sources of memories share: memories of other programs, read where they are. Nothing is copied, and no byte of
// theirs is changed. Each is a `Memories` for `Prefetch`; delegations and snapshots stay in our own file. What each
// program's columns mean is said in its own file, and who may see a memory is decided where it always is.

import { createHash } from 'node:crypto';
import type { Allowance } from '../allowance.js';
import type { Memory, SearchFilter } from '../contract.js';
import { admits, parseQuery, score } from '../search.js';
import type { Query } from '../search.js';
import type { Connection, DriverName, Value } from '../sqlite/driver.js';
import { StoreFailure } from '../store.js';
import type { Memories } from '../store.js';

/** How a source is read. */
export interface SourceOptions {
  /** How long to wait for the source's own program before answering `busy`; five seconds if it is not said. */
  busyTimeoutMs?: number | undefined;
  /** Whether the user trusts what is in it (R9): the `trusted` of each of its memories; yes if it is not said. */
  trusted?: boolean | undefined;
  /** Which SQLite; the runtime's own if it is not said. */
  driver?: DriverName | undefined;
  /** Is told what a person should know. */
  warn?: ((line: string) => void) | undefined;
}

/**
 * A source that is opened as soon as it can be, at the beginning of a unit of work. Until then what was frozen, and what
 * names no memory, goes on without it; whatever reads a memory answers with the failure, of which `warn` is told once.
 */
export function onceThere(open: () => Memories, warn: (line: string) => void = () => {}): Memories {
  let source: Memories | undefined;
  let failure = new StoreFailure('other', 'no unit of work is open');
  let warned = false;
  const opened = () => {
    if (source === undefined) throw failure;
    return source;
  };
  return {
    begin() {
      try {
        source ??= open();
      } catch (error) {
        if (!(error instanceof StoreFailure)) throw error;
        failure = error;
        if (!warned) warn(`the source of memories cannot be opened: ${error.message}`);
        warned = true;
      }
      source?.begin?.();
    },
    end: () => source?.end?.(),
    memories: (ids, maxBytes) => (ids.length === 0 ? [] : opened().memories(ids, maxBytes)),
    search: (filter, query, limit, maxBytes) => opened().search(filter, query, limit, maxBytes),
    recordAccess: (ids, at) => source?.recordAccess(ids, at),
    erase: (ids) => source?.erase(ids) ?? [],
    places: (projects) => source?.places?.(projects) ?? projects.map(() => undefined),
    members: (workspace) => source?.members?.(workspace) ?? [],
    close: () => source?.close?.(),
  };
}

/**
 * The columns of a table, or undefined if there is no such table. Views and virtual tables are none of ours: they may call
 * what only their own program has.
 */
export function columns(connection: Connection, table: string): string[] | undefined {
  const find = `SELECT 1 FROM sqlite_schema
    WHERE type = 'table' AND lower(name) = :table AND upper(ltrim(sql)) NOT LIKE 'CREATE VIRTUAL%'`;
  if (connection.all(find, { table }).length === 0) return undefined;
  return connection.all('SELECT lower(name) FROM pragma_table_xinfo(:table)', { table }).map(([name]) => String(name));
}

/** An expression for a column that {@link text} and {@link integer} read; for NULL where the table does not have it. */
export function column(there: readonly string[], name: string): string {
  return there.includes(name) ? read(name) : 'NULL';
}

/**
 * Drivers repair a text that is not UTF-8, `node:sqlite` cuts one off at a NUL, and numbers may be rounded. So a text
 * comes as its bytes, an integer as its digits, and what is neither as a fraction.
 */
function read(name: string): string {
  return (
    `CASE typeof(${name}) WHEN 'text' THEN CAST(${name} AS BLOB) WHEN 'integer' THEN CAST(${name} AS TEXT) ` +
    `WHEN 'null' THEN NULL ELSE 0.5 END`
  );
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A text of another program's column; undefined if it is of another type, or not UTF-8. */
export function text(value: Value | undefined): string | undefined {
  if (!(value instanceof Uint8Array)) return undefined;
  try {
    return UTF_8.decode(value);
  } catch {
    return undefined;
  }
}

/** As {@link text}, and an empty one is none. */
export function name(value: Value | undefined): string | undefined {
  return text(value) || undefined;
}

export function integer(value: Value | undefined): bigint | undefined {
  return typeof value === 'string' ? BigInt(value) : undefined;
}

/** A source whose table or column this program cannot do without is not there. */
export function lacks(path: string, what: string): StoreFailure {
  return new StoreFailure('damaged', `${path} has no ${what}: it is not what it was said to be, or too old or too new`);
}

/** Bodies are cast to bytes, which are those of the file's encoding. */
export function checkEncoding(connection: Connection, path: string): void {
  const [[encoding] = []] = connection.once('PRAGMA encoding');
  if (encoding !== 'UTF-8')
    throw new StoreFailure('other', `${path} has its texts in ${encoding}, and only UTF-8 is read`);
}

/** A row, but for what depends on its body. */
export type Bare = Omit<Memory, 'version' | 'bytes' | 'body'>;

/**
 * The row with what depends on its body, and the body if the allowance admits it.
 *
 * Its version is of the body alone: the time of the update is renewed for counts as well.
 */
export function withBody(row: Bare, body: string, allowance: Allowance): Memory {
  const bytes = Buffer.byteLength(body);
  const version = createHash('sha256').update(body, 'utf8').digest('hex').slice(0, 16);
  return { ...row, version, bytes, body: allowance.admits(bytes) ? body : undefined };
}

/** The rows that a search found so far, without their bodies. */
export class Hits {
  readonly #query: Query;
  readonly #found: { score: number; at: bigint; id: string }[] = [];

  constructor(
    readonly filter: SearchFilter,
    query: string,
  ) {
    this.#query = parseQuery(query);
  }

  consider(row: Bare, body: string): void {
    if (!admits(this.filter, { ...row, version: '', bytes: 0 })) return;
    const points = score(this.#query, body);
    // A row without a time comes last.
    if (points > 0) this.#found.push({ score: points, at: row.updatedAt ?? -1n, id: row.id });
  }

  /** Best first, then the youngest. */
  best(limit: number): string[] {
    const order = (a: bigint | string, b: bigint | string) => (a < b ? -1 : a > b ? 1 : 0);
    this.#found.sort((a, b) => b.score - a.score || order(b.at, a.at) || order(a.id, b.id));
    return this.#found.slice(0, limit).map(({ id }) => id);
  }
}
