// Processes that are killed, and disks that have no room: what was acknowledged is in the file, what was erased is in none,
// and what was going on is there whole or not at all.

import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SqliteStore } from '../dist/sqlite/store.js';
import { connectionOf, isNoted, markOf } from './sqlite_moved.js';
import { inLimits, inProcess, killedAfter } from './sqlite_processes.js';
import { delivery, failure, place } from './sqlite_rows.js';

/** How many memories are added, of which a third is erased. */
const STEPS = 60;

/** A file with a store in it. */
function made(): { directory: string; path: string } {
  const found = place();
  SqliteStore.open(found.path).close();
  return found;
}

/** What `go on` has said against what is in the file. Answers how many steps it has done. */
function check(answer: string, { directory, path }: { directory: string; path: string }): number {
  const begun = new Set<string>();
  const done = new Set<string>();
  for (const line of answer.split('\n')) {
    if (line.startsWith('begin ')) begun.add(line.slice(6));
    else if (line.startsWith('done ')) done.add(line.slice(5));
    else if (line !== '')
      assert.match(line, /^fail the store failed: (reading or writing its file failed|no space is left)/);
  }
  const store = SqliteStore.open(path, { busyTimeoutMs: 0, create: false });
  store.addAgent('ada');
  assert.deepEqual([isNoted(store), store.isScrubDue], [false, false]);
  const connection = connectionOf(store);
  assert.deepEqual(connection.once('PRAGMA integrity_check'), [['ok']]);
  connection.exec("INSERT INTO memory_words (memory_words, rank) VALUES ('integrity-check', 1)");
  const bytes = Buffer.concat(readdirSync(directory).map((name) => readFileSync(join(directory, name))));
  const ids = Array.from({ length: STEPS }, (_, n) => `${n}`);
  store.memories(ids, 99_999_999).forEach((found, n) => {
    if (found !== undefined) {
      assert.ok(begun.has(`+${n}`) && !done.has(`-${n}`), `${n} is there`);
      assert.equal(found.body, markOf(n).repeat([5, 15, 25, 60][n % 4] ?? 0));
    } else {
      assert.ok(!done.has(`+${n}`) || begun.has(`-${n}`), `${n} is not there`);
      if (begun.has(`-${n}`)) assert.ok(!bytes.includes(markOf(n)), `something of ${n} is left`);
    }
  });
  store.close();
  return done.size;
}

test('a process that is killed at any moment', async () => {
  for (const lines of [1, 2, 9, 14, 15, 40, 77, 120]) {
    const file = made();
    const count = check(await killedAfter(lines, 'go on', file.path, STEPS), file);
    assert.ok(count >= Math.floor(lines / 2), `${count} steps in ${lines} lines`);
  }
});

test('a disk that has no room', { skip: process.platform === 'win32' }, async () => {
  const whole = () => statSync(made().path).size / 512;
  let halves = 0;
  // In its log, and when that is moved into the file, at the first page that is new or a later one.
  for (const blocks of [80, 200, whole() + 6, whole() + 20]) {
    const file = made();
    const answer = await inLimits(blocks, 'go on', file.path, STEPS);
    assert.match(answer, /^fail /m);
    halves += Number(statSync(file.path).size % 4_096 !== 0);
    check(answer, file);
  }
  assert.ok(halves > 0, 'this test has lost its point');
});

test('a process that ends while it makes the store', async () => {
  const { path } = place();
  await inProcess('end while it makes the store', path, 0);
  assert.ok(statSync(path).size > 0 && existsSync(`${path}-journal`), 'this test has lost its point');
  assert.equal(failure(() => SqliteStore.open(path, { create: false })).kind, 'absent');
  const store = SqliteStore.open(path);
  assert.equal(store.addAgent('ada'), true);
  store.close();
  assert.equal(existsSync(`${path}-journal`), false);
  SqliteStore.open(path, { create: false }).close();
});

test(
  'after the disk has failed, the next unit has another connection',
  { skip: process.platform === 'win32' },
  async () => {
    const { path } = made();
    const answer = await inLimits(2_000, 'have no room', path, 0);
    const [why, isUsedYet, isUsedStill, isAddedAgain] = JSON.parse(answer) as unknown[];
    assert.match(`${why}`, /^the store failed: (reading or writing its file failed|no space is left)/);
    assert.deepEqual([isUsedYet, isUsedStill, isAddedAgain], [true, false, false]);
    const store = SqliteStore.open(path);
    assert.deepEqual([store.addAgent('before'), store.addAgent('after')], [false, false]);
    assert.equal(connectionOf(store).once('SELECT count(*) FROM memories')[0]?.[0], 0n);
    store.close();
  },
);

test("an error that is not the disk's leaves the connection", () => {
  const { path } = made();
  const store = SqliteStore.open(path, { busyTimeoutMs: 0 });
  const other = SqliteStore.open(path, { busyTimeoutMs: 0 });
  const connection = connectionOf(store);
  other.beginUnit('write');
  assert.equal(failure(() => store.addAgent('ada')).kind, 'busy');
  other.rollBack();
  store.beginUnit('write');
  assert.equal(failure(() => store.insertDelivery(delivery('child', 'x', { snapshotRef: 'none' }))).kind, 'damaged');
  store.rollBack();
  store.addAgent('ada');
  assert.equal(connectionOf(store), connection);
  for (const one of [store, other]) one.close();
});
