// The tools of the plugin in the real OpenCode: a parent finds ids and hands them over, a child reads what did not fit
// into its first page, and nobody reads what is not for them.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { BLOCK_HEAD, childOf, first, givenTo, timesIn } from './opencode_requests.js';
import { toolResults } from './model_server.js';
import type { ModelRequest, ToolCall } from './model_server.js';
import { Scene, task } from './opencode_scene.js';

/** Longer than what OpenCode hands on of a tool's answer. */
const LARGE = Array.from({ length: 4_000 }, (_, line) => `This is line ${line} of many.\n`).join('');

const bodies = Object.fromEntries(
  ['1', '2', '3', '4', '5', '6'].map((id) => [id, `Memory number ${id} of six. ${'It has some words. '.repeat(20)}`]),
);

// Room for two or three of them at a time.
const scene = await Scene.make({ settings: { overflow: 'paginate', budgetTokens: 600 } });
scene.remember(bodies);
scene.remember({ large: LARGE });
scene.program.run(['agent', 'add', 'general']);
scene.remember({ shared: 'What all know here.' }, '--audience', 'project');
scene.program.addMemory({
  id: 'childs',
  body: 'What the child knows.',
  agent: 'general',
  project: scene.program.projectOf(scene.directory),
});
after(() => scene.close());

function call(name: string, given: Record<string, unknown>): ToolCall {
  return { name, arguments: given };
}

/** What tools said to a model in its last request. */
function answers(requests: readonly ModelRequest[]): string[] {
  return toolResults(requests.at(-1)!);
}

scene.test('a child reads the pages after the first', async () => {
  const read: string[] = [];
  const played = await scene.play([task('Read it all.', { prefetch_ids: Object.keys(bodies) })], {
    child: (request, step) => {
      if (step > 1) read.push(toolResults(request)[0] ?? '');
      const block = givenTo({ id: '', requests: [request] });
      const [, ref, pages] = /^Snapshot "(snap_\d+)".* Page 1 of (\d+)\.$/m.exec(block) ?? [];
      const page = step + 1;
      return page <= Number(pages) ? { toolCalls: [call('memory_page', { snapshot_ref: ref, page })] } : undefined;
    },
  });
  const [child] = played.children;
  const all = [givenTo(child!), ...read];
  assert.ok(all.length > 2, 'several pages');
  for (const page of all) assert.ok(page.startsWith(BLOCK_HEAD));
  for (const body of Object.values(bodies)) assert.equal(all.filter((page) => page.includes(body)).length, 1);
  assert.match(answers(played.requests)[0]!, new RegExp(`${all.length} pages, of which it has the first`));
});

scene.test('a parent finds an id, reads it and hands it over', async () => {
  const found = await scene.play([
    call('memory_recall', { query: 'number 4' }),
    call('memory_get', { ids: ['4', '999'] }),
  ]);
  const [recalled, got] = answers(found.requests);
  assert.ok(recalled!.includes('Memory "4"') && recalled!.includes(bodies['4']!));
  assert.ok(got!.includes(bodies['4']!) && got!.includes('Unavailable: "999"'));

  const { children } = await scene.play([task('Take the fourth.', { prefetch_ids: ['4'] })], { session: found.parent });
  assert.ok(givenTo(children[0]!).includes(bodies['4']!));
});

scene.test('what is long is read in parts, none of which OpenCode cuts', async () => {
  const read: string[] = [];
  const { parent } = await scene.play([call('memory_get', { ids: ['large'] })]);
  for (let more = true; more;) {
    const wanted = call('memory_get', { ids: ['large'], part: read.length + 1 });
    const { requests } = await scene.play([wanted], { session: parent });
    const [text] = answers(requests);
    const [, part, next] = /^([^]*)\n\[part \d+ of \d+(; ask for part \d+ next)?\]$/.exec(text!) ?? [];
    assert.ok(part !== undefined, text);
    read.push(part);
    more = next !== undefined;
  }
  assert.ok(read.length > 1 && read.join('').endsWith(`:\n${LARGE}`), `${read.length} parts`);
  const outputs = join(scene.home, '.local', 'share', 'opencode', 'tool-output');
  assert.ok(!existsSync(outputs), 'nothing is kept whole in a file');
});

scene.test('a child searches as itself', async () => {
  const said: string[] = [];
  await scene.play([task('Search.')], {
    child: (request, step) => {
      if (step === 2) said.push(...toolResults(request));
      const ids = ['childs', 'shared', '1'];
      const calls = [call('memory_recall', { query: 'knows know' }), call('memory_get', { ids })];
      return step === 1 ? { toolCalls: calls } : undefined;
    },
  });
  const [recalled, got] = said;
  assert.ok(recalled!.includes('What the child knows.') && recalled!.includes('What all know here.'));
  assert.ok(!recalled!.includes('of six'), "its parent's own memories are not for it");
  assert.match(got!, /Unavailable: "1"/);
});

scene.test("a child cannot read another one's pages", async () => {
  let ref = '';
  const said: string[] = [];
  const tasks = [task('Has pages.', { prefetch_ids: Object.keys(bodies) }), task('Has none.')];
  const { children } = await scene.play(tasks, {
    child: async (request, step) => {
      if (timesIn(request, 'Has pages.') > 0) {
        ref = /Snapshot "(snap_\d+)"/.exec(givenTo({ id: '', requests: [request] }))?.[1] ?? '';
        return undefined;
      }
      if (step === 2) said.push(...toolResults(request));
      while (ref === '') await new Promise((resolve) => setTimeout(resolve, 10));
      return step === 1 ? { toolCalls: [call('memory_page', { snapshot_ref: ref, page: 2 })] } : undefined;
    },
  });
  assert.equal(children.length, 2);
  assert.match(said[0]!, /^Error: /);
});

scene.test('an agent that may use no tools but its own has its memories all the same', async () => {
  const played = await scene.play([task('Explore.', { prefetch_ids: Object.keys(bodies) }, 'explore')]);
  const child = childOf(played, 'Explore.');
  const tools = first(child).body.tools?.map(({ function: { name } }) => name) ?? [];
  assert.ok(!tools.some((name) => name.startsWith('memory_')), tools.join());
  assert.ok(givenTo(child).startsWith(BLOCK_HEAD));
});
