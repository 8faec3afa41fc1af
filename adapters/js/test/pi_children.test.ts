// How a child of Pi finds itself among those that share its environment, and that none ever takes another one's place.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findSelf, parse, tell } from '../dist/pi_children.js';
import type { Told } from '../dist/pi_children.js';

const told = (task: string, agent?: string, more: Partial<Told> = {}): Told => ({
  ...tell('c', task, agent).told,
  ...more,
});

const NOTHING = { ref: undefined, nothing: false, lost: false };

test('a child knows its agent by its whole text', () => {
  const list = [told('Find it.', 'scout'), told('Find it', 'reviewer')];
  assert.deepEqual(findSelf(list, 'Find it.'), { task: 'Find it.', agent: 'scout', told: NOTHING });
  assert.deepEqual(findSelf(list, 'Find'), { task: 'Find', agent: undefined, told: NOTHING });
});

test('two with one text and other agents: neither has a name; one that was lost: neither has memories', () => {
  assert.deepEqual(findSelf([told('Look.', 'scout'), told('Look.', 'reviewer')], 'Look.').agent, undefined);
  assert.equal(findSelf([told('Look.', 'a', { lost: true }), told('Look.', 'a')], 'Look.').told.lost, true);
});

test('what an earlier step answered does not decide who a child is', () => {
  const first = tell('c', 'List the files.', 'scout');
  const second = tell('c', 'Read these: {previous}\nThen sum up.', 'reviewer');
  const list = [first.told, second.told];
  for (const answer of ['a.ts b.ts', 'I was told: List the files.', 'Read these: x\nThen sum up.', '']) {
    const self = findSelf(list, `Read these: ${answer}\nThen sum up.`);
    assert.deepEqual(self, { task: second.as, agent: 'reviewer', told: NOTHING });
    assert.doesNotMatch(self.task, /List|sum up/);
  }
  assert.equal(findSelf(list, 'List the files.').task, 'List the files.');
});

test('steps that begin and end alike are told apart by what says most, or take nothing', () => {
  const list = [tell('c', '{previous}', undefined).told, tell('c', 'Check: {previous}', 'a').told];
  assert.equal(findSelf(list, 'Check: all').task, tell('c', 'Check: {previous}', 'a').as);
  assert.equal(findSelf(list, 'something').task, tell('c', '{previous}', undefined).as);
  const alike = [
    tell('c', 'A {previous} x {previous} Z', 'a').told,
    tell('c', 'A {previous} y {previous} Z', 'a').told,
  ];
  assert.equal(findSelf(alike, 'A 1 x 2 Z').told.lost, true);
});

test('what stands in the environment is short, and what is not ours is passed over', () => {
  const long = `${'b'.repeat(100_000)}{previous}${'e'.repeat(100_000)}`;
  assert.ok(JSON.stringify([told(long), told('x'.repeat(100_000))]).length < 2_000);
  for (const other of [undefined, '', '{', '{"a":{"agent":"b"}}', '[1,null,{"digest":"x"}]'])
    assert.deepEqual(parse(other), []);
});

test('a child knows its snapshot where only one can be its', () => {
  const one = told('One.', 'a', { ref: 'snap_1' });
  assert.equal(findSelf([one, told('Two.', 'a', { ref: 'snap_2' })], 'One.').told.ref, 'snap_1');
  assert.equal(findSelf([one, told('One.', 'a', { ref: 'snap_2' })], 'One.').told.ref, undefined);
  assert.equal(findSelf([told('Three.', 'a', { nothing: true })], 'Three.').told.nothing, true);
  assert.equal(findSelf([told('Three.', 'a', { nothing: true }), one], 'None of them.').told.nothing, false);
});
