// Another process's long write, played by a process of its own: SQLite's locks do not part the threads of one process.

import { spawn } from 'node:child_process';
import { parentPort, workerData } from 'node:worker_threads';

const script = `
  const { SqliteStore } = await import(${JSON.stringify(new URL('../dist/sqlite/store.js', import.meta.url).href)});
  const lock = SqliteStore.open(${JSON.stringify(workerData)}).lock();
  process.stdout.write('locked');
  process.stdin.once('data', () => { lock.release(); process.exit(0); });
`;
const holder = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['pipe', 'pipe', 'inherit'] });
holder.stdout.once('data', () => parentPort?.postMessage('locked'));
parentPort?.once('message', () => holder.stdin.write('release'));
