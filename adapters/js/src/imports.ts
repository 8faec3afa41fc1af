// The component's imports, answered from a store: checks who calls and how much, and passes on. No policy.

import { createHash, randomBytes } from 'node:crypto';
import { allowanceOf } from './allowance.js';
import type { Imports } from './component.js';
import type { Entry, Frozen, Given, HandOver, Memory, StoreError } from './contract.js';
import { ACCESS, allows } from './exports.js';
import type { ExportName, Import } from './exports.js';
import { MOST_ROWS, MOST_WHOLE, ROW, Stopped } from './limits.js';
import type { Limits } from './limits.js';
import * as overlay from './overlay.js';
import { StoreFailure } from './store.js';
import type { Memories, Store } from './store.js';

/** Exact token counts of some texts for a model, or undefined where its tokenizer is not at hand. Must not estimate (R33). */
export type TokenCounter = (model: string, texts: string[]) => number[] | undefined;

/** Where lines for the log go. */
export type Log = (level: 'debug' | 'info' | 'warn' | 'error', line: string) => void;

/** The call that is going on. */
export interface Unit {
  export: ExportName;
  /** Read once, when it is first asked for. */
  now: bigint | undefined;
  hostCalls: number;
  logLines: number;
  bytesIn: number;
  bytesOut: number;
  /** `performance.now()` when it began. */
  began: number;
  audit: Entry[];
}

/** What the imports work with. */
export interface State {
  store: Store;
  /** Where memories are, if not in `store`. */
  memories: Memories | undefined;
  clock: () => bigint;
  countTokens: TokenCounter;
  log: Log;
  limits: Limits;
  unit: Unit;
}

export function newUnit(name: ExportName, bytesIn = 0): Unit {
  return {
    export: name,
    now: undefined,
    hostCalls: 0,
    logLines: 0,
    bytesIn,
    bytesOut: 0,
    began: performance.now(),
    audit: [],
  };
}

/** The time of this unit. */
export function now(state: State): bigint {
  return (state.unit.now ??= state.clock());
}

/** How many times as much time and as many imports an export may take: an erasure reads every snapshot of a memory. */
function patience(name: ExportName): number {
  return name === 'upkeep.forget' ? 60 : 1;
}

export function bytes(text: string | undefined): number {
  return text === undefined ? 0 : Buffer.byteLength(text);
}

function sum(texts: Iterable<string>): number {
  let total = 0;
  for (const text of texts) total += bytes(text);
  return total;
}

/** R4: a row whose names are longer than names are must not spoil the others: it counts as one that cannot be read. */
function isReadable(row: Memory): boolean {
  const LONGEST = 4_096;
  return [row.category, row.version, row.owner, row.project].every((name) => bytes(name) <= LONGEST);
}

const memoryBytes = (row: Memory | undefined) =>
  row ? ROW + (row.body === undefined ? 0 : row.bytes) + sum([row.category, row.version, row.id]) : 8;

const frozenBytes = (row: Frozen | undefined) =>
  row
    ? ROW +
      sum([row.snapshot.state, ...row.snapshot.memoryIds, ...row.pages.flatMap((page) => [page.text, page.state])])
    : 8;

const handOverBytes = (row: HandOver) => ROW + sum([row.task, row.state]);

const givenBytes = (row: Given) =>
  ROW + bytes(row.delivery.state) + bytes(row.delivery.notice) + (row.handOver ? handOverBytes(row.handOver) : 0);

const entryBytes = (entry: Entry) =>
  ROW +
  sum([entry.action, entry.outcome]) +
  [...entry.snapshotRefs, ...entry.memoryIds].reduce((total, text) => total + 24 + bytes(text), 0) +
  entry.attributes.reduce((total, [name, value]) => total + 48 + bytes(name) + bytes(value), 0);

/** What an import throws so that the component is told; anything else ends the call. */
interface Told {
  tag: StoreError['tag'];
  val: string;
}

