// Starts a program and waits for its end, for a time limit, or until the user has had enough. It leads a group of its
// own, which ends with it, so nothing that it started is left.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';

export interface Ended {
  stdout: string;
  stderr: string;
  /** `null`: a signal ended it. */
  code: number | null;
  /** Why it was ended from here. */
  stopped: 'late' | 'interrupted' | undefined;
}

export interface Starting {
  program: string;
  args: readonly string[];
  env: Readonly<Record<string, string | undefined>>;
  directory: string;
  limitMs: number;
  /** The user has had enough. */
  signal: AbortSignal;
}

/** How long what a program has printed may take to arrive once it has ended. */
const PRINTED_MS = 1_000;

export async function runToEnd({ program, args, env, directory, limitMs, signal }: Starting): Promise<Ended> {
  const child = spawn(program, args, { cwd: directory, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
  const printed = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed.stderr += text));
  let stopped: Ended['stopped'];
  const stop = (why: Ended['stopped']) => {
    stopped ??= why;
    endGroup(child);
  };
  const interrupt = () => stop('interrupted');
  const limit = setTimeout(() => stop('late'), limitMs);
  signal.addEventListener('abort', interrupt);
  try {
    const exited = new Promise<number | null>((done, fail) => {
      child.once('error', fail);
      child.once('exit', done);
    });
    const closed = new Promise<void>((done) => child.once('close', () => done()));
    if (signal.aborted) interrupt();
    const code = await exited;
    // A server that it left behind would hold its output open.
    endGroup(child);
    await Promise.race([closed, new Promise((done) => setTimeout(done, PRINTED_MS).unref())]);
    return { ...printed, code, stopped };
  } finally {
    clearTimeout(limit);
    signal.removeEventListener('abort', interrupt);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

function endGroup(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // All of it has ended.
  }
}

/** Where a program is: where this variable says, else where the shell would find it. */
export function find(command: string, variable: string): string | undefined {
  const named = process.env[variable];
  if (named) return resolve(named);
  const names = process.platform === 'win32' ? [`${command}.exe`] : [command];
  const places = (process.env['PATH'] ?? '').split(delimiter).filter((place) => place !== '');
  return places.flatMap((place) => names.map((name) => resolve(join(place, name)))).find(isProgram);
}

/** Whether it may be run. */
export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
