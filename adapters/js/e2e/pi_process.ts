// Runs a program to its end or to a time limit. It is the leader of a group, so that the children that a harness starts
// end with it.

import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';

export interface Finished {
  stdout: string;
  stderr: string;
  /** `null` where a signal ended it, as the time limit does. */
  code: number | null;
}

export interface RunOptions {
  /** The directory that it works in. */
  readonly directory?: string;
  /** Beside the variables of the harness's home. */
  readonly env?: Readonly<Record<string, string>>;
  /** More arguments, before the prompts. */
  readonly args?: readonly string[];
  readonly timeoutMs?: number;
  /** Ends it at once, as a crash would. */
  readonly crash?: AbortSignal;
}

/** A run with one child takes some three seconds; a slow machine may take much longer. */
const LIMIT_MS = 90_000;

export async function runToEnd(
  program: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  options: RunOptions,
): Promise<Finished> {
  const child = spawn(program, args, {
    cwd: options.directory,
    env: { ...env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  options.crash?.addEventListener('abort', () => kill(child));
  const limit = setTimeout(() => kill(child), options.timeoutMs ?? LIMIT_MS);
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', resolve);
    });
    return { stdout, stderr, code };
  } finally {
    clearTimeout(limit);
  }
}

function kill(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has ended in the meantime.
  }
}
