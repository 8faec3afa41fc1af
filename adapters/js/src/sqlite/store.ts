// `SqliteStore`: everything in one SQLite file, the same as the Rust host's. Here are opening it, the operator's
// changes, each a transaction of its own, and what the conformance runner and the adapters need besides.

import { resolve } from 'node:path';
import type { Audience, Instant, Link, Project, SessionKey } from '../contract.js';
import {
  type AuditRow,
  type MemoryEdit,
  type NewMemory,
  type NewSession,
  type Operator,
  StoreFailure,
} from '../store.js';
import { type DriverName, choose } from './driver.js';
import { type Opened, open, openConnection, openInMemory } from './open.js';
import * as rows from './rows.js';
import { Storage } from './storage.js';

export type { DriverName } from './driver.js';

/** How to open a file. */
export interface SqliteOptions {
  /** How long to wait for another process before answering `busy`; five seconds if it is not said. */
  busyTimeoutMs?: number | undefined;
  /** Whether to make the file if it is not there; yes if it is not said. Its directory must be. */
  create?: boolean | undefined;
  /** Which SQLite; the runtime's own if it is not said. All connections to a file in one process must have the same. */
  driver?: DriverName | undefined;
}

/** What a session is, as a harness says it. */
export interface DirectoryEntry {
  agent: string;
  /** undefined: none that could be named. */
  project: string | undefined;
  session: SessionKey;
  parent?: SessionKey | undefined;
  /** `false` switches the session's memory off; `true` leaves a session as the user has set it. */
  memoryOn: boolean;
}

/**
 * Memories, directory, snapshots, settings and audit in one SQLite file, which several processes may use at once. In
 * one process it should be open in one thread only: where the system does not say which files are open, closing it in
 * a second one drops the first one's locks.
 *
 * Storage functions that write throw `other` outside a unit of work that writes. Instants beyond `i64` are `too-large`.
 * A key or an id with a NUL in it is no row's.
 */
export class SqliteStore extends Storage implements Operator {
  /** undefined: in memory. */
  #path: string | undefined;
  #driver: DriverName;

  private constructor(path: string | undefined, driver: DriverName, busyTimeoutMs: number, create: boolean) {
    super(path === undefined ? openInMemory(driver) : open(path, { busyTimeoutMs, create, driver }), busyTimeoutMs);
    this.#path = path;
    this.#driver = driver;
  }

  /**
   * Open the store at `path`.
   *
   * `absent`: there is no such file, and `create` is not set; or it cannot be opened. `damaged`: it is not SQLite,
   * was cut off, or belongs to another application. `busy`: locked for longer than the busy timeout. `other`: it may
   * only be read, or a newer program has changed it in a way that this one does not know, or there is no SQLite here.
   * The file is left as it is in all these cases.
   */
  static open(path: string, options: SqliteOptions = {}): SqliteStore {
    const { busyTimeoutMs = 5_000, create = true, driver } = options;
    return new SqliteStore(resolve(path), choose(driver), busyTimeoutMs, create);
  }

  /** A store that is lost when it is closed. */
  static inMemory(driver?: DriverName): SqliteStore {
    return new SqliteStore(undefined, choose(driver), 0, true);
  }

  addAgent(agent: string): boolean {
    return this.unitOf('write', () => this.change('operator_add_agent', { agent }) > 0);
  }

