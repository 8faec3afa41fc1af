// A delegation that is registered while its child is already started: who gets what, and who is told what, where something
// takes long or is wrong. The harness is played; adapter, worker and store are real.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Adapter, WrongField } from '../dist/adapter.js';
import type { Delegation, Session } from '../dist/adapter.js';
import { projectIdentity } from '../dist/project_identity.js';
import { SqliteStore } from '../dist/sqlite/store.js';

const home = mkdtempSync(join(tmpdir(), 'memory-prefetch-adapter-'));
const directory = join(home, 'project');
mkdirSync(directory);
process.env['HOME'] = home;
process.env['XDG_CONFIG_HOME'] = join(home, 'config');
process.env['MEMORY_PREFETCH_STORE'] = `sqlite:${join(home, 'store.sqlite')}`;

const project = await projectIdentity(directory);
const store = SqliteStore.open(join(home, 'store.sqlite'));
store.addAgent('build');
store.putProject({ id: project, workspace: undefined, memoryOn: true, trusted: true, attributes: [] });
const shared = { owner: 'build', project, audience: 'agent', category: '', priority: 0, trusted: true } as const;
for (const id of ['1', '2']) store.addMemory({ id, body: `the body of ${id}`, ...shared }, 0n);
store.close();

const adapter = new Adapter('opencode', directory, () => {});

function session(id: string, parent?: string): Session {
  return { id, agent: 'build', parent: parent === undefined ? undefined : adapter.key(parent) };
}

function delegation(parent: string, callId: string, task: string, memory: unknown): Delegation {
  return { parent, session: () => Promise.resolve(session(parent)), callId, task, memory, agentType: undefined };
}

/** What stands in the first request of a child that begins now. */
async function begin(id: string, parent: string, task: string): Promise<string> {
  await adapter.claim(session(id, parent), 'm1', { task, agentType: undefined });
  return (await adapter.texts(session(id, parent))).map(({ text }) => text).join();
}

/** A session that the harness takes a while to tell of. */
const slowly = (id: string) => () => new Promise<Session>((tell) => setTimeout(() => tell(session(id)), 150));

test('a child that begins before its delegation is registered waits for it', async () => {
  const slow = delegation('p1', 'c', 'Slow.', { prefetch_ids: ['1'] });
  await adapter.registerMeanwhile({ ...slow, session: slowly('p1') });
  assert.match(await begin('a', 'p1', 'Slow.'), /the body of 1/);
  assert.match((await adapter.gist('p1', 'c', 'a')) ?? '', /Delivered to the agent: "1"/);
});

test('it waits too where its parent goes on meanwhile', async () => {
  const slow = delegation('p2', 'c', 'Slow.', { prefetch_ids: ['1'] });
  await adapter.registerMeanwhile({ ...slow, session: slowly('p2') });
  adapter.nextTurn('p2');
  assert.match(await begin('b', 'p2', 'Slow.'), /the body of 1/);
});

test('a sibling whose field is wrong, and is refused later, takes nothing from it', async () => {
  const wrong = delegation('p3', 'wrong', 'Same.', { prefetch_ids: ['1'], more: true });
  const refused = assert.rejects(adapter.registerMeanwhile({ ...wrong, session: slowly('p3') }), WrongField);
  await adapter.registerMeanwhile(delegation('p3', 'right', 'Same.', { prefetch_ids: ['2'] }));
  assert.match(await begin('c', 'p3', 'Same.'), /the body of 2/);
  assert.match((await adapter.gist('p3', 'right', 'c')) ?? '', /Delivered to the agent: "2"/);
  await refused;
});

test('a delegation that could not be registered: the child is told, and so is its parent', async () => {
  const lost = delegation('p4', 'c', 'Lost.', { prefetch_ids: ['1'] });
  await adapter.registerMeanwhile({ ...lost, session: () => Promise.reject(new Error('no such session')) });
  assert.match(await begin('d', 'p4', 'Lost.'), /No memories were delivered: they could not be read/);
  assert.match((await adapter.gist('p4', 'c', 'd')) ?? '', /The agent got no memories: .*no such session/);
});
