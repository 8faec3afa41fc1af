// Rows of which SQLite leaves copies, and a look behind a store. Also for processes that are no tests.

import { readFileSync } from 'node:fs';
import type { Connection } from '../dist/sqlite/driver.js';
import type { SqliteStore } from '../dist/sqlite/store.js';

/** The connection that a store has at this moment. */
export function connectionOf(store: SqliteStore): Connection {
  return (store as unknown as { opened: { connection: Connection } }).opened.connection;
}

/** Whether the file says that erased text may be left, as this store's connection sees it. */
export function isNoted(store: SqliteStore): boolean {
  return connectionOf(store).once('SELECT scrub FROM store')[0]?.[0] === 1n;
}

/**
 * What SQLite leaves copies of: rows of many lengths, of which two thirds were made longer or shorter, so that it had to
 * make room. Each body begins with {@link markOf} its number.
 */
export function fillWithMoved(connection: Connection): void {
  const body = (n: number, version: number) =>
    `${markOf(n)}${version}]`.repeat([5, 15, 25, 60][(7 * n + version) % 4] ?? 0);
  connection.exec('PRAGMA secure_delete=ON; PRAGMA foreign_keys=ON; BEGIN IMMEDIATE');
  for (let n = 0; n < MOVED; n += 1) {
    connection.run(ADD, { id: `${n}`, body: body(n, 1) });
  }
  for (let n = 0; n < MOVED; n += 1) {
    const id = (7 * n) % MOVED;
    if (id % 3 === 0) continue;
    connection.run('UPDATE memories SET body = :body WHERE memory_id = :id', { id: `${id}`, body: body(id, 2) });
  }
  connection.exec('COMMIT');
}

/** Adds a memory :id with this :body, inside whatever transaction is open. */
export const ADD = `INSERT INTO memories (trusted, priority, created_at, updated_at, memory_id, audience, owner, project,
  category, body) VALUES (1, 0, 1, 1, :id, 'project', 'ada', 'web', '', :body)`;

const MOVED = 600;

export function markOf(n: number): string {
  return `[${`${n}`.padStart(5, '0')} `;
}

/** Those that the tests erase. */
export const MOVED_AND_ERASED: readonly number[] = Array.from({ length: MOVED / 5 }, (_, place) => 5 * place);

/** Which of {@link MOVED_AND_ERASED} can be read in this file. */
export function leftOf(path: string): number[] {
  const bytes = readFileSync(path);
  return MOVED_AND_ERASED.filter((n) => bytes.includes(markOf(n)));
}
