// `memory-prefetch-js doctor`: looks at everything that a delivery needs, in the order in which it is needed, and proves it
// by a delivery of its own. Hooks of harnesses have been known to report success and deliver nothing, so what counts is
// what arrives.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digest } from '../component.js';
import { configFile, projectMemory, readSettings } from '../config.js';
import type { Settings } from '../config.js';
import { openService } from '../open.js';
import { projectIdentity } from '../project_identity.js';
import type { Caller } from '../service.js';
import { choose } from '../sqlite/driver.js';

/** What was looked at, and what came of it. */
export interface Finding {
  /** `note`: nothing is wrong, and the user may want to know. */
  state: 'ok' | 'note' | 'wrong';
  what: string;
  /** What to do about it. */
  hint?: string;
}

type Report = (finding: Finding) => void;

/** Looks at the set-up of this user in `directory`. Answers whether nothing is wrong. */
export async function doctor(directory: string, report: Report): Promise<boolean> {
  let fine = true;
  const say: Report = (finding) => {
    fine &&= finding.state !== 'wrong';
    report(finding);
  };
  runtime(say);
  const settings = configuration(say);
  if (settings) await store(settings, say);
  await project(directory, say);
  await delivery(say);
  return fine;
}

function runtime(say: Report): void {
  const { bun, node } = process.versions;
  const engine = bun === undefined ? `Node ${node}` : `Bun ${bun}`;
  attempt(say, 'there is no SQLite', () => {
    say({ state: 'ok', what: `${engine}, with the SQLite of ${DRIVERS[choose(undefined)]}` });
    say({ state: 'ok', what: `component ${digest.slice(0, 12)}` });
  });
}

const DRIVERS = { bun: 'bun:sqlite', node: 'node:sqlite', better: 'better-sqlite3' };

function configuration(say: Report): Settings | undefined {
  return attempt(say, 'the configuration cannot be used', () => {
    const file = configFile();
    const settings = readSettings();
    say({ state: 'ok', what: existsSync(file) ? `configuration ${file}` : `no configuration ${file}: the defaults hold` });
    return settings;
  });
}

async function store(settings: Settings, say: Report): Promise<void> {
  const { memories } = settings;
  if (!existsSync(settings.store)) {
    say({
      state: 'note',
      what: `there is no store ${settings.store} yet; the first delegation makes it`,
      hint: 'add memories with the program memory-prefetch: `memory-prefetch memory add --help`',
    });
  } else {
    await attemptLater(say, 'the store cannot be used', async () => {
      (await openService({ ...settings, memories: undefined })).close();
      say({ state: 'ok', what: `store ${settings.store}` });
    });
  }
  if (memories) {
    await attemptLater(say, 'the memories cannot be read', async () => {
      const service = await openService(settings);
      try {
        // Asks for one that is not there: whether it can be read shows all the same.
        service.get(PROBE, ['0']);
      } finally {
        service.close();
      }
      const trust = settings.memoriesTrusted ? '' : ', which you do not trust: nothing of it is handed over';
      say({ state: 'ok', what: `memories of ${memories.kind} in ${memories.path}${trust}` });
    });
  }
}

const PROBE: Caller = {
  key: { harness: 'doctor', id: 'probe' },
  agent: 'doctor',
  project: undefined,
  parent: undefined,
  memoryOn: true,
};

async function project(directory: string, say: Report): Promise<void> {
  await attemptLater(say, 'this project has no name, so no memory is visible in it', async () => {
    const name = await projectIdentity(directory);
    const { on, why } = projectMemory(directory);
    say(
      on
        ? { state: 'ok', what: `project ${name}` }
        : { state: 'note', what: `project ${name}; memory is off: ${why}`, hint: 'agents here are given nothing, and told nothing' },
    );
  });
}

/** A delegation, its child, a new process and the same bytes, on a store that is thrown away. */
async function delivery(say: Report): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-doctor-'));
  try {
    await attemptLater(say, 'a delivery fails', async () => {
      const settings: Settings = {
        ...readSettings({ HOME: directory }),
        store: join(directory, 'store.sqlite'),
        isDefaultStore: false,
      };
      const body = 'What the doctor remembers: 字 and "quotes".\r\n';
      const parent: Caller = { ...PROBE, project: 'doctor', key: { harness: 'doctor', id: 'parent' } };
      const child: Caller = { ...parent, parent: parent.key, key: { harness: 'doctor', id: 'child' } };
      const first = await openService(settings);
      const shared = { owner: 'doctor', project: 'doctor', audience: 'agent', category: '', priority: 0, trusted: true } as const;
      first.get(parent, []);
      first.prefetch.store.addMemory({ id: '1', body, ...shared }, BigInt(Date.now()));
      first.register(parent, {
        task: 'Read.',
        memory: { prefetch_ids: ['1'] },
        capacity: { budget: { tag: 'tokens', val: 10_000 }, model: undefined, overflow: 'refuse' },
        agentType: undefined,
        callId: '1',
        ttlSeconds: undefined,
      });
      const hints = { task: 'Read.', agentType: undefined, registersAll: true };
      const { texts } = first.claim(child, 'start', { tag: 'parent-session', val: hints });
      first.close();
      const second = await openService(settings);
      const again = second.replay(child);
      second.close();
      const text = texts[0]?.text;
      if (!text?.includes(body)) throw new Error('the child was given another text than the memory');
      if (again[0]?.text !== text) throw new Error('after a restart the child would be given another text');
      say({ state: 'ok', what: `a delivery, and the same ${Buffer.byteLength(text)} bytes after a restart` });
    });
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function attempt<T>(say: Report, what: string, run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    say({ state: 'wrong', what: `${what}: ${error instanceof Error ? error.message : String(error)}` });
    return undefined;
  }
}

async function attemptLater<T>(say: Report, what: string, run: () => Promise<T>): Promise<T | undefined> {
  try {
    return await run();
  } catch (error) {
    say({ state: 'wrong', what: `${what}: ${error instanceof Error ? error.message : String(error)}` });
    return undefined;
  }
}
