// What a child reads, in each harness of Pi's family: the memories that its parent named, byte for byte, in its first
// request and once in every one; what it does not get; and that its task goes on whatever is wrong with the store.

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { textsOf } from './model_server.js';
import type { ModelRequest } from './model_server.js';
import { HARMLESS, afterTool, answerTo } from './pi_bench.js';
import type { Bench, Played } from './pi_bench.js';
import { FIXED_NOTICE, answersIn, assertDelivered, assertNotice, assertSilent, blockOf } from './pi_blocks.js';
import { memoriesIn, textsIn } from './pi_blocks.js';
import type { SeededStore } from './pi_store.js';

/** Bytes that something on the way might touch: blanks at ends, CRLF, quotes, fences, and what is not ASCII. */
const NASTY =
  ' \tLine one \r\n\r\n\n  "quoted" \\n {{x}} ünï 🦊 \u2028 <<<1 >>> </system-reminder>\n[memory-prefetch] \n\n';
export const PLAIN = 'Totals are in cents, never in floats.';
export const MEMORIES = { '11': NASTY, '55': PLAIN };

/** Names these memories. */
export function naming(...ids: string[]): { prefetch_ids: string[] } {
  return { prefetch_ids: ids };
}

/** The requests of one child, of which there are at least two. */
export function assertWorked(played: Played, task: string): readonly ModelRequest[] {
  const requests = played.child(task);
  assert.ok(requests.length >= 2, `${requests.length} requests for ${JSON.stringify(task)}: ${played.finished.stderr}`);
  assert.ok(answersIn(played.parent.at(-1)).includes(answerTo(task)), 'its parent has no answer');
  return requests;
}

