// One process of several that use a store at once: `node sqlite_process.js JOB FILE NUMBER`. Started by
// sqlite_files.test.ts.

import { existsSync, writeFileSync, writeSync } from 'node:fs';
import { choose, connect } from '../dist/sqlite/driver.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { StoreFailure } from '../dist/store.js';
import { ADD, MOVED_AND_ERASED, connectionOf, markOf } from './sqlite_moved.js';

const [job, path = '', number = ''] = process.argv.slice(2);
const memory = { audience: 'project', category: '', priority: 0, trusted: true } as const;
const key = { harness: 'local', id: 'racer' };

switch (job) {
  case 'open': {
    // Start together.
    while (!existsSync(`${path}.go`));
    const store = SqliteStore.open(path, { busyTimeoutMs: 60_000 });
    store.addAgent(number);
    store.addMemory({ ...memory, body: number }, 1n);
    store.close();
    break;
  }
  case 'deliver': {
    const store = SqliteStore.open(path, { busyTimeoutMs: 60_000 });
    store.beginUnit('write');
    const times = { at: 20n, keepUntil: 500n };
    store.insertDelivery({ child: key, occasion: 'start', snapshotRef: 'snap_1', place: 0, ...times, state: number });
    store.commit();
    store.close();
    break;
  }
  case 'end in the middle': {
    const store = SqliteStore.open(path);
    store.addAgent('kept');
    store.beginUnit('write');
    store.insertSnapshot({
      snapshot: {
        snapshotRef: 'snap_lost',
        owner: key,
        createdAt: 1n,
        expiresAt: 2n,
        keepUntil: 3n,
        memoryIds: [],
        pages: 0,
        state: '',
      },
      pages: [],
    });
    // Nothing is closed, no log is moved.
    process.kill(process.pid, 'SIGKILL');
    break;
  }
  case 'end while it makes the store': {
    writeFileSync(path, '');
    const connection = connect(choose(undefined), path);
    // So little memory that SQLite moves pages into the file before the transaction ends.
    connection.exec('PRAGMA cache_size=1; BEGIN IMMEDIATE; PRAGMA application_id=1835363696; CREATE TABLE t (x)');
    for (let row = 0; row < 50; row += 1) connection.exec('INSERT INTO t VALUES (randomblob(4000))');
    process.kill(process.pid, 'SIGKILL');
    break;
  }
  case 'end before the log is cut off': {
    const store = SqliteStore.open(path);
    store.beginUnit('write');
    store.erase(MOVED_AND_ERASED.map(String));
    connectionOf(store).run('COMMIT');
    process.kill(process.pid, 'SIGKILL');
    break;
  }
  case 'go on': {
    // Adds and erases, and says before each step and after it which one it is.
    const store = SqliteStore.open(path, { busyTimeoutMs: 60_000 });
    const say = (line: string) => writeSync(1, `${line}\n`);
    const step = (what: string, work: () => unknown) => {
      say(`begin ${what}`);
      try {
        store.beginUnit('write');
        work();
        store.commit();
        say(`done ${what}`);
      } catch (error) {
        if (!(error instanceof StoreFailure)) throw error;
        store.rollBack();
        say(`fail ${error.message}`);
      }
    };
    for (let n = 0; n < Number(number); n += 1) {
      step(`+${n}`, () =>
        connectionOf(store).run(ADD, { id: `${n}`, body: markOf(n).repeat([5, 15, 25, 60][n % 4] ?? 0) }),
      );
      if (n % 3 === 2) step(`-${n - 2}`, () => store.erase([`${n - 2}`]));
    }
    store.close();
    break;
  }
  case 'have no room': {
    // Started with a limit of the size of its files.
    const store = SqliteStore.open(path);
    store.addAgent('before');
    const connection = connectionOf(store);
    let why = 'it did not fail';
    try {
      store.addMemory({ ...memory, body: 'x'.repeat(4_000_000) }, 1n);
    } catch (error) {
      if (!(error instanceof StoreFailure)) throw error;
      why = error.message;
    }
    const isUsedYet = connectionOf(store) === connection;
    store.addAgent('after');
    const isUsedStill = connectionOf(store) === connection;
    process.stdout.write(JSON.stringify([why, isUsedYet, isUsedStill, store.addAgent('before')]));
    store.close();
    break;
  }
  case 'take': {
    // Whether this process can have the file for itself.
    const other = connect(choose(undefined), path);
    other.exec('PRAGMA busy_timeout=0');
    other.once('PRAGMA locking_mode=EXCLUSIVE');
    try {
      other.once('SELECT count(*) FROM agents');
      process.stdout.write('taken');
    } catch (error) {
      process.stdout.write((error as { kind?: string }).kind ?? String(error));
    }
    other.close();
    break;
  }
}
