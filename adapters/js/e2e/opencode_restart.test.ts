// What a child was given, in the real OpenCode, after whatever takes it out of a process's memory: a crash at any point
// of the delegation, another process, a compaction, an edit of the source. One crash serves for all, since a start is
// slow.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { BLOCK_HEAD, blockWith, childOf, first, givenIn, timesIn } from './opencode_requests.js';
import type { ModelRequest } from './model_server.js';
import { PACKAGE } from './project.js';
import { Scene, sessionOf, task } from './opencode_scene.js';
import { until } from './waiting.js';

/** Tokens of the model's window, and what is kept free in it. A step that used up the rest brings a compaction. */
const CONTEXT = 20_000;
const OUTPUT = 2_000;
const FULL = { usage: { input: CONTEXT - OUTPUT, output: 10 } };

const bodies = { '11': 'The login form never autofills.', '12': 'Totals are in cents, never in floats. "äöü" 🦀\r\n' };

const look = { toolCalls: [{ name: 'glob', arguments: { pattern: '*.md' } }] };

// A plugin that holds up what begins with this word, after ours: so that one can end the process between the two.
const HELD = 'Held up.';
const HOLDING = `export default {
  id: 'holding',
  server: async () => ({
    'tool.execute.before': async ({ tool }, { args }) => {
      if (tool === 'task' && args.prompt.startsWith(${JSON.stringify(HELD)})) await new Promise(() => {});
    },
  }),
};
`;

const scene = await Scene.make({ context: CONTEXT, output: OUTPUT, plugin: [PACKAGE, './holding.mjs'] });
writeFileSync(join(scene.home, '.config', 'opencode', 'holding.mjs'), HOLDING);
scene.remember(bodies);
after(() => scene.close());

/** What children had before the crash. */
const kept: Record<string, { id: string; block: string }> = {};

/** The user goes on in this session. Answers the requests that came of it. */
async function goOn(id: string, go: () => Promise<unknown>): Promise<ModelRequest[]> {
  const from = scene.model.requests.length;
  await go();
  const requests = scene.model.requests.slice(from).filter((request) => sessionOf(request) === id);
  assert.ok(requests.length > 0);
  return requests;
}

/** As `goOn`, in the server. */
async function goOnThere(id: string): Promise<ModelRequest[]> {
  const server = await scene.server();
  return goOn(id, () => server.prompt(id, 'Go on.'));
}

/** Has a parent delegate in a process that will not get to its end. */
async function begin(prompt: string, ids: string[], child?: () => Promise<never>): Promise<string> {
  const server = await scene.server();
  const parent = await server.createSession();
  scene.plan(parent, [task(prompt, { prefetch_ids: ids })], child);
  void server.prompt(parent, 'Begin.').catch(() => {});
  return parent;
}

scene.test('before the crash: a child that is done', async () => {
  const [child] = (await scene.play([task('Done before.', { prefetch_ids: ['11', '12'] })])).children;
  kept['done'] = { id: child!.id, block: blockWith(child!, ['11', '12'], bodies) };
});

scene.test('through a compaction, the same bytes, once in each request', async () => {
  const { children } = await scene.play([task('Grow too large.', { prefetch_ids: ['11', '12'] })], {
    child: (_, step) => (step === 1 ? look : step === 2 ? { ...look, ...FULL } : undefined),
  });
  const [child] = children;
  const block = blockWith(child!, ['11', '12'], bodies);
  // Two steps, the compaction, and what goes on after it.
  assert.deepEqual(
    child!.requests.map(({ body }) => body.tools !== undefined),
    [true, true, false, true],
  );
  const [, , compacting, compacted] = child!.requests;
  assert.match(compacting!.raw, /<conversation>/);
  assert.equal(timesIn(compacted!, 'Grow too large.'), 0, 'its first message is gone');
  assert.deepEqual(givenIn(compacted!), [block]);
  kept['compacted'] = { id: child!.id, block };
});

scene.test('before the crash: a child in the middle of its first turn', async () => {
  const from = scene.model.requests.length;
  // Never answered.
  const parent = await begin('In the middle.', ['12'], () => new Promise(() => {}));
  await until(() => scene.played(parent, from).children.length > 0);
  const child = childOf(scene.played(parent, from), 'In the middle.');
  kept['in the middle'] = { id: child.id, block: blockWith(child, ['12'], bodies) };
  scene.plan(parent, []);
});

scene.test('a delegation outlives a crash before its child began', async () => {
  const prompt = `${HELD} The child begins in another process.`;
  const parent = await begin(prompt, ['11']);
  await until(() => scene.program.run(['snapshots', 'list']).includes(parent));
  await scene.crash();
  scene.program.run(['memory', 'edit', '11', '--body', 'The login form autofills.']);

  // OpenCode does not take the call up again, so the child is started as its program would.
  const server = await scene.server();
  const id = await server.createSession({ parentID: parent });
  const from = scene.model.requests.length;
  await server.prompt(id, prompt, 'general');
  const [child] = scene.played(parent, from).children;
  assert.equal(child!.id, id);
  blockWith(child!, ['11'], bodies);
});

for (const what of ['done', 'in the middle', 'compacted']) {
  scene.test(`after the crash, and an edit of a memory, the same bytes: the child that was ${what}`, async () => {
    const { id, block } = kept[what]!;
    for (const request of await goOnThere(id)) {
      assert.deepEqual(givenIn(request), [block]);
      assert.equal(timesIn(request, BLOCK_HEAD), 1);
    }
  });
}

scene.test('in processes of their own, at the same time: the child that was done, and another delegation', async () => {
  const server = await scene.server();
  const session = await server.createSession();
  await scene.crash();
  // Its own database has to be recovered, and OpenCode does not wait for another process that does this: "database is locked".
  const recovered = await scene.opencode.command(['session', 'list'], { directory: scene.directory });
  assert.equal(recovered.code, 0, recovered.stdout + recovered.stderr);
  const { id, block } = kept['done']!;
  const from = scene.model.requests.length;
  scene.plan(session, [task('From the command line.', { prefetch_ids: ['12'] })]);
  const run = async (of: string) => {
    const { code, stdout, stderr } = await scene.opencode.run('Go on.', { session: of, directory: scene.directory });
    assert.equal(code, 0, stdout + stderr);
  };
  const [later] = await Promise.all([goOn(id, () => run(id)), run(session)]);
  for (const request of later) assert.deepEqual(givenIn(request), [block]);
  const child = childOf(scene.played(session, from), 'From the command line.');
  blockWith(child, ['12'], bodies);
  assert.equal(first(child).headers['x-parent-session-id'], session);
});