export function makeImports(state: State): Imports {
  const tooLarge = (): Told => ({
    tag: 'too-large',
    val: `one call may read ${state.limits.bytesIn} bytes in all`,
  });

  /** One import is called: may this export do that, and is it not too often? */
  function enter(imported: Import): void {
    const { unit, limits } = state;
    if (imported === 'log') unit.logLines += 1;
    else unit.hostCalls += 1;
    if (!allows(unit.export, imported)) throw new Stopped('it called an import that this call may not use');
    const times = patience(unit.export);
    if (performance.now() - unit.began > limits.timeMs * times) {
      throw new Stopped('it ran longer than this host allows');
    }
    if (Math.max(unit.hostCalls, unit.logLines) > limits.hostCalls * times) {
      throw new Stopped('it called the host more often than this host allows');
    }
  }

  /** Run a store's function; its failures are what the component is told. */
  function ask<T>(imported: Import, run: () => T): T {
    enter(imported);
    try {
      return run();
    } catch (error) {
      if (error instanceof StoreFailure) throw { tag: error.kind, val: error.why } satisfies Told;
      throw error;
    }
  }

  /** Rows of these many bytes go to the component. */
  function handIn<T>(rows: T, size: number): T {
    if (state.unit.export === 'upkeep.forget') state.unit.bytesIn = 0;
    state.unit.bytesIn += size;
    if (state.unit.bytesIn > state.limits.bytesIn) throw tooLarge();
    return rows;
  }

  const handInAll = <T>(rows: T[], size: (row: T) => number): T[] =>
    handIn(
      rows,
      rows.reduce((total, row) => total + size(row), 0),
    );

  /** So many bytes of the component's are kept, or worked on. */
  function handOut(size: number): void {
    state.unit.bytesOut += size;
    if (state.unit.bytesOut > state.limits.bytesOut)
      throw new Stopped('it handed more to the host than this host takes');
  }

  const left = () => Math.max(0, state.limits.bytesIn - state.unit.bytesIn);

  /** So many rows are asked for by name: the store shall not read what could not be handed in. */
  function expect(rows: number): void {
    if (rows * ROW > left()) throw tooLarge();
  }

  function atMost(rows: number, most: number): void {
    if (rows > most) throw { tag: 'too-large', val: `${rows} rows: one import reads at most ${most}` } satisfies Told;
  }

  /** A body that is missing since the store was asked for fewer bytes than the component did is too large. */
  function complete(maxBytes: number, rows: (Memory | undefined)[]): void {
    const allowance = allowanceOf(maxBytes);
    if (rows.some((row) => row && allowance.admits(row.bytes) && row.body === undefined)) throw tooLarge();
  }

  const memories = () => state.memories ?? state.store;

  const warn = (line: string) => state.log('warn', line);

  const readable = (row: Memory) => {
    if (isReadable(row)) return true;
    state.log('warn', 'a memory is left out, since its category, version, owner or project is longer than names are');
    return false;
  };

  return {
    'agent-memory:prefetch/memories': {
      get: (ids, maxBytes) =>
        ask('read', () => {
          expect(ids.length);
          const most = Math.min(left(), maxBytes);
          const rows = memories()
            .memories(ids, most)
            .map((row) => (row && readable(row) ? row : undefined));
          if (most < maxBytes) complete(maxBytes, rows);
          return handInAll(rows, memoryBytes);
        }),
      search: (filter, query, limit, maxBytes) =>
        ask('read', () => {
          atMost(limit, MOST_ROWS);
          const most = Math.min(left(), maxBytes);
          const rows = memories().search(filter, query, limit, most).filter(readable);
          if (most < maxBytes) complete(maxBytes, rows);
          return handInAll(rows, memoryBytes);
        }),
      recordAccess: (ids, at) => ask('record-access', () => memories().recordAccess(ids, at)),
    },
    'agent-memory:prefetch/directory': {
      sessions: (keys) =>
        ask('read', () => {
          expect(keys.length);
          return overlay.sessions(state.store, state.memories, keys, warn);
        }),
      projects: (ids) =>
        ask('read', () => {
          expect(ids.length);
          return overlay.projects(state.store, state.memories, ids, warn);
        }),
      workspaceProjects: (workspace) =>
        ask('read', () =>
          handInAll(
            overlay.workspaceProjects(state.store, state.memories, workspace, warn),
            (row) => 64 + bytes(row.id),
          ),
        ),
      links: (agent, others) =>
        ask('read', () =>
          handInAll(state.store.links(agent, others), (row) => 64 + sum([row.fromAgent, row.toAgent, row.kind])),
        ),
    },
    'agent-memory:prefetch/snapshots': {
      insertSnapshot: (frozen) => ask('insert-snapshot', () => state.store.insertSnapshot(frozen)),
      get: (refs, pages) =>
        ask('read', () => {
          expect(refs.length);
          const rows: (Frozen | undefined)[] = [];
          // The same ref may stand there a thousand times.
          for (let first = 0; first < refs.length; first += MOST_WHOLE) {
            rows.push(...handInAll(state.store.snapshots(refs.slice(first, first + MOST_WHOLE), pages), frozenBytes));
          }
          return rows;
        }),
      revoke: (refs, at) => ask('revoke', () => state.store.revoke(refs, at)),
      overwrite: (frozen) => ask('overwrite', () => state.store.overwrite(frozen)),
      pinned: (ids, at) => ask('read', () => state.store.pinned(ids, at)),
      holding: (ids, limit) =>
        ask('read', () => {
          atMost(limit, MOST_WHOLE);
          return handInAll(state.store.holding(ids, limit), frozenBytes);
        }),
      expired: (at, limit) =>
        ask('read', () => {
          atMost(limit, MOST_ROWS);
          return handInAll(state.store.expired(at, limit), (row) => ROW + bytes(row.state));
        }),
      strip: (refs, keepUntil) => ask('remove', () => state.store.strip(refs, keepUntil)),
      remove: (refs) => ask('remove', () => state.store.remove(refs)),
      insertHandOver: (handOver) => ask('insert-hand-over', () => state.store.insertHandOver(handOver)),
      findHandOvers: (filter, limit) =>
        ask('read', () => {
          atMost(limit, MOST_ROWS);
          return handInAll(state.store.findHandOvers(filter, limit), (row) => handOverBytes(row.handOver));
        }),
      insertDelivery: (delivery) => ask('insert-delivery', () => state.store.insertDelivery(delivery)),
      deliveries: (child) => ask('read', () => handInAll(state.store.deliveries(child), givenBytes)),
      replay: (child, ref, page, at) =>
        ask('read', () => handInAll(state.store.replay(child, ref, page, at), (row) => 128 + bytes(row.text))),
      endDeliveries: (child, at) => ask('end-deliveries', () => state.store.endDeliveries(child, at)),
      removeUnattached: (at, limit) => ask('remove', () => state.store.removeUnattached(at, limit)),
    },
    'agent-memory:prefetch/environment': {
      now: () => {
        enter('environment');
        return now(state);
      },
      randomHex: (count) => {
        enter('environment');
        if (count > 64) throw new Stopped('it passed an argument that the contract does not allow');
        return randomBytes(count).toString('hex');
      },
      sha256: (texts) => {
        enter('environment');
        handOut(sum(texts));
        return texts.map((text) => createHash('sha256').update(text, 'utf8').digest('hex'));
      },
      countTokens: (model, texts) => {
        enter('environment');
        return state.countTokens(model, texts);
      },
      settings: (project, names) => {
        enter('settings');
        try {
          return state.store.settings(project, names);
        } catch (error) {
          // The contract's `settings` cannot fail; what holds where nothing is set is safe.
          state.log('warn', `settings could not be read: ${String(error)}`);
          return names.map(() => undefined);
        }
      },
      log: (level, line) => {
        enter('log');
        state.log(level, line);
      },
    },
    'agent-memory:prefetch/audit': {
      append: (entries) => {
        enter('audit');
        handOut(entries.reduce((total, entry) => total + entryBytes(entry), 0));
        state.unit.audit.push(...entries);
      },
    },
  };
}

/** Whether an export's unit writes. */
export function writes(name: ExportName): boolean {
  return ACCESS[name] === 'write' || ACCESS[name] === 'relaxed';
}
