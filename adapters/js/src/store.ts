// What a harness implements: the rows behind the policy. `Memories` is where the memories are; `Store` is that and
// everything that memory-prefetch itself keeps. Rows in, rows out: what each function must do is said in
// wit/memories.wit, wit/directory.wit and wit/snapshots.wit, and nothing here decides who may see what.

import type {
  Audience,
  Delivery,
  Entry,
  Frozen,
  Given,
  HandOver,
  Instant,
  Link,
  Memory,
  Offer,
  OfferFilter,
  Project,
  SearchFilter,
  Selection,
  Session,
  SessionKey,
  Snapshot,
  StoreError,
  StoredPage,
} from './contract.js';

/** Why a store could not do what it was asked; the kinds are those of the contract's `store-error`. */
export class StoreFailure extends Error {
  constructor(
    /** `busy` may be tried again, the whole unit of work; for `damaged` a person must look. */
    readonly kind: StoreError['tag'],
    /** For people. */
    readonly why: string,
  ) {
    super(`${WORDS[kind]}: ${why}`);
    this.name = 'StoreFailure';
  }
}

const WORDS: Record<StoreError['tag'], string> = {
  busy: 'the store is busy',
  absent: 'the store is not there',
  damaged: 'the store is damaged',
  'too-large': 'too large for this host',
  other: 'the store failed',
};

/**
 * What an exported call does with the store. `read`: a transaction that sees one state and changes nothing. `write`: one
 * that nobody else writes beside. `relaxed`: as `write`, but a power cut may undo it.
 */
export type Access = 'read' | 'write' | 'relaxed';

/** What a source of memories knows of a project: its workspace in the source's own words, or that it is in none. */
export interface Place {
  workspace: string | undefined;
}

/** Where memories are. Functions throw `StoreFailure`. */
export interface Memories {
  /** Start seeing one state, until `end`. Not called on a `Store`, whose own unit covers it. */
  begin?(): void;
  /** The unit of work is over. */
  end?(): void;
  /** `memories.get`: in the order asked. Bodies in order while their sum is at most `maxBytes`. Must not write. */
  memories(ids: string[], maxBytes: number): (Memory | undefined)[];
  /** `memories.search`: best first. Must not write. */
  search(filter: SearchFilter, query: string, limit: number, maxBytes: number): Memory[];
  /** `memories.record-access`. A source that is only read does nothing. */
  recordAccess(ids: string[], at: Instant): void;
  /** R17: delete these rows and all that is derived from them in the open unit, and say which were there. */
  erase(ids: string[]): string[];
  /** R10: where these projects stand, for a source that keeps workspaces itself; undefined where it does not know one. */
  places?(projects: string[]): (Place | undefined)[];
  /** The projects of a workspace that the source keeps itself, in a fixed order. */
  members?(workspace: string): string[];
  /** Let go of files. */
  close?(): void;
}

/** One audit entry with what only the host can say. */
export interface AuditRow {
  at: Instant;
  /** The calling session; undefined: the operator. */
  session: SessionKey | undefined;
  /** The exported function, `orchestrator.delegate` for instance. */
  export: string;
  /** SHA-256 of the component that decided, in hex. */
  component: string;
  /** Whether the unit of work that it is about was undone. */
  rolledBack: boolean;
  entry: Entry;
}

/** Everything that the component's imports are answered from. Functions throw `StoreFailure`. */
export interface Store extends Memories {
  /** Open a unit of work. `busy` after the store's own waiting time. */
  beginUnit(access: Access): void;
  /** Keep what the unit wrote. After an error nothing is kept and no unit is open. */
  commit(): void;
  /** Undo what the unit wrote. Never throws. */
  rollBack(): void;

  sessions(keys: SessionKey[]): (Session | undefined)[];
  projects(ids: string[]): (Project | undefined)[];
  workspaceProjects(workspace: string): Project[];
  links(agent: string, others: string[]): Link[];

  insertSnapshot(frozen: Frozen): void;
  snapshots(refs: string[], pages: Selection): (Frozen | undefined)[];
  revoke(refs: string[], at: Instant): void;
  overwrite(frozen: Frozen[]): void;
  pinned(memoryIds: string[], at: Instant): string[];
  holding(memoryIds: string[], limit: number): Frozen[];
  expired(at: Instant, limit: number): Snapshot[];
  strip(refs: string[], keepUntil: Instant): void;
  remove(refs: string[]): void;
  insertHandOver(handOver: HandOver): boolean;
  findHandOvers(filter: OfferFilter, limit: number): Offer[];
  insertDelivery(delivery: Delivery): boolean;
  deliveries(child: SessionKey): Given[];
  replay(child: SessionKey, snapshotRef: string | undefined, page: number, at: Instant): StoredPage[];
  endDeliveries(child: SessionKey, at: Instant): void;
  removeUnattached(at: Instant, limit: number): number;

  /** `environment.settings`: with a project, its own value goes before the general one. */
  settings(project: string | undefined, names: string[]): (string | undefined)[];

  /** Keep these entries: inside the open unit, or in a transaction of their own if none is open. */
  appendAudit(rows: AuditRow[]): void;

  close(): void;
}

/** A memory as it is added. */
export interface NewMemory {
  /** undefined: the store gives one out that it has never given out before (R2). */
  id?: string | undefined;
  owner?: string | undefined;
  project?: string | undefined;
  audience: Audience;
  category: string;
  priority: number;
  trusted: boolean;
  expiresAt?: Instant | undefined;
  body: string;
}

/** What to change of a memory; a field that is not there is left. `expiresAt: null`: it never expires. */
export interface MemoryEdit {
  body?: string;
  category?: string;
  audience?: Audience;
  priority?: number;
  trusted?: boolean;
  expiresAt?: Instant | null;
}

/** A session as it is registered. */
export interface NewSession {
  key: SessionKey;
  agent: string | undefined;
  project: string | undefined;
  parent: SessionKey | undefined;
  memoryOn: boolean;
}

/**
 * What only the user, or the harness acting for the user, may change. Never reached by a component. Each call is a
 * transaction of its own; `false` from a change: there is no such row.
 */
export interface Operator {
  addAgent(agent: string): boolean;
  putProject(project: Project): void;
  removeProject(id: string): boolean;
  putSession(session: NewSession): void;
  /** R24. `false`: there is no such session. `other` if `alias` is a session of its own. */
  addAlias(alias: SessionKey, canonical: SessionKey): boolean;
  removeSession(key: SessionKey): boolean;
  addLink(link: Link): void;
  removeLinks(fromAgent: string, toAgent: string): number;
  /** Answers its id. `other` if the id is taken, or was before. */
  addMemory(memory: NewMemory, at: Instant): string;
  editMemory(id: string, edit: MemoryEdit, at: Instant): boolean;
  archiveMemory(id: string, archived: boolean): boolean;
  /** `undefined` unsets it. */
  putSetting(project: string | undefined, name: string, value: string | undefined): void;
  /** The latest audit entries, youngest first. */
  allAudit(limit: number): AuditRow[];
}
