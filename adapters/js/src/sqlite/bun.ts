// `bun:sqlite`. Its types are written down here as far as they are needed, so that building needs no types of Bun.

import { createRequire } from 'node:module';
import type { Bound, Driver, Value } from './driver.js';

interface Statement {
  values(params: Bound): Value[][];
  run(params: Bound): { changes: number };
  finalize(): void;
}

interface Database {
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(strictly: boolean): void;
}

type Options = { readonly?: true; readwrite?: true; create: false; safeIntegers: true; strict: true };

export const bun: Driver = {
  name: 'bun',
  load() {
    if (process.versions.bun === undefined) return undefined;
    const { Database } = createRequire(import.meta.url)('bun:sqlite') as {
      Database: new (path: string, options: Options) => Database;
    };
    return (path, readOnly) => {
      const access = readOnly ? { readonly: true as const } : { readwrite: true as const };
      const database = new Database(path, { ...access, create: false, safeIntegers: true, strict: true });
      return {
        exec: (sql) => database.exec(sql),
        prepare(sql) {
          const statement = database.prepare(sql);
          return {
            all: (params) => statement.values(params),
            run: (params) => statement.run(params).changes,
            finalize: () => statement.finalize(),
          };
        },
        inTransaction: () => database.inTransaction,
        close: () => database.close(true),
      };
    };
  },
};
