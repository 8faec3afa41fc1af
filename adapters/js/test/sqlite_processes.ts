// Starts sqlite_process.ts.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const PROCESS = fileURLToPath(new URL('./sqlite_process.js', import.meta.url));

/** What another process says, when it has ended, by itself or killed. */
export function inProcess(job: string, path: string, number: number): Promise<string> {
  return said([process.execPath, PROCESS, job, path, `${number}`]);
}

/**
 * The same, whose files may have so many blocks of 512 bytes: what is beyond that fails as on a disk without room, and
 * needs no rights.
 */
export function inLimits(blocks: number, job: string, path: string, number: number): Promise<string> {
  // Who exceeds it gets a signal, which would end Bun.
  const limited = `trap '' XFSZ; ulimit -f ${blocks}; exec "$@"`;
  return said(['/bin/sh', '-c', limited, 'sh', process.execPath, PROCESS, job, path, `${number}`]);
}

/** The same, killed when it has said so many lines. */
export function killedAfter(lines: number, job: string, path: string, number: number): Promise<string> {
  return said([process.execPath, PROCESS, job, path, `${number}`], lines);
}

function said([program = '', ...args]: string[], lines = Infinity): Promise<string> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  let failed = '';
  child.stdout.on('data', (data) => {
    said += data;
    if (said.split('\n').length > lines) child.kill('SIGKILL');
  });
  child.stderr.on('data', (data) => (failed += data));
  return new Promise((done, fail) => {
    child.on('close', (code, signal) => {
      if (code === 0 || signal === 'SIGKILL') done(said);
      else fail(new Error(failed));
    });
  });
}
