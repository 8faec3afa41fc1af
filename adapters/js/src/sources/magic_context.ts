// The database of magic-context: `context.db`, which several of its programs share and migrate while we read it. Only
// `memories`, `workspaces`, `workspace_members` and `schema_migrations` are touched, and only columns that are there: its
// triggers, indexes and views may need functions that only its own programs have.
//
// A memory is owned by `project:` and its project. Its audience is the project; or the workspace, if it is marked as
// shareable and of a category that its project's workspace shares.

import { resolve } from 'node:path';
import { allowanceOf } from '../allowance.js';
import type { Memory, SearchFilter } from '../contract.js';
import { choose } from '../sqlite/driver.js';
import type { Connection, Value } from '../sqlite/driver.js';
import { StoreFailure } from '../store.js';
import type { Memories, Place } from '../store.js';
import { ReadOnly } from './read_only.js';
import type { SchemaVersion } from './read_only.js';
import { Hits, checkEncoding, column, columns, integer, lacks, name, text, withBody } from './source.js';
import type { Bare, SourceOptions } from './source.js';

/** The newest schema that this was tried with. A newer one is read all the same, if it has the columns. */
const KNOWN = 100;

/** What a workspace of this source is called by us: this and its id. */
const WORKSPACE = 'magic-context:';

/** Rows that a search looks through at a time. */
const BATCH = 200;

/** What the file has, as long as its schema stays this one. */
interface Schema {
  version: SchemaVersion;
  /** What is read of `memories`: expressions, in the order that {@link read} takes them. */
  memory: string;
  /** What is read of `workspaces`, if it and its members are there. */
  workspaces: string | undefined;
}

interface Workspaces {
  /** The one that each project counts as in: the lowest id. */
  ofProject: Map<string, WorkspaceId>;
  /** The categories that each shares, by the text of its id. */
  shared: Map<string, ReadonlySet<string>>;
}

/** Ordered by number; one that is not written as a number comes last. */
interface WorkspaceId {
  number: bigint;
  text: string;
}

/**
 * The memories of magic-context, read only.
 *
 * Ids are its own, in decimal. Its workspaces stand for those of the directory (R10).
 */
export class MagicContext implements Memories {
  readonly #file: ReadOnly;
  readonly #trusted: boolean;
  readonly #warn: (line: string) => void;
  /** Whether a unit of work is open. */
  #unit = false;
  /** Whether it has read something. */
  #begun = false;
  #schema: Schema | undefined;
  /** As the open unit of work sees them, once it has asked. */
  #workspaces: Workspaces | undefined;
  #warned = false;

  private constructor(path: string, options: SourceOptions) {
    this.#file = new ReadOnly(path, choose(options.driver), options.busyTimeoutMs ?? 5_000);
    this.#trusted = options.trusted ?? true;
    this.#warn = options.warn ?? (() => {});
  }

  /**
   * Open the database at `path`. Throws `StoreFailure`.
   *
   * `absent`: it is not there, or cannot be opened. `damaged`: it is not SQLite, or lacks `memories` or a column that
   * nothing can be read without. `busy`: locked for longer than the busy timeout.
   */
  static open(path: string, options: SourceOptions = {}): MagicContext {
    const source = new MagicContext(resolve(path), options);
    try {
      source.begin();
      source.#start();
      source.end();
    } catch (error) {
      source.close();
      throw error;
    }
    return source;
  }

  begin(): void {
    this.end();
    this.#unit = true;
  }

  end(): void {
    this.#file.end();
    this.#unit = false;
    this.#begun = false;
    this.#workspaces = undefined;
  }

  close(): void {
    this.end();
    this.#file.close();
  }

