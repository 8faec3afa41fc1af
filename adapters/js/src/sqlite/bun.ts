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

/** `SQLITE_OPEN_READONLY` and `SQLITE_OPEN_URI`. */
const READ_ONLY_URI = 0x41;

export const bun: Driver = {
  name: 'bun',
  load() {
    if (process.versions.bun === undefined) return undefined;
    const { Database } = createRequire(import.meta.url)('bun:sqlite') as {
      Database: new (path: string, options: Options | number) => Database;
    };
    return (path, readOnly) => {
      // A URI is opened by flags, and without options a parameter is named with its colon, and integers are numbers.
      const isUri = path.startsWith('file:');
      const access = readOnly ? { readonly: true as const } : { readwrite: true as const };
      const options = isUri ? READ_ONLY_URI : ({ ...access, create: false, safeIntegers: true, strict: true } as const);
      const database = new Database(path, options);
      const named = (params: Bound): Bound =>
        isUri ? Object.fromEntries(Object.entries(params).map(([name, value]) => [`:${name}`, value])) : params;
      return {
        exec: (sql) => database.exec(sql),
        prepare(sql) {
          const statement = database.prepare(sql);
          return {
            all: (params) => statement.values(named(params)),
            run: (params) => statement.run(named(params)).changes,
            finalize: () => statement.finalize(),
          };
        },
        inTransaction: () => database.inTransaction,
        close: () => database.close(true),
      };
    };
  },
};
