// Looks at the user's store and at the memories of another program without changing either: nothing is created,
// migrated or recovered, and no file is left beside them.

import { accessSync, constants, copyFileSync, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { migrations } from '../../generated/sql.js';
import type { Settings } from '../config.js';
import { MagicContext } from '../sources/magic_context.js';
import { choose, connect } from '../sqlite/driver.js';
import type { Connection } from '../sqlite/driver.js';
import { setBusyTimeout } from '../sqlite/open.js';
import { StoreFailure } from '../store.js';
import { Wrong } from './finding.js';
import type { Report } from './finding.js';

/** 'memp', in the header of every store. */
const APPLICATION_ID = 0x6d65_6d70n;

/** Above this, in bytes, its pages are not all looked at: that would take seconds. */
const LARGE = 500_000_000;

/** How to add memories. The program does not read the adapters' configuration. */
function adding({ store, isDefaultStore }: Settings): string {
  const isNamed = isDefaultStore || process.env['MEMORY_PREFETCH_STORE'] !== undefined;
  const program = isNamed ? 'memory-prefetch' : `memory-prefetch --store ${JSON.stringify(`sqlite:${store}`)}`;
  return `add memories with \`${program} memory add …\`; \`memory-prefetch memory add --help\` shows how`;
}

/** `project`: its name, if it has one. */
export function checkStore(settings: Settings, project: string | undefined, say: Report): void {
  const { store: file } = settings;
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined || found.size === 0) {
    const directory = dirname(file);
    if (!settings.isDefaultStore && !existsSync(directory)) {
      throw new Wrong(`the store cannot be made: there is no directory ${directory}`, `make it: mkdir -p ${directory}`);
    }
    const hint = settings.memories ? undefined : adding(settings);
    say({ state: 'note', what: `there is no store yet; the first delegation makes ${file}`, hint });
    return;
  }
  if (!found.isFile()) throw new Wrong(`the store ${file} is not a file`, 'name a file in `store`, or move this away');
  if (!isWritable(file)) {
    throw new Wrong(`the store ${file} may only be read by you`, `a delegation is written there: chmod u+w ${file}`);
  }
  onCopyAtRest(file, (path) => {
    const connection = connect(choose(undefined), path, path === file);
    try {
      setBusyTimeout(connection, settings.busyTimeoutMs);
      look(connection, file, found.size);
      report(connection, settings, project, say);
    } catch (error) {
      throw explained(error, file);
    } finally {
      connection.close();
    }
  });
}

/** Whether it is a store, whole, and one that this program may use. */
function look(connection: Connection, file: string, size: number): void {
  const [[application] = []] = connection.once('PRAGMA application_id');
  if (application !== APPLICATION_ID) {
    throw new Wrong(`${file} belongs to another program`, 'name another file in `store` of your configuration');
  }
  if (size <= LARGE) {
    const [[verdict] = []] = connection.once('PRAGMA quick_check(1)');
    if (verdict !== 'ok') throw new StoreFailure('damaged', String(verdict));
  }
  const [[schema = 0n, reader = 0n, writer = 0n] = []] = connection.once(
    'SELECT schema, oldest_reader, oldest_writer FROM store',
  );
  const known = BigInt(migrations.length);
  if (known < BigInt(reader as bigint) || known < BigInt(writer as bigint)) {
    throw new Wrong(
      `a newer memory-prefetch has changed the store ${file} (schema ${schema}; this one knows ${known})`,
      'update this package: `git pull` in your clone, and build it again',
    );
  }
}

function report(connection: Connection, settings: Settings, project: string | undefined, say: Report): void {
  const count = (where: string) =>
    Number(connection.all(`SELECT count(*) FROM memories WHERE active AND ${where}`, { project })[0]?.[0] ?? 0);
  const all = count(':project IS :project');
  const here = project === undefined ? 0 : count('project = :project');
  const counted = settings.memories ? '' : `: ${all} ${all === 1 ? 'memory' : 'memories'}, ${here} in this project`;
  say({ state: 'ok', what: `store ${settings.store}${counted}` });
  if (!settings.memories && all === 0) {
    say({ state: 'note', what: 'there are no memories to hand over yet', hint: adding(settings) });
  }
  const [[on, trusted] = []] = connection.all('SELECT memory_on, trusted FROM projects WHERE project = :project', {
    project,
  });
  if (trusted === 0n) {
    say({
      state: 'note',
      what: 'this project is not trusted: none of its memories is handed over',
      hint: `\`memory-prefetch project set ${project} --trust trusted\` changes that`,
    });
  }
  if (on === 0n) {
    say({
      state: 'note',
      what: 'memory is off for this project: agents are given nothing here, and told nothing',
      hint: `\`memory-prefetch project set ${project} --memory on\` switches it on`,
    });
  }
}

function explained(error: unknown, file: string): unknown {
  if (!(error instanceof StoreFailure)) return error;
  const hints: Partial<Record<StoreFailure['kind'], string>> = {
    damaged: 'it was left as it is. Take the file from a backup, or move it away: then a new one is made',
    busy: 'another process has it locked: try again, and see who has the file open if it stays so',
  };
  const what = error.kind === 'damaged' ? 'is damaged' : 'cannot be read';
  return new Wrong(`the store ${file} ${what}: ${error.why}`, hints[error.kind]);
}

/** Another program's memories, if the user has named some. */
export function checkSource({ memories, memoriesTrusted, busyTimeoutMs }: Settings, say: Report): void {
  if (!memories) return;
  const { kind, path } = memories;
  // better-sqlite3 leaves a log beside a file that it only reads; the others do not.
  const read = choose(undefined) === 'better' && existsSync(path) ? onCopyAtRest : inPlace;
  try {
    read(path, (copy) => MagicContext.open(copy, { busyTimeoutMs }).close());
  } catch (error) {
    if (!(error instanceof StoreFailure)) throw error;
    throw new Wrong(
      `the memories of ${kind} cannot be read: ${error.message}`,
      error.kind === 'busy' ? 'try again' : 'see `memories` in your configuration: is the path right?',
    );
  }
  if (memoriesTrusted) {
    say({ state: 'ok', what: `memories of ${kind} in ${path}` });
  } else {
    say({
      state: 'note',
      what: `memories of ${kind} in ${path}: you do not trust them, so none is handed over`,
      hint: 'take `memoriesTrust` out of your configuration if you do',
    });
  }
}

/**
 * Reading a file in WAL mode makes files beside it, so one that nobody has open is copied first. One that is open has
 * them already.
 */
function onCopyAtRest(file: string, read: (path: string) => void): void {
  if (existsSync(`${file}-shm`)) return read(file);
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-doctor-'));
  try {
    const copy = join(directory, basename(file));
    copyFileSync(file, copy, constants.COPYFILE_FICLONE);
    for (const more of ['-wal', '-journal']) if (existsSync(file + more)) copyFileSync(file + more, copy + more);
    read(copy);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function inPlace(file: string, read: (path: string) => void): void {
  read(file);
}

function isWritable(file: string): boolean {
  try {
    accessSync(file, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
