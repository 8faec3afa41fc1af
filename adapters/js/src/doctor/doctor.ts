// `memory-prefetch-js doctor`, without the harnesses: looks at everything that a delivery needs, in the order in which
// it is needed, and makes a delivery of its own. Nothing of the user's is changed.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digest } from '../component.js';
import { PROJECT_FILE, configFile, projectMemory, readSettings } from '../config.js';
import type { Settings } from '../config.js';
import { openService } from '../open.js';
import { projectIdentity } from '../project_identity.js';
import type { Caller } from '../service.js';
import { choose, connect } from '../sqlite/driver.js';
import { Wrong, attempt } from './finding.js';
import type { Report } from './finding.js';
import { plant } from './plant.js';
import { checkSource, checkStore } from './stores.js';

/** What the general checks found out, for what comes after them. */
export interface Known {
  /** Where the user is. */
  directory: string;
  /** undefined: the configuration cannot be used. */
  settings: Settings | undefined;
  /** The project's name; undefined: it has none. */
  project: string | undefined;
  /** Whether the project's own files leave memory on. */
  memoryOn: boolean;
}

/** Looks at the set-up of this user in `directory`, without starting anything. */
export async function doctor(directory: string, say: Report): Promise<Known> {
  await attempt(say, 'there is no SQLite that can be used', () => runtime(say));
  const settings = await attempt(say, 'the configuration cannot be used', () => configuration(say));
  const project = await attempt(say, 'this project has no name, so no memory is visible in it', async () => {
    const name = await projectIdentity(directory);
    say({ state: 'ok', what: `project ${name}` });
    return name;
  });
  const memoryOn = switchedOn(directory, say);
  if (settings) {
    await attempt(say, 'the store cannot be used', () => checkStore(settings, project, say));
    await attempt(say, 'the memories cannot be read', () => checkSource(settings, say));
  }
  await attempt(say, 'a delivery fails', () => delivery(say));
  return { directory, settings, project, memoryOn };
}

const DRIVERS = { bun: "Bun's own SQLite", node: "Node's own SQLite", better: 'better-sqlite3, SQLite' };

function runtime(say: Report): void {
  const { bun, node } = process.versions;
  const driver = choose(undefined);
  const connection = connect(driver, ':memory:');
  const [[version] = []] = connection.once('SELECT sqlite_version()');
  connection.close();
  const [major = 0, minor = 0] = String(version).split('.').map(Number);
  const engine = bun === undefined ? `Node ${node}` : `Bun ${bun}`;
  if (major < 3 || (major === 3 && minor < 42)) {
    throw new Wrong(`${engine} has SQLite ${version}, and the store needs 3.42`, 'run this in another version of it');
  }
  say({ state: 'ok', what: `${engine} with ${DRIVERS[driver]} ${version}; component ${digest.slice(0, 12)}` });
}

function configuration(say: Report): Settings {
  const file = configFile();
  const settings = readSettings();
  say({ state: 'ok', what: existsSync(file) ? `configuration ${file}` : `the defaults, since there is no ${file}` });
  return settings;
}

function switchedOn(directory: string, say: Report): boolean {
  const { on, why, isBroken } = projectMemory(directory);
  if (on) return true;
  say({
    state: isBroken ? 'wrong' : 'note',
    what: `memory is off here: ${why}`,
    hint: `agents in this project are given nothing, and told nothing. Change ${PROJECT_FILE} if you want it on`,
  });
  return false;
}

/** A delegation, its child, a new process and the same bytes, on a store that is thrown away. */
async function delivery(say: Report): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-doctor-'));
  try {
    // The user's configuration may be what is wrong.
    const defaults = readSettings({ HOME: directory });
    const settings = { ...defaults, store: join(directory, 'store.sqlite'), isDefaultStore: false };
    const body = 'What the doctor remembers: 字 and "quotes".\r\n';
    const memory = await plant(settings, 'doctor', body);
    const parent: Caller = {
      key: { harness: 'doctor', id: 'parent' },
      agent: 'doctor',
      project: 'doctor',
      parent: undefined,
      memoryOn: true,
    };
    const child: Caller = { ...parent, parent: parent.key, key: { harness: 'doctor', id: 'child' } };
    const first = await openService(settings);
    first.register(parent, {
      task: 'Read.',
      memory: JSON.stringify({ prefetch_ids: [memory] }),
      capacity: { budget: { tag: 'tokens', val: 10_000 }, model: undefined, overflow: 'refuse' },
      agentType: undefined,
      callId: '1',
      ttlSeconds: undefined,
    });
    const hints = { task: 'Read.', agentType: undefined, registersAll: true };
    const { block } = first.claim(child, 'start', { tag: 'parent-session', val: hints });
    first.close();
    const second = await openService(settings);
    const again = second.replay(child);
    second.close();
    const text = block?.text;
    if (!text?.includes(body)) throw new Error('the child was given another text than the memory');
    if (again[0]?.text !== text) throw new Error('after a restart the child would be given another text');
    const bytes = Buffer.byteLength(text);
    say({ state: 'ok', what: `a delivery on a store of its own, and the same ${bytes} bytes after a restart` });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
