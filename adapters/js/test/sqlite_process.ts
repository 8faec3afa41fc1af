// One process of several that use a store at once: `node sqlite_process.js JOB FILE NUMBER`. Started by
// sqlite_files.test.ts.

import { existsSync } from 'node:fs';
import { choose, connect } from '../dist/sqlite/driver.js';
import { SqliteStore } from '../dist/sqlite/store.js';

const [job, path = '', number = ''] = process.argv.slice(2);
const key = { harness: 'local', id: 'racer' };

switch (job) {
  case 'open': {
    // Start together.
    while (!existsSync(`${path}.go`));
    const store = SqliteStore.open(path, { busyTimeoutMs: 60_000 });
    store.addAgent(number);
    const memory = { audience: 'project', category: '', priority: 0, trusted: true, body: number } as const;
    store.addMemory(memory, 1n);
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
