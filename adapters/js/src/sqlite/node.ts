// `node:sqlite`, from Node 22.16 on: before, it cannot say whether a transaction is open.

import { createRequire } from 'node:module';
import type * as NodeSqlite from 'node:sqlite';
import type { Driver, Value } from './driver.js';

export const node: Driver = {
  name: 'node',
  load() {
    if (process.versions.bun !== undefined) return undefined;
    const sqlite = withoutWarning(() => {
      try {
        return createRequire(import.meta.url)('node:sqlite') as typeof NodeSqlite;
      } catch {
        return undefined;
      }
    });
    if (sqlite === undefined || !('setReturnArrays' in sqlite.StatementSync.prototype)) return undefined;
    return (path, readOnly) => {
      const database = new sqlite.DatabaseSync(path, { readOnly });
      return {
        exec: (sql) => database.exec(sql),
        prepare(sql) {
          const statement = database.prepare(sql);
          statement.setReadBigInts(true);
          statement.setReturnArrays(true);
          return {
            all: (params) => statement.all(params) as unknown as Value[][],
            run: (params) => Number(statement.run(params).changes),
            // Closing the connection does it.
            finalize() {},
          };
        },
        inTransaction: () => database.isTransaction,
        close: () => database.close(),
      };
    };
  },
};

/** Loading it prints that it is experimental, into the middle of a harness's screen. */
function withoutWarning<T>(load: () => T): T {
  const emitWarning = process.emitWarning;
  process.emitWarning = (() => {}) as typeof process.emitWarning;
  try {
    return load();
  } finally {
    process.emitWarning = emitWarning;
  }
}