  memories(ids: string[], maxBytes: number): (Memory | undefined)[] {
    const allowance = allowanceOf(maxBytes);
    return this.#read((connection, schema, workspaces) => {
      const sql = `SELECT ${schema.memory} FROM memories WHERE id = :id`;
      return ids.map((id) => {
        const rowid = rowidOf(id);
        const row = rowid === undefined ? undefined : connection.all(sql, { id: rowid })[0];
        const found = row && read(row, this.#trusted, workspaces);
        return found && withBody(found.memory, found.body, allowance);
      });
    });
  }

  search(filter: SearchFilter, query: string, limit: number, maxBytes: number): Memory[] {
    const best = this.#read((connection, schema, workspaces) => {
      // A column's own collation may call two projects equal, and an index is of no use for going through by row.
      const sql = `SELECT ${schema.memory}, CAST(_rowid_ AS TEXT) FROM memories
        WHERE _rowid_ > :after AND (+project_path) COLLATE BINARY IN (SELECT value FROM json_each(:projects))
        ORDER BY _rowid_ LIMIT ${BATCH}`;
      const projects = JSON.stringify(filter.projects);
      const hits = new Hits(filter, query);
      let after = -(2n ** 63n);
      for (;;) {
        const rows = connection.all(sql, { after, projects });
        for (const row of rows) {
          const found = read(row, this.#trusted, workspaces);
          if (found) hits.consider(found.memory, found.body);
        }
        const last = rows.length < BATCH ? undefined : integer(rows.at(-1)?.at(-1));
        if (last === undefined) return hits.best(limit);
        after = last;
      }
    });
    return this.memories(best, maxBytes).filter((row) => row !== undefined);
  }

  recordAccess(): void {}

  erase(): string[] {
    return [];
  }

  places(projects: string[]): (Place | undefined)[] {
    return this.#read((connection, _, workspaces) =>
      projects.map((project) => {
        const workspace = workspaces.ofProject.get(project);
        if (workspace) return { workspace: WORKSPACE + workspace.text };
        const remembers = 'SELECT 1 FROM memories WHERE project_path = :project COLLATE BINARY LIMIT 1';
        return connection.all(remembers, { project }).length > 0 ? { workspace: undefined } : undefined;
      }),
    );
  }

  members(workspace: string): string[] {
    return this.#read((_connection, _schema, { ofProject }) => {
      const inside = [...ofProject].filter(([, id]) => WORKSPACE + id.text === workspace);
      return inside.map(([project]) => project).sort();
    });
  }

  /**
   * The unit's first read fixes what it sees. One that reads nothing does not need the file: what was frozen can be had
   * while its program has it locked, or when it is gone.
   */
  #start(): void {
    if (!this.#unit) throw new StoreFailure('other', 'no unit of work is open');
    if (this.#begun) return;
    const version = this.#file.begin();
    // Its own program may have migrated it since.
    if (this.#schema?.version !== version) {
      this.#schema = undefined;
      try {
        this.#schema = this.#findSchema(version);
      } catch (error) {
        this.#file.end();
        throw error;
      }
    }
    this.#begun = true;
  }

  #findSchema(version: SchemaVersion): Schema {
    const { path } = this.#file;
    return this.#file.read((connection) => {
      checkEncoding(connection, path);
      const there = columns(connection, 'memories');
      if (there === undefined) throw lacks(path, 'table memories');
      for (const needed of ['id', 'project_path', 'content', 'status']) {
        if (!there.includes(needed)) throw lacks(path, `column memories.${needed}`);
      }
      const memory = COLUMNS.map((name) => column(there, name)).join(', ');
      const schema = { version, memory, workspaces: findWorkspaces(connection) };
      const newest = newestOf(connection);
      if (newest > KNOWN && !this.#warned) {
        this.#warned = true;
        this.#warn(
          `${path} has schema ${newest}, newer than ${KNOWN}, the newest that is known here; it is read all the same, ` +
            'since the columns that are needed are there',
        );
      }
      return schema;
    });
  }

  /** Read with what the schema has, and the workspaces. */
  #read<T>(read: (connection: Connection, schema: Schema, workspaces: Workspaces) => T): T {
    this.#start();
    return this.#file.read((connection) => {
      const schema = this.#schema;
      if (schema === undefined) throw new StoreFailure('other', 'no unit of work is open');
      this.#workspaces ??= readWorkspaces(connection, schema);
      return read(connection, schema, this.#workspaces);
    });
  }
}

/** What is read of `workspaces`, if it and its members can be read. */
function findWorkspaces(connection: Connection): string | undefined {
  const workspaces = columns(connection, 'workspaces') ?? [];
  const members = columns(connection, 'workspace_members') ?? [];
  if (!workspaces.includes('id') || !members.includes('workspace_id') || !members.includes('project_path')) {
    return undefined;
  }
  return `${column(workspaces, 'id')}, ${column(workspaces, 'share_categories')}`;
}

