// Which files this process has open, each with one handle to read it past SQLite. POSIX drops a process's locks on a file
// when any handle on it is closed, SQLite's too; so that one is opened before the first connection, and closed after the
// last.

import { closeSync, openSync, readSync, readdirSync, statSync } from 'node:fs';
import type { BigIntStats } from 'node:fs';
import { StoreFailure } from '../store.js';
import type { DriverName } from './driver.js';

/** An open file: its handle, the driver that has it, and how many connections. */
interface Open {
  readonly handle: number;
  driver: DriverName;
  count: number;
}

/** A file that cannot be lost meanwhile. */
export interface Held {
  /** To read what is in the file itself, with {@link readAt}. */
  readonly handle: number;
  /** Whether no other connection of ours is open. */
  readonly isFirst: boolean;
  release(): void;
}

/** Shared by all copies of this package. Worker threads each have one of their own. */
const KEY = Symbol.for('memory-prefetch.sqlite.open-files');

function openFiles(): Map<string, Open> {
  const shared = globalThis as { [KEY]?: Map<string, Open> };
  return (shared[KEY] ??= new Map());
}

/** Note that a connection is open, until the answer is released. Two copies of SQLite would drop each other's locks. */
export function hold(path: string, driver: DriverName): Held {
  const files = openFiles();
  const { file, open } = opened(path, driver);
  if (open.count > 0 && open.driver !== driver) {
    throw new StoreFailure('other', `${path} is open in this process already, with the SQLite driver ${open.driver}`);
  }
  open.driver = driver;
  open.count += 1;
  return {
    handle: open.handle,
    isFirst: open.count === 1,
    release() {
      open.count -= 1;
      // Another thread may have it open. Then the handle stays, until the next one here who lets go of the file.
      if (open.count > 0 || handlesOn(file) > 1) return;
      files.delete(file);
      closeSync(open.handle);
    },
  };
}

/** The file as it is open here, by whichever name. */
function opened(path: string, driver: DriverName): { file: string; open: Open } {
  try {
    const file = identity(statSync(path, { bigint: true }));
    let open = openFiles().get(file);
    if (open === undefined) openFiles().set(file, (open = { handle: openSync(path, 'r'), driver, count: 0 }));
    return { file, open };
  } catch (error) {
    throw new StoreFailure('absent', `${path} cannot be opened: ${(error as Error).message}`);
  }
}

/** Fill `bytes` with what is in the file from `offset` on, with zeroes where it ends. Answers how many it had. */
export function readAt(handle: number, bytes: Buffer, offset: number): number {
  try {
    const count = readSync(handle, bytes, 0, bytes.length, offset);
    bytes.fill(0, count);
    return count;
  } catch (error) {
    throw new StoreFailure('other', `reading its file failed: ${(error as Error).message}`);
  }
}

/** Tells a file from all others, by whichever name, and from one that was put in its place. */
export function identity(found: BigIntStats): string {
  return `${found.dev}:${found.ino}`;
}

/** How many handles this process has on a file; 0 where the system does not say. */
export function handlesOn(file: string): number {
  let handles: string[];
  try {
    handles = readdirSync('/dev/fd');
  } catch {
    return 0;
  }
  return handles.filter((handle) => {
    try {
      return identity(statSync(`/dev/fd/${handle}`, { bigint: true })) === file;
    } catch {
      return false;
    }
  }).length;
}