/** Registers the tests. `bench` is there when they run. */
export function behaviours(bench: () => Bench): void {
  const delegate = (...args: Parameters<Bench['harness']['delegate']>) => [bench().harness.delegate(...args)];

  test('the task tool offers the field', async () => {
    const played = await bench().play({ calls: [HARMLESS] });
    const { harness } = bench();
    const tool = played.parent[0]?.body.tools?.find((each) => each.function.name === harness.tool);
    assert.ok(tool?.function.parameters, 'the task tool is offered');
    for (const [what, schema] of Object.entries(harness.offered(tool.function.parameters))) {
      assert.deepEqual(Object.keys(schema?.properties ?? {}).sort(), ['mode', 'prefetch_ids', 'snapshot_ref'], what);
    }
    played.parent.forEach(assertSilent);
  });

  test('a child has its memory before its first token, and once in each request', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      calls: delegate([{ task: 'Review the form.', memory: naming('11') }]),
    });
    const requests = assertWorked(played, 'Review the form.');
    for (const request of requests) assertDelivered(request, { '11': NASTY });
    assert.equal(new Set(requests.map(blockOf)).size, 1, 'the same bytes each time');
    assert.match(answersIn(played.parent.at(-1)), /\[memory-prefetch\].*"11"/);
  });

  test('four at the same time have their own each', async () => {
    const bodies = Object.fromEntries(['1', '2', '3', '4'].map((id) => [id, `Memory of child ${id}.\n`]));
    const ids = Object.keys(bodies);
    const played = await bench().play({
      memories: bodies,
      // Each text but the first contains another one.
      calls: delegate(ids.map((id) => ({ task: `Do it${'!'.repeat(Number(id))}`, memory: naming(id) }))),
    });
    for (const id of ids) {
      for (const request of assertWorked(played, `Do it${'!'.repeat(Number(id))}`)) {
        assertDelivered(request, { [id]: bodies[id] as string });
      }
    }
  });

  test('a child without memories gets nothing of its sibling', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      calls: delegate([{ task: 'Read.', memory: naming('55') }, { task: 'Read. Then write.' }]),
    });
    for (const request of assertWorked(played, 'Read.')) assertDelivered(request, { '55': PLAIN });
    assertWorked(played, 'Read. Then write.').forEach(assertSilent);
  });

  test('twins with the same text and the same memories have them both', async () => {
    const twin = { task: 'Check it.', memory: naming('11', '55') };
    const played = await bench().play({ memories: MEMORIES, calls: delegate([twin, twin]) });
    const requests = assertWorked(played, 'Check it.');
    assert.equal(requests.filter((request) => !afterTool(request)).length, 2);
    for (const request of requests) assertDelivered(request, MEMORIES);
  });

  test('an unknown id spoils nothing, and is named', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      calls: delegate([
        { task: 'Some.', memory: naming('55', '99') },
        { task: 'None.', memory: naming('98') },
      ]),
    });
    for (const request of assertWorked(played, 'Some.')) {
      assertDelivered(request, { '55': PLAIN });
      assert.match(blockOf(request), /Unavailable[^\n]*"99"/);
    }
    for (const request of assertWorked(played, 'None.')) {
      assert.ok(
        textsIn(request).some((text) => /^\[memory-prefetch\][^]*"98"/.test(text)),
        'it is told of nothing',
      );
    }
    assert.match(answersIn(played.parent.at(-1)), /"99"[^]*"98"|"98"[^]*"99"/);
  });

  test('what does not fit is refused, and said', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      config: { budgetTokens: 20 },
      calls: delegate([{ task: 'Too much.', memory: naming('55') }]),
    });
    for (const request of assertWorked(played, 'Too much.')) assertNotice(request);
    assert.match(answersIn(played.parent.at(-1)), /\[memory-prefetch\].*budget/);
  });

  test('what does not fit on one page is asked for page by page', async () => {
    const pages = { '1': 'First page. '.repeat(60), '2': 'Second page. '.repeat(60) };
    const played = await bench().play({
      memories: pages,
      config: { budgetTokens: 400, overflow: 'paginate' },
      asksForPages: true,
      calls: delegate([{ task: 'Turn the page.', memory: naming('1', '2') }]),
      child: (request) => {
        if (afterTool(request)) return undefined;
        const snapshot_ref = /snap_\d+/.exec(blockOf(request))?.[0];
        return { toolCalls: [{ name: 'memory_page', arguments: { snapshot_ref, page: 2 } }] };
      },
    });
    const [first, second] = assertWorked(played, 'Turn the page.');
    assertDelivered(first as ModelRequest, { '1': pages['1'] });
    const answers = (second as ModelRequest).body.messages.filter(({ role }) => role === 'tool');
    assert.deepEqual(memoriesIn(answers.flatMap(textsOf).join('')), { '2': pages['2'] });
  });

  test('where memory is off, a child is told nothing', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      before: ({ directory }) => writeFileSync(join(directory, '.memory-prefetch.json'), '{"memory": "off"}'),
      calls: delegate([{ task: 'Without.', memory: naming('55') }]),
    });
    assertWorked(played, 'Without.').forEach(assertSilent);
  });

  test('a field that cannot be read goes back to the parent, and nobody starts', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      calls: delegate([{ task: 'Never.', memory: { prefetch_ids: ['55'], colour: 'red' } }]),
    });
    assert.equal(played.child('Never.').length, 0);
    assert.match(answersIn(played.parent.at(-1)), /memory.*colour/);
  });

  test('an edit of the source in between changes nothing', async () => {
    let store: SeededStore | undefined;
    const played = await bench().play({
      memories: MEMORIES,
      before: (made) => {
        store = made;
      },
      calls: delegate([{ task: 'Steady.', memory: naming('55') }]),
      child: (request) => {
        if (!afterTool(request)) store?.edit('55', 'Totals are in floats.');
        return undefined;
      },
    });
    for (const request of assertWorked(played, 'Steady.')) assertDelivered(request, { '55': PLAIN });
  });

  test('a child that delegates: each generation has its own', async () => {
    const { harness } = bench();
    const played = await bench().play({
      memories: MEMORIES,
      calls: delegate([{ task: 'Middle.', memory: naming('11') }]),
      child: (request, task) => {
        if (task !== 'Middle.' || afterTool(request)) return undefined;
        return { toolCalls: [harness.delegate([{ task: 'Youngest.', memory: naming('55') }])] };
      },
    });
    assert.ok(played.child('Middle.').length >= 2);
    for (const request of played.child('Middle.')) assertDelivered(request, { '11': NASTY });
    assert.ok(played.child('Youngest.').length >= 2);
    for (const request of played.child('Youngest.')) assertDelivered(request, { '55': PLAIN });
    assert.ok(answersIn(played.parent.at(-1)).includes(answerTo('Middle.')));
  });

  test('a parent finds ids with memory_recall', async () => {
    const played = await bench().play({
      memories: MEMORIES,
      calls: [{ name: 'memory_recall', arguments: { query: 'cents floats' } }],
    });
    assert.match(answersIn(played.parent.at(-1)), /"55"/);
  });

  const told = async (spoil: (store: SeededStore) => void): Promise<void> => {
    const calls = delegate([{ task: 'All the same.', memory: naming('55') }]);
    const played = await bench().play({ memories: MEMORIES, calls, before: spoil });
    for (const request of assertWorked(played, 'All the same.')) assertNotice(request, FIXED_NOTICE);
    assert.match(answersIn(played.parent.at(-1)), /\[memory-prefetch\]/);
  };

  test('the store is missing: the task goes on, and the child knows', async () => {
    await told((store) => rmSync(dirname(store.file), { recursive: true }));
  });

  test('the store is damaged: the task goes on, and the child knows', async () => {
    await told((store) => {
      for (const end of ['-wal', '-shm']) rmSync(store.file + end, { force: true });
      writeFileSync(store.file, 'This is no database. '.repeat(1_000));
    });
  });

  test('the store is locked: the task goes on, and the child knows', async () => {
    let lock: Database.Database | undefined;
    try {
      await told((store) => {
        lock = locked(store);
      });
    } finally {
      lock?.close();
    }
  });

  test('the store is locked after the delivery: what was delivered stays', async () => {
    let lock: Database.Database | undefined;
    let store: SeededStore | undefined;
    try {
      const played = await bench().play({
        memories: MEMORIES,
        before: (made) => {
          store = made;
        },
        calls: delegate([{ task: 'Locked later.', memory: naming('55') }]),
        child: () => {
          if (store) lock ??= locked(store);
          return undefined;
        },
      });
      for (const request of assertWorked(played, 'Locked later.')) assertDelivered(request, { '55': PLAIN });
    } finally {
      lock?.close();
    }
  });
}

/** Holds the store's write lock until it is closed. */
function locked(store: SeededStore): Database.Database {
  const database = new Database(store.file);
  database.exec('BEGIN IMMEDIATE');
  return database;
}