function readWorkspaces(connection: Connection, schema: Schema): Workspaces {
  const found: Workspaces = { ofProject: new Map(), shared: new Map() };
  if (schema.workspaces === undefined) return found;
  for (const [id, categories] of connection.all(`SELECT ${schema.workspaces} FROM workspaces`)) {
    const workspace = workspaceId(id);
    if (workspace) found.shared.set(workspace.text, sharedOf(text(categories)));
  }
  const members = ['workspace_id', 'project_path'];
  const read = members.map((name) => column(members, name)).join(', ');
  for (const [id, path] of connection.all(`SELECT ${read} FROM workspace_members`)) {
    const workspace = workspaceId(id);
    const project = name(path);
    // A member of no workspace that is there is in none.
    if (!workspace || project === undefined || !found.shared.has(workspace.text)) continue;
    const other = found.ofProject.get(project);
    if (other === undefined || isBefore(workspace, other)) found.ofProject.set(project, workspace);
  }
  return found;
}

/** What is not a list of texts shares nothing. */
function sharedOf(json: string | undefined): ReadonlySet<string> {
  try {
    const list: unknown = JSON.parse(json ?? '[]');
    if (Array.isArray(list) && list.every((category) => typeof category === 'string')) return new Set(list);
  } catch {
    // Not JSON.
  }
  return new Set();
}

const LAST = 2n ** 63n - 1n;

function workspaceId(value: Value | undefined): WorkspaceId | undefined {
  const id = integer(value)?.toString() ?? name(value);
  if (id === undefined) return undefined;
  const number = /^[+-]?\d+$/.test(id) ? BigInt(id.replace(/^\+/, '')) : LAST;
  return { number: number > LAST || number < -LAST - 1n ? LAST : number, text: id };
}

function isBefore(a: WorkspaceId, b: WorkspaceId): boolean {
  return a.number === b.number ? a.text < b.text : a.number < b.number;
}

/** The newest migration that it says it has had. */
function newestOf(connection: Connection): number {
  const [[version] = []] = connection.once('PRAGMA user_version');
  const migrations = columns(connection, 'schema_migrations') ?? [];
  if (!migrations.includes('version')) return Number(version);
  const [[newest] = []] = connection.all(`SELECT ${column(['newest'], 'newest')}
    FROM (SELECT max(version) AS newest FROM schema_migrations)`);
  return Math.max(Number(version), Number(integer(newest) ?? 0n));
}

/** What is read of `memories`, in the order of {@link read}. */
const COLUMNS = [
  'id',
  'project_path',
  'category',
  'importance',
  'scope',
  'shareable',
  'status',
  'superseded_by_memory_id',
  'expires_at',
  'updated_at',
  'content',
];

/** The row and its text; undefined for one that cannot be read. */
function read(row: Value[], trusted: boolean, workspaces: Workspaces): { memory: Bare; body: string } | undefined {
  const [rowid, path, kind, importance, scope, shareable, status, superseded, expiry, updated, content] = row;
  const id = integer(rowid);
  const expiresAt = instant(expiry);
  const body = text(content);
  if (id === undefined || (expiry !== null && expiresAt === undefined) || body === undefined) return undefined;
  const project = name(path);
  const category = text(kind) ?? '';
  const isShared =
    integer(shareable) === 1n &&
    ['project', 'ecosystem', 'universe'].includes(text(scope) ?? '') &&
    project !== undefined &&
    shares(workspaces, project, category);
  const priority = integer(importance) ?? 0n;
  const memory: Bare = {
    id: id.toString(),
    owner: project === undefined ? undefined : `project:${project}`,
    project,
    audience: isShared ? 'workspace' : 'project',
    active: ['active', 'permanent'].includes(text(status) ?? '') && superseded === null,
    expiresAt,
    trusted,
    category,
    priority: priority < 0n ? 0 : priority > 0xffff_ffffn ? 0xffff_ffff : Number(priority),
    updatedAt: instant(updated),
    attributes: [],
  };
  return { memory, body };
}

function shares(workspaces: Workspaces, project: string, category: string): boolean {
  const workspace = workspaces.ofProject.get(project);
  return workspace !== undefined && Boolean(workspaces.shared.get(workspace.text)?.has(category));
}

function instant(value: Value | undefined): bigint | undefined {
  const at = integer(value);
  return at !== undefined && at >= 0n ? at : undefined;
}

/** The rowid that is written like this; undefined if it is none's decimal text (R2). */
function rowidOf(id: string): bigint | undefined {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(id)) return undefined;
  const rowid = BigInt(id);
  return rowid <= LAST && rowid >= -LAST - 1n ? rowid : undefined;
}
