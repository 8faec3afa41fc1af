// What a process knows of its own delegations: which could not be registered, and whose child that may be.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Delegations, originOf } from '../dist/delegations.js';
import type { Registered } from '../dist/delegations.js';

const HANDED_OVER = {
  tag: 'handed-over',
  val: { memory: undefined, receipt: undefined, warnings: [] },
} satisfies Registered['fate'];

const origin = (all: Delegations, parent: string, text: string) => originOf(all.candidates(parent, text));

function registered(callId: string, task: string, more: Partial<Registered> = {}): Registered {
  return {
    parent: 'p',
    callId,
    task,
    named: true,
    fate: HANDED_OVER,
    registeredAs: undefined,
    settled: Promise.resolve(),
    isSettled: true,
    isRefused: false,
    child: undefined,
    ...more,
  };
}

test('a text that one lost delegation has is lost for all that have it, and for no other', () => {
  const all = new Delegations();
  all.add(registered('1', 'Look.'));
  all.add(registered('2', 'Look.', { fate: 'the store is busy' }));
  all.add(registered('3', 'Look again.'));
  assert.equal(origin(all, 'p', 'Look.').lost, 'the store is busy');
  assert.equal(origin(all, 'p', 'Look again.').lost, undefined);
  assert.equal(origin(all, 'another', 'Look.').lost, undefined);
});

test('where no text is equal, the longest that is contained counts', () => {
  const all = new Delegations();
  all.add(registered('1', 'Look', { fate: 'lost' }));
  all.add(registered('2', 'Look here', { named: false }));
  assert.deepEqual(origin(all, 'p', 'Please: Look here now'), { lost: undefined, named: false });
  assert.deepEqual(origin(all, 'p', 'Look there'), { lost: 'lost', named: true });
  assert.deepEqual(origin(all, 'p', 'something else'), { lost: undefined, named: undefined });
});

test('two sessions may use one call id', () => {
  const all = new Delegations();
  all.add(registered('task:0', 'One.'));
  all.add(registered('task:0', 'Two.', { parent: 'q' }));
  assert.equal(all.end('p', 'task:0')?.task, 'One.');
  assert.equal(all.of('q', 'task:0')?.task, 'Two.');
});

test('when the parent goes on, what it had started is over, and calls are numbered anew', () => {
  const all = new Delegations();
  all.add(registered('1', 'Look.', { fate: 'the store is busy' }));
  all.add(registered('1', 'Look.', { parent: 'q', fate: 'the store is busy' }));
  const turn = all.turn('p');
  all.nextTurn('p');
  assert.notEqual(all.turn('p'), turn);
  assert.equal(origin(all, 'p', 'Look.').lost, undefined);
  assert.equal(origin(all, 'q', 'Look.').lost, 'the store is busy');
});

test('one that is still being registered is not forgotten when its parent goes on', () => {
  const all = new Delegations();
  all.add(registered('1', 'Look.', { isSettled: false }));
  all.nextTurn('p');
  assert.equal(all.candidates('p', 'Look.').length, 1);
});

test('a child comes from the only call with its text that has none', () => {
  const all = new Delegations();
  const first = registered('1', 'Look.');
  all.add(first);
  assert.equal(all.callOf('p', 'Look.', 'c1'), first);
  assert.equal(all.callOf('p', 'Look', 'c1'), undefined);
  first.child = 'c1';
  const second = registered('2', 'Look.');
  all.add(second);
  assert.equal(all.callOf('p', 'Look.', 'c2'), second);
  // The first one asks again: two may be its.
  assert.equal(all.callOf('p', 'Look.', 'c1'), undefined);
  all.add(registered('3', 'Look.'));
  assert.equal(all.callOf('p', 'Look.', 'c2'), undefined);
});