  putProject(project: Project): void {
    this.unitOf('write', () => this.#putProject(project));
  }

  removeProject(id: string): boolean {
    return this.unitOf('write', () => this.change('operator_remove_project', { project: id }) > 0);
  }

  putSession(session: NewSession): void {
    const put = this.unitOf('write', () => this.#putSession(session));
    if (put === 0) throw new StoreFailure('other', 'this key is an alias of another session');
  }

  addAlias(alias: SessionKey, canonical: SessionKey): boolean {
    const named = { alias_harness: alias.harness, alias_session: alias.id };
    return this.unitOf('write', () => {
      const asked = { ...named, harness: canonical.harness, session: canonical.id };
      const state = this.read('operator_alias_state', asked, (row) => ({
        found: rows.sessionKeyIf(row, 0),
        isSession: rows.truth(row, 2),
        old: rows.sessionKeyIf(row, 3),
      })).pop();
      if (state?.found === undefined) return false;
      const { found, isSession, old } = state;
      if (isSession) throw new StoreFailure('other', 'this key is a session of its own already');
      if (isSame(old, found)) return true;
      if (old !== undefined) throw new StoreFailure('other', 'this key is an alias of another session');
      this.change('operator_add_alias', { ...named, harness: found.harness, session: found.id });
      return true;
    });
  }

  removeSession(key: SessionKey): boolean {
    const params = { harness: key.harness, session: key.id };
    return this.unitOf('write', () => this.change('operator_remove_session', params) > 0);
  }

  addLink(link: Link): void {
    const params = {
      from_agent: link.fromAgent,
      to_agent: link.toAgent,
      two_way: link.direction === 'two-way',
      kind: link.kind,
      attributes: rows.json(link.attributes),
    };
    this.unitOf('write', () => this.change('operator_add_link', params));
  }

  removeLinks(fromAgent: string, toAgent: string): number {
    const params = { from_agent: fromAgent, to_agent: toAgent };
    return this.unitOf('write', () => this.change('operator_remove_links', params));
  }

  addMemory(memory: NewMemory, at: Instant): string {
    const times = { at: rows.instant(at), expires_at: instantIf(memory.expiresAt) };
    return this.unitOf('write', () => {
      const id = memory.id ?? this.read('operator_free_memory_id', {}, (row) => rows.text(row, 0)).pop();
      if (id === undefined) throw new StoreFailure('damaged', 'no free id');
      const added = this.change('operator_add_memory', {
        ...times,
        memory_id: id,
        owner: memory.owner,
        project: memory.project,
        audience: memory.audience,
        category: memory.category,
        priority: memory.priority,
        trusted: memory.trusted,
        body: memory.body,
      });
      if (added === 0) throw new StoreFailure('other', `the id ${JSON.stringify(id)} is a memory's, or was one's`);
      return id;
    });
  }

  editMemory(id: string, edit: MemoryEdit, at: Instant): boolean {
    const params = {
      memory_id: id,
      body: edit.body,
      category: edit.category,
      audience: edit.audience satisfies Audience | undefined,
      priority: edit.priority,
      trusted: edit.trusted,
      set_expires_at: edit.expiresAt !== undefined,
      expires_at: instantIf(edit.expiresAt ?? undefined),
      at: rows.instant(at),
    };
    return this.unitOf('write', () => {
      if (edit.body !== undefined) this.erasing();
      return this.change('operator_edit_memory', params) > 0;
    });
  }

  archiveMemory(id: string, archived: boolean): boolean {
    const params = { memory_id: id, active: !archived };
    return this.unitOf('write', () => this.change('operator_archive_memory', params) > 0);
  }

  putSetting(project: string | undefined, name: string, value: string | undefined): void {
    this.unitOf('write', () => {
      this.change('operator_unset_setting', { project, name });
      if (value !== undefined) this.change('operator_set_setting', { project, name, value });
    });
  }

  allAudit(limit: number): AuditRow[] {
    const params = { harness: undefined, session: undefined, since: undefined, limit };
    return this.unitOf('read', () => this.read('operator_all_audit', params, rows.audit));
  }

  /**
   * For adapters: this session, with its agent and its project. What is there is left: a project's memory, trust and
   * workspace are the user's, and a key that is another session's alias stays one. Writes nothing if nothing is
   * missing, and never waits for the disk: it is said again when the session goes on.
   */
  ensureDirectory(entry: DirectoryEntry): void {
    if (this.unitOf('read', () => this.#isThere(entry))) return;
    const { agent, project, session: key, parent, memoryOn } = entry;
    this.unitOf('relaxed', () => {
      // Another process may have been faster.
      if (this.#isThere(entry)) return;
      this.change('operator_add_agent', { agent });
      if (project !== undefined && this.projects([project])[0] === undefined) {
        this.#putProject({ id: project, workspace: undefined, memoryOn: true, trusted: true, attributes: [] });
      }
      const wasOn = this.sessions([key])[0]?.memoryOn ?? true;
      this.#putSession({ key, agent, project, parent, memoryOn: memoryOn && wasOn });
    });
  }

  /** The same file, as a new process would open it. */
  reopen(): this {
    if (this.#path === undefined) return this;
    this.close();
    this.renew();
    return this;
  }

  protected override openAnew(): Opened | undefined {
    const { busyTimeoutMs } = this;
    return this.#path === undefined
      ? undefined
      : open(this.#path, { busyTimeoutMs, create: false, driver: this.#driver });
  }

  /** For conformance: every column of a memory, by the names that the scenarios use. */
  memoryRow(id: string): Record<string, unknown> | undefined {
    const row = this.opened.connection.all(MEMORY_ROW, { id })[0];
    return row && (JSON.parse(rows.text(row, 0)) as Record<string, unknown>);
  }

  /** For conformance: change a stored page behind its checksum's back. */
  damagePage(snapshotRef: string, number: number): boolean {
    return this.opened.connection.run(DAMAGE_PAGE, { snapshot_ref: snapshotRef, number }) === 1;
  }

  /** For conformance: another connection's long write, until the answer's `release` is called. */
  lock(): { release(): void } {
    if (this.#path === undefined) throw new StoreFailure('other', 'nobody else can write to a store in memory');
    const other = openConnection(this.#path, this.#driver);
    try {
      other.connection.exec('BEGIN IMMEDIATE');
    } catch (error) {
      other.close();
      throw error;
    }
    return { release: () => other.close() };
  }

  #putProject(project: Project): void {
    this.change('operator_put_project', {
      project: project.id,
      workspace: project.workspace,
      memory_on: project.memoryOn,
      trusted: project.trusted,
      attributes: rows.json(project.attributes),
    });
  }

  /** Answers 0 if the key is an alias. */
  #putSession({ key, agent, project, parent, memoryOn }: NewSession): number {
    return this.change('operator_put_session', {
      harness: key.harness,
      session: key.id,
      agent,
      project,
      parent_harness: parent?.harness,
      parent_session: parent?.id,
      memory_on: memoryOn,
    });
  }

  /** Whether nothing of this is missing or different. */
  #isThere({ agent, project, session: key, parent, memoryOn }: DirectoryEntry): boolean {
    const agents = this.read('operator_agents', {}, (row) => rows.text(row, 0));
    if (!agents.includes(agent) || (project !== undefined && this.projects([project])[0] === undefined)) return false;
    const [found, parentFound] = this.sessions(parent === undefined ? [key] : [key, parent]);
    if (found === undefined) return false;
    if (!isSame(found.key, key)) return true;
    return (
      found.agent === agent &&
      found.project?.id === project &&
      (memoryOn || !found.memoryOn) &&
      isSame(found.parent, parentFound?.key ?? parent)
    );
  }
}

const MEMORY_ROW = `SELECT json_object('id', id, 'active', active, 'trusted', trusted, 'priority', priority,
  'version', version, 'created-at', created_at, 'updated-at', updated_at, 'expires-at', expires_at, 'uses', uses,
  'used-at', used_at, 'memory-id', memory_id, 'audience', audience, 'owner', owner, 'project', project,
  'category', category, 'attributes', attributes, 'body', body) FROM memories WHERE memory_id = :id`;

const DAMAGE_PAGE = `UPDATE pages SET text = text || '.' WHERE number = :number
  AND snapshot = (SELECT id FROM snapshots WHERE snapshot_ref = :snapshot_ref)`;

function isSame(one: SessionKey | undefined, other: SessionKey | undefined): boolean {
  return one?.harness === other?.harness && one?.id === other?.id;
}

function instantIf(at: Instant | undefined): bigint | undefined {
  return at === undefined ? undefined : rows.instant(at);
}
