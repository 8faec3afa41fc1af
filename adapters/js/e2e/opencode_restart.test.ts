// What a child was given, in the real OpenCode, after whatever takes it out of a process's memory: a crash at any point of
// the delegation, a later process, a compaction, an edit of the source.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { BLOCK_HEAD, blockWith, childOf, first, givenIn, timesIn } from './opencode_requests.js';
import { PLUGIN, Scene, sessionOf, task } from './opencode_scene.js';

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

// Prepared first: OpenCode's configuration names it.
const scene = await Scene.make({ context: CONTEXT, output: OUTPUT, plugin: [PLUGIN, './holding.mjs'] });
writeFileSync(join(scene.home, '.config', 'opencode', 'holding.mjs'), HOLDING);
scene.remember(bodies);
after(() => scene.close());

/** Another process, in which the user goes on in this session. Answers the requests that came of it. */
async function goOn(session: string) {
  const from = scene.model.requests.length;
  const { code, stdout, stderr } = await scene.opencode.run('Go on.', { session, directory: scene.directory });
  assert.equal(code, 0, stdout + stderr);
  return scene.model.requests.slice(from).filter((request) => sessionOf(request) === session);
}

scene.test('after a restart and an edit, the same bytes', async () => {
  const { children } = await scene.play([task('Before the restart.', { prefetch_ids: ['11', '12'] })]);
  const block = blockWith(children[0]!, ['11', '12'], bodies);
  await scene.crash();
  scene.program.run(['memory', 'edit', '11', '--body', 'The login form autofills.']);
  try {
    const requests = await goOn(children[0]!.id);
    assert.ok(requests.length > 0);
    for (const request of requests) {
      assert.deepEqual(givenIn(request), [block]);
      assert.equal(timesIn(request, block), 1);
    }
  } finally {
    scene.program.run(['memory', 'edit', '11', '--body', bodies['11']]);
  }
});

scene.test('after a crash in the middle of its first turn, the same bytes', async () => {
  const server = await scene.server();
  const parent = await server.createSession();
  const from = scene.model.requests.length;
  const asked = new Promise<void>((resolve) => {
    // Never answered: this request is the last thing that happens in the process.
    scene.plan(parent, [task('Crash in here.', { prefetch_ids: ['12'] })], () => {
      resolve();
      return new Promise(() => {});
    });
  });
  const prompted = server.prompt(parent, 'Begin.').catch(() => undefined);
  await asked;
  const child = childOf(scene.played(parent, from), 'Crash in here.');
  const block = blockWith(child, ['12'], bodies);
  await scene.crash();
  await prompted;

  scene.plan(parent, []);
  const [request] = await goOn(child.id);
  assert.deepEqual(givenIn(request!), [block]);
});

scene.test('a delegation outlives a crash before its child began', async () => {
  const server = await scene.server();
  const parent = await server.createSession();
  const prompt = `${HELD} The child begins in another process.`;
  scene.plan(parent, [task(prompt, { prefetch_ids: ['11'] })]);
  const prompted = server.prompt(parent, 'Begin.').catch(() => undefined);
  await until(() => scene.program.run(['snapshots', 'list']).includes(parent));
  await scene.crash();
  await prompted;

  // OpenCode does not take the call up again, so the child is started as its program would.
  const later = await scene.server();
  const id = await later.createSession({ parentID: parent });
  const from = scene.model.requests.length;
  await later.prompt(id, prompt, 'general');
  const [child] = scene.played(parent, from).children;
  assert.equal(child!.id, id);
  blockWith(child!, ['11'], bodies);
});

scene.test('through a compaction and a restart after it, the same bytes, once', async () => {
  const { children } = await scene.play([task('Grow too large.', { prefetch_ids: ['11', '12'] })], {
    child: (_, step) => (step === 1 ? look : step === 2 ? { ...look, ...FULL } : undefined),
  });
  const [child] = children;
  const block = blockWith(child!, ['11', '12'], bodies);
  // Two steps, the compaction, and what goes on after it.
  assert.deepEqual(child!.requests.map(({ body }) => body.tools !== undefined), [true, true, false, true]);
  const [, , compacting, compacted] = child!.requests;
  assert.match(compacting!.raw, /<conversation>/);
  assert.equal(timesIn(compacted!, 'Grow too large.'), 0, 'its first message is gone');
  assert.deepEqual(givenIn(compacted!), [block]);

  await scene.crash();
  const [later] = await goOn(child!.id);
  assert.deepEqual(givenIn(later!), [block]);
  assert.equal(timesIn(later!, BLOCK_HEAD), 1);
});

scene.test('a whole delegation in a process of its own, as on the command line', async () => {
  const from = scene.model.requests.length;
  const session = await (await scene.server()).createSession();
  await scene.crash();
  scene.plan(session, [task('From the command line.', { prefetch_ids: ['12'] })]);
  const { code } = await scene.opencode.run('Begin.', { session, directory: scene.directory });
  assert.equal(code, 0);
  const child = childOf(scene.played(session, from), 'From the command line.');
  blockWith(child, ['12'], bodies);
  assert.equal(first(child).headers['x-parent-session-id'], session);
});

async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < 100, 'within some seconds');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
