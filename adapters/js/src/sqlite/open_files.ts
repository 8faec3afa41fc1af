// Which files this process has open. POSIX drops a process's locks on a file when any handle on it is closed, SQLite's
// too; so a file's first bytes may be read without SQLite only if nobody here has it open.

import { readdirSync, statSync } from 'node:fs';
import { StoreFailure } from '../store.js';
import type { DriverName } from './driver.js';

/** An open file: the driver that has it, and how many connections. */
interface Held {
  driver: DriverName;
  count: number;
}

/** Shared by all copies of this package. Worker threads each have one of their own. */
const KEY = Symbol.for('memory-prefetch.sqlite.open-files');

function held(): Map<string, Held> {
  const shared = globalThis as { [KEY]?: Map<string, Held> };
  return (shared[KEY] ??= new Map());
}

/** What a file is, by whichever name. undefined: it is not there. */
function identity(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.dev}:${found.ino}`;
}

/** Who in this process has this file open: a connection of ours or, where the system says so, any other thread. */
export function holderOf(path: string): 'us' | 'somebody' | undefined {
  const file = identity(path);
  if (file === undefined) return undefined;
  if (held().has(file)) return 'us';
  let handles: string[];
  try {
    handles = readdirSync('/dev/fd');
  } catch {
    return undefined;
  }
  const isIt = (handle: string) => {
    try {
      return identity(`/dev/fd/${handle}`) === file;
    } catch {
      return false;
    }
  };
  return handles.some(isIt) ? 'somebody' : undefined;
}

/** Note that a connection is open, until the answer is called. Two copies of SQLite would drop each other's locks. */
export function hold(path: string, driver: DriverName): () => void {
  const file = identity(path) ?? path;
  const files = held();
  const found = files.get(file) ?? { driver, count: 0 };
  if (found.driver !== driver) {
    throw new StoreFailure('other', `${path} is open in this process already, with the SQLite driver ${found.driver}`);
  }
  files.set(file, found);
  found.count += 1;
  return () => {
    found.count -= 1;
    if (found.count === 0) files.delete(file);
  };
}
