// Rows to start from, for the tests of the SQLite store.

import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type {
  Delivery,
  Frozen,
  HandOver,
  OfferFilter,
  Page,
  Project,
  SearchFilter,
  SessionKey,
  Snapshot,
} from '../dist/contract.js';
import { SqliteStore } from '../dist/sqlite/store.js';
import { type AuditRow, type NewMemory, type NewSession, StoreFailure } from '../dist/store.js';

const directories: string[] = [];
after(() => directories.forEach((directory) => rmSync(directory, { recursive: true, force: true })));

/** A directory of its own, and where the store is in it. */
export function place(): { directory: string; path: string } {
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-'));
  directories.push(directory);
  return { directory, path: join(directory, 'store.db') };
}

/** A store in a new file. */
export function fresh(): SqliteStore {
  return SqliteStore.open(place().path);
}

export function key(id: string): SessionKey {
  return { harness: 'local', id };
}

export function memory(id: string | undefined, body: string, change: Partial<NewMemory> = {}): NewMemory {
  return { ...MEMORY, id, body, ...change };
}

const MEMORY: Omit<NewMemory, 'body'> = {
  owner: 'ada',
  project: 'web',
  audience: 'project',
  category: 'fact',
  priority: 7,
  trusted: true,
};

export function project(id: string, workspace?: string): Project {
  return { id, workspace, memoryOn: true, trusted: true, attributes: [['color', 'red']] };
}

export function session(id: string, change: Partial<NewSession> = {}): NewSession {
  return { key: key(id), agent: 'ada', project: 'web', parent: undefined, memoryOn: true, ...change };
}

export function page(number: number, text: string): Page {
  return { number, check: `check of ${text}`, state: `state of ${text}`, text };
}

export function frozen(name: string, memoryIds: string[], pages: string[], change: Partial<Snapshot> = {}): Frozen {
  return {
    snapshot: {
      snapshotRef: name,
      owner: key('parent'),
      createdAt: 10n,
      expiresAt: 100n,
      keepUntil: 100n,
      revokedAt: undefined,
      pages: pages.length,
      state: `state of ${name}`,
      memoryIds,
      ...change,
    },
    pages: pages.map((text, place) => page(place + 1, text)),
  };
}

export function handOver(id: string, task: string, change: Partial<HandOver> = {}): HandOver {
  return {
    id,
    parent: key('parent'),
    callId: undefined,
    agentType: undefined,
    snapshotRef: undefined,
    idsKey: undefined,
    children: 1,
    createdAt: 10n,
    expiresAt: 100n,
    keepUntil: 100n,
    taskDigest: `digest of ${task}`,
    taskHead: task,
    task,
    state: `state of ${id}`,
    ...change,
  };
}

export function delivery(child: string, occasion: string, change: Partial<Delivery> = {}): Delivery {
  return {
    child: key(child),
    occasion,
    snapshotRef: undefined,
    handOver: undefined,
    place: 0,
    at: 20n,
    keepUntil: 500n,
    state: `state of ${child} ${occasion}`,
    check: undefined,
    notice: undefined,
    ...change,
  };
}

export function told(child: string, occasion: string, notice: string): Delivery {
  return delivery(child, occasion, { notice, check: `check of ${notice}` });
}

export const ALL_OF_PARENT: OfferFilter = { parent: key('parent'), openOnly: false, withTask: true };

export const FILTER: SearchFilter = { owner: 'ada', projects: ['web'], at: 100n, trustedOnly: true };

export function audit(action: string, change: Partial<AuditRow> = {}): AuditRow {
  return {
    at: 5n,
    session: key('parent'),
    export: 'child.deliver',
    component: 'c0ffee',
    rolledBack: false,
    entry: {
      action,
      outcome: 'delivered',
      snapshotRefs: ['snap_1'],
      memoryIds: ['11', '55'],
      attributes: [['why', 'because']],
    },
    ...change,
  };
}

/** One unit of work that writes. */
export function write<T>(store: SqliteStore, work: () => T): T {
  store.beginUnit('write');
  const done = work();
  store.commit();
  return done;
}

/** Which kind of failure this is. */
export function failure(work: () => unknown): StoreFailure {
  try {
    work();
  } catch (error) {
    if (error instanceof StoreFailure) return error;
    throw error;
  }
  throw new Error('it did not fail');
}

/** Whether any file of this directory has this text in it. */
export function holds(directory: string, text: string): boolean {
  return readdirSync(directory).some((name) => readFileSync(join(directory, name)).includes(text));
}
