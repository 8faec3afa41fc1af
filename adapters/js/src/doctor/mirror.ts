// A copy of a harness's directory in which the harness may write: files are copied, directories are linked, and what
// the harness itself keeps there, as sessions and keys, is left out.

import { copyFileSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Above this, in bytes, a file is no configuration. */
const LARGE = 1_000_000;

/** What a harness writes for itself, by its name. */
const KEPT = /^auth|^\.env$|^history|\.(db|db-wal|db-shm|sqlite|jsonl|log|lock|pid)$/;

/** `except`: names that are left out, too. A directory that is not there has nothing in it. */
export function mirror(from: string, to: string, except: readonly string[]): void {
  mkdirSync(to, { recursive: true });
  for (const name of names(from)) {
    if (KEPT.test(name) || except.includes(name)) continue;
    const place = join(from, name);
    const found = statSync(place, { throwIfNoEntry: false });
    if (found?.isDirectory()) symlinkSync(place, join(to, name), 'dir');
    else if (found?.isFile() && found.size < LARGE) copyFileSync(place, join(to, name));
  }
}

function names(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
