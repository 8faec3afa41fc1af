// Delegations in the real Pi: the extension installed as a user would, Pi's own subagent extension, a scripted model.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { JsonSchema, ModelRequest, Reply, ToolCall } from './model_server.js';
import { Pi, READER, SUBAGENT, TASK_PREFIX, WORKER, findPi } from './pi.js';
import { Bench, HARMLESS, afterTool, answerTo } from './pi_bench.js';
import type { ChildScript, Delegated, Harness, Played } from './pi_bench.js';
import { MEMORIES, PLAIN, assertWorked, behaviours, naming } from './pi_behaviour.js';
import { answersIn, assertDelivered, assertErased, assertNotice } from './pi_blocks.js';
import type { SeededStore } from './pi_store.js';

/** The variable that tells a child of its parent. */
const PARENT = 'MEMORY_PREFETCH_PARENT';

async function harness(home: string, baseUrl: string): Promise<Harness> {
  const pi = await Pi.install(findPi(), home, baseUrl);
  return {
    name: 'Pi',
    home,
    sessions: join(home, '.pi', 'agent', 'sessions'),
    taskPrefix: TASK_PREFIX,
    tool: SUBAGENT,
    delegate: (children) => subagent(children.length === 1 ? worker(children[0]!) : { tasks: children.map(worker) }),
    finish: (text) => ({ text }),
    offered: ({ properties }) => ({
      'one agent': properties?.['memory'],
      'each of tasks': itemOf(properties?.['tasks'])?.['memory'],
      'each of chain': itemOf(properties?.['chain'])?.['memory'],
    }),
    run: (prompts, options) => pi.run(prompts, options),
  };
}

function subagent(args: Record<string, unknown>): ToolCall {
  return { name: SUBAGENT, arguments: args };
}

function itemOf(list: JsonSchema | undefined): JsonSchema['properties'] {
  return (list?.['items'] as JsonSchema | undefined)?.properties;
}

function worker(child: Delegated): Record<string, unknown> {
  return { agent: WORKER, ...child };
}

describe('Pi', () => {
  let bench: Bench;
  before(async () => {
    bench = await Bench.open(harness);
  });
  after(() => bench?.close());

  behaviours(() => bench);

  test('twins with the same text and other memories: neither is given a guess, and both are told', async () => {
    const twins = { tasks: ['11', '55'].map((id) => worker({ task: 'Which one?', memory: naming(id) })) };
    const played = await bench.play({ memories: MEMORIES, calls: [subagent(twins)] });
    for (const request of assertWorked(played, 'Which one?')) assertNotice(request);
  });

  test('two calls in one message', async () => {
    const calls = Object.keys(MEMORIES).map((id) => subagent(worker({ task: `Take ${id}.`, memory: naming(id) })));
    const played = await bench.play({ memories: MEMORIES, calls });
    for (const [id, body] of Object.entries(MEMORIES)) {
      for (const request of assertWorked(played, `Take ${id}.`)) assertDelivered(request, { [id]: body });
    }
  });

  test('each step of a chain has its own, also where its text quotes the step before', async () => {
    const chain = [
      worker({ task: 'Take the first step.', memory: naming('11') }),
      worker({ task: 'Take the second step, after this one: {previous}', memory: naming('55') }),
    ];
    const played = await bench.play({ memories: MEMORIES, calls: [subagent({ chain })] });
    const first = played.child('Take the first step.');
    const second = played.child(`Take the second step, after this one: ${answerTo('Take the first step.')}`);
    assert.ok(first.length >= 2 && second.length >= 2, `${first.length} and ${second.length} requests`);
    for (const request of first) assertDelivered(request, { '11': MEMORIES['11'] });
    for (const request of second) assertDelivered(request, { '55': PLAIN });
  });

  test('an agent with few tools has its memory too', async () => {
    const call = subagent({ agent: READER, task: 'Only read.', memory: naming('55') });
    const child: ChildScript = (_, task) => ({ text: answerTo(task) });
    const played = await bench.play({ memories: MEMORIES, calls: [call], child });
    assert.equal(played.child('Only read.').length, 1);
    for (const request of played.child('Only read.')) assertDelivered(request, { '55': PLAIN });
  });

  /** A parent that registers a delegation whose child does not start, and has ended; and what it gave its children. */
  async function delegated(task: string): Promise<{ store: SeededStore; env: Record<string, string> }> {
    const lost = subagent({ agent: 'nobody', task, memory: naming('55') });
    const asks = { name: 'bash', arguments: { command: `echo "<$${PARENT}>"` } };
    const played = await bench.play({ memories: MEMORIES, calls: [lost, asks] });
    assert.equal(played.child(task).length, 0);
    const parent = /<([^<>\s]+)>/.exec(answersIn(played.parent.at(-1)))?.[1];
    assert.ok(parent, `${PARENT} is not set`);
    return { store: played.store, env: { [PARENT]: parent } };
  }

  function assertAll(played: Played, least: number): void {
    assert.ok(played.requests.length >= least, `${played.requests.length} requests`);
    for (const request of played.requests) assertDelivered(request, { '55': PLAIN });
  }

  test('a child that starts when its parent has ended and the source was edited', async () => {
    const { store, env } = await delegated('Start later.');
    store.edit('55', 'Totals are in floats.');
    const options = { args: ['--mode', 'json', '--no-session'], env };
    assertAll(await bench.again(store, `${TASK_PREFIX}Start later.`, options), 2);
  });

  test('a child that is started again after its first turn, and once more after an erasure', async () => {
    const { store, env } = await delegated('Be kept.');
    assertAll(await bench.again(store, `${TASK_PREFIX}Be kept.`, { env }), 2);
    store.edit('55', 'Totals are in floats.');
    assertAll(await bench.again(store, 'Go on.', { args: ['--continue'], env }), 1);
    store.forget('55');
    const erased = await bench.again(store, 'Go on.', { args: ['--continue'], env });
    for (const request of erased.requests) assertErased(request, PLAIN);
  });

  test('a child whose context is compacted', async () => {
    const { store, env } = await delegated('Be long.');
    const full = { input: 95_000, output: 100 };
    const script = (request: ModelRequest): Reply => {
      if (!request.body.tools?.length) return { text: 'A summary.' };
      return afterTool(request) ? { text: 'Much was said. '.repeat(200), usage: full } : { toolCalls: [HARMLESS] };
    };
    const options = { args: ['--no-session'], env };
    const played = await bench.again(store, [`${TASK_PREFIX}Be long.`, 'Go on.', 'Go on.'], options, script);
    const summary = played.requests.findIndex(({ body }) => !body.tools?.length);
    assert.ok(summary > 0, 'nothing was compacted');
    const turns = played.requests.filter(({ body }) => body.tools?.length);
    assert.ok(
      played.requests.slice(summary).some((request) => turns.includes(request)),
      'nothing came after it',
    );
    for (const request of turns) assertDelivered(request, { '55': PLAIN });
  });
});
