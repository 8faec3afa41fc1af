// Delegations in the real OMP: the extension installed as a user would, OMP's own task tool, a scripted model.

import assert from 'node:assert/strict';
import { basename, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { JsonSchema, ModelRequest, Reply, ToolCall } from './model_server.js';
import { Omp, TASK, TASK_PREFIX, findOmp } from './omp.js';
import { Bench, answerTo, transcripts, type Harness } from './pi_bench.js';
import { MEMORIES, PLAIN, assertWorked, behaviours, naming } from './pi_behaviour.js';
import { assertDelivered, assertErased, blockOf, memoriesIn, textsIn } from './pi_blocks.js';

const program = findOmp();
const skip = program ? false : 'OMP is not installed: run `npm install` in e2e/omp, or set MEMORY_PREFETCH_OMP';

async function harness(home: string, baseUrl: string): Promise<Harness> {
  const omp = await Omp.install(program as string, home, baseUrl);
  return {
    name: 'OMP',
    home,
    sessions: join(home, '.omp', 'agent', 'sessions'),
    taskPrefix: TASK_PREFIX,
    tool: TASK,
    delegate: (children) => task({ context: 'None.', tasks: children }),
    finish: done,
    offered: ({ properties }) => {
      const item = properties?.['tasks']?.['items'] as JsonSchema | undefined;
      return { 'each of tasks': item?.properties?.['memory'] };
    },
    run: (prompts, options) => omp.run(prompts, options),
  };
}

function task(args: Record<string, unknown>): ToolCall {
  return { name: TASK, arguments: args };
}

/** A child ends by calling this tool; one that only answers is reminded of it. */
function done(report: string): Reply {
  return { toolCalls: [{ name: 'yield', arguments: { data: { report } } }] };
}

describe('OMP', { skip }, () => {
  let bench: Bench;
  before(async () => {
    bench = await Bench.open(harness);
  });
  after(() => bench?.close());

  behaviours(() => bench);

  /** The session file of the child with this name, of the last run. */
  function fileOf(name: string): string {
    const files = [...transcripts(bench.harness.sessions).keys()].sort();
    const file = files.findLast((path) => basename(path) === `${name}.jsonl`);
    assert.ok(file, `the child ${name} has a session file`);
    return file;
  }

  test('calls of the short form in one message', async () => {
    const ids = ['11', '55', '11', '55'];
    const calls = ids.map((id, index) => task({ task: `Short ${index}.`, memory: naming(id) }));
    const played = await bench.play({ memories: MEMORIES, calls });
    for (const [index, id] of ids.entries()) {
      const body = MEMORIES[id as keyof typeof MEMORIES];
      for (const request of assertWorked(played, `Short ${index}.`)) assertDelivered(request, { [id]: body });
    }
  });

  test('twins with the same text and other memories have their own each', async () => {
    const twins = { First: '11', Second: '55' };
    const tasks = Object.entries(twins).map(([name, id]) => ({ name, task: 'Which one?', memory: naming(id) }));
    const played = await bench.play({
      memories: MEMORIES,
      calls: [task({ context: 'None.', tasks })],
      child: (request) => done(`saw ${Object.keys(memoriesIn(blockOf(request))).join()}`),
    });
    assert.equal(played.child('Which one?').length, 2);
    const files = transcripts(bench.harness.sessions);
    for (const [name, id] of Object.entries(twins)) assert.ok(files.get(fileOf(name))?.includes(`saw ${id}"`), name);
  });

  test('a text that the harness lays out anew', async () => {
    const text = '\n  Review this:  \r\n\r\n\r\n- one \n\n\n- two\n\n```\ncode  \n\n```\n';
    const tasks = [
      { task: text, memory: naming('55') },
      { task: 'Something else.', memory: naming('11') },
    ];
    const played = await bench.play({ memories: MEMORIES, calls: [bench.harness.delegate(tasks)] });
    const requests = played.requests.filter((request) => bench.taskOf(request)?.startsWith('Review this:'));
    assert.ok(requests.length >= 2, `${requests.length} requests`);
    for (const request of requests) assertDelivered(request, { '55': PLAIN });
  });

  test('a child that has to be reminded', async () => {
    const isReminder = (text: string) => /Reminder \d of \d/.test(text);
    const reminders = (request: ModelRequest) => textsIn(request).filter(isReminder).length;
    const played = await bench.play({
      memories: MEMORIES,
      calls: [task({ task: 'Be idle.', memory: naming('55') })],
      child: (request, idle) => (reminders(request) < 3 ? { text: 'I think.' } : done(answerTo(idle))),
    });
    const requests = assertWorked(played, 'Be idle.');
    assert.deepEqual(requests.map(reminders), [0, 1, 2, 3]);
    for (const request of requests) assertDelivered(request, { '55': PLAIN });
    assert.equal(new Set(requests.map(blockOf)).size, 1, 'the same bytes each time');
  });

  test('a child whose context is compacted', async () => {
    let turns = 0;
    const full = { input: 95_000, output: 100 };
    const played = await bench.play({
      memories: MEMORIES,
      calls: [task({ name: 'Long', task: 'Be long.', memory: naming('55') })],
      child: (_, long) => {
        turns += 1;
        if (turns > 3) return done(answerTo(long));
        const counts = { name: 'bash', arguments: { command: 'seq 1 400' } };
        return { toolCalls: [counts], ...(turns === 3 && { usage: full }) };
      },
    });
    const summary = played.requests.findIndex(({ body }) => !body.tools?.length);
    assert.ok(summary > 0, 'nothing was compacted');
    // What a child has and its parent has not; its task may be gone.
    const isChild = ({ body }: ModelRequest) => body.tools?.some((each) => each.function.name === 'yield') ?? false;
    const child = played.requests.filter(isChild);
    assert.ok(played.requests.slice(summary).some(isChild), 'nothing came after the compaction');
    for (const request of child) assertDelivered(request, { '55': PLAIN });
  });

  test('a child that is opened again after an edit of the source, and once more after an erasure', async () => {
    const calls = [task({ name: 'Kept', task: 'Be kept.', memory: naming('55') })];
    const { store } = await bench.play({ memories: MEMORIES, calls });
    store.edit('55', 'Totals are in floats.');
    const played = await bench.again(store, 'Go on.', { args: ['--resume', fileOf('Kept')] });
    assert.ok(played.requests.length >= 1);
    for (const request of played.requests) assertDelivered(request, { '55': PLAIN });
    store.forget('55');
    const erased = await bench.again(store, 'Go on.', { args: ['--resume', fileOf('Kept')] });
    for (const request of erased.requests) assertErased(request, PLAIN);
  });

  test('a crash during the first request of a child, which is then opened again', async () => {
    const crash = new AbortController();
    const played = await bench.play({
      memories: MEMORIES,
      calls: [task({ name: 'Crashed', task: 'Be stopped.', memory: naming('55') })],
      child: () => {
        crash.abort();
        return undefined;
      },
      options: { crash: crash.signal },
    });
    assert.equal(played.child('Be stopped.').length, 1);
    played.store.edit('55', 'Totals are in floats.');
    const again = await bench.again(played.store, 'Go on.', { args: ['--resume', fileOf('Crashed')] });
    assert.ok(again.requests.length >= 1);
    const requests = [...played.child('Be stopped.'), ...again.requests];
    for (const request of requests) assertDelivered(request, { '55': PLAIN });
  });
});
