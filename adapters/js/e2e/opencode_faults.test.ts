// The store cannot be read, in the real OpenCode: the task itself always goes on, the child is told so in the fixed
// words of docs/hosts.md, and its parent is told why.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { after, test } from 'node:test';
import Database from 'better-sqlite3';
import { FIXED_NOTICE, blockWith, childOf, givenTo, nothingGiven } from './opencode_requests.js';
import { toolResults } from './model_server.js';
import { Scene, task } from './opencode_scene.js';
import type { Played, SceneOptions } from './opencode_scene.js';

const bodies = { '11': 'The login form never autofills.' };
const named = { prefetch_ids: ['11'] };
const look = { toolCalls: [{ name: 'glob', arguments: { pattern: '*.md' } }] };

/** The task was done, the child had the notice once in each request, and the parent knows that something went wrong. */
function wentOn(played: Played, prompt: string): void {
  assert.equal(givenTo(childOf(played, prompt)), FIXED_NOTICE);
  const [result] = toolResults(played.requests.at(-1)!);
  assert.match(result!, /<task_result>\nThe task is done\.\n/);
  assert.match(result!, /\[memory-prefetch\] The agent got no memories: /);
}

const scene = await Scene.make({ settings: { busyTimeoutMs: 300 } });
scene.remember(bodies);
after(() => scene.close());

/** Holds the lock that writers need, as another process that writes for long. Answers how to let it go. */
function lock(): () => void {
  const other = new Database(scene.store);
  other.exec('BEGIN IMMEDIATE');
  return () => {
    other.exec('ROLLBACK');
    other.close();
  };
}

scene.test('the store is locked', async () => {
  const unlock = lock();
  try {
    const played = await scene.play([task('While it is locked.', named), task('Locked, and nothing named.')], {
      child: (_, step) => (step === 1 ? look : undefined),
    });
    wentOn(played, 'While it is locked.');
    nothingGiven(childOf(played, 'Locked, and nothing named.'));
  } finally {
    unlock();
  }
});

scene.test('it is free again, and so are the next delegations', async () => {
  const { children } = await scene.play([task('When it is free.', named)]);
  blockWith(children[0]!, ['11'], bodies);
});

scene.test('it is locked after the child began, who keeps what it has', async () => {
  let unlock = () => {};
  try {
    const { children } = await scene.play([task('Locked later.', named)], {
      child: (_, step) => {
        if (step === 1) unlock = lock();
        return step < 3 ? look : undefined;
      },
    });
    assert.equal(children[0]!.requests.length, 3);
    blockWith(children[0]!, ['11'], bodies);
  } finally {
    unlock();
  }
});

/** In scenes of their own, since OpenCode reads where the store is when it starts. */
const broken: [string, SceneOptions, (store: string) => void][] = [
  ['its directory is missing', { store: 'nowhere/store.sqlite' }, () => {}],
  ['it is not a database', {}, (store) => writeFileSync(store, 'no database, '.repeat(1_000))],
  ['it is a directory', {}, (store) => mkdirSync(store)],
  ['the configuration cannot be read', { settings: { budget: 5 } }, () => {}],
];

for (const [why, options, prepare] of broken) {
  void test(why, { timeout: 120_000 }, async () => {
    await scene.crash();
    const other = await Scene.make(options);
    try {
      prepare(other.store);
      const played = await other.play([task('Go on.', named), task('Nothing named.')], {
        child: (_, step) => (step === 1 ? look : undefined),
      });
      await other.keepIfFailed(async () => {
        wentOn(played, 'Go on.');
        // One that was given nothing is told nothing.
        nothingGiven(childOf(played, 'Nothing named.'));
      });
    } finally {
      await other.close();
    }
  });
}
