// The package better-sqlite3, for a Node that has no SQLite of its own. It is an optional dependency: it is compiled,
// and that may have failed.

import { createRequire } from 'node:module';
import type BetterSqlite3 from 'better-sqlite3';
import type { Driver, Value } from './driver.js';

export const better: Driver = {
  name: 'better',
  load() {
    // It cannot be loaded into Bun.
    if (process.versions.bun !== undefined) return undefined;
    let Database: typeof BetterSqlite3;
    try {
      Database = createRequire(import.meta.url)('better-sqlite3') as typeof BetterSqlite3;
    } catch {
      return undefined;
    }
    return (path, readOnly) => {
      const database = new Database(path, { readonly: readOnly, fileMustExist: true, timeout: 0 });
      database.defaultSafeIntegers(true);
      return {
        exec: (sql) => void database.exec(sql),
        prepare(sql) {
          const statement = database.prepare(sql);
          // It refuses to do this for a statement that gives no rows.
          if (statement.reader) statement.raw(true);
          return {
            all: (params) => statement.all(params) as Value[][],
            run: (params) => statement.run(params).changes,
            // Closing the connection does it.
            finalize() {},
          };
        },
        inTransaction: () => database.inTransaction,
        close: () => void database.close(),
      };
    };
  },
};
