// The runner of the scenarios can fail: on a misspelt key or condition, on a check that checks nothing, on a run of nothing.
// That the scenarios pass is `npm run conformance`.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkExpectation, difference, files, readScenarios, run } from '../dist/conformance.js';
import { fromContract, parseJson, toParams } from '../dist/json.js';
import type { Json } from '../dist/json.js';

/** Write a file with one scenario, run it, and say why it fails; undefined: it passes. */
async function outcome(steps: Json, more: Record<string, Json> = {}): Promise<string | undefined> {
  const path = join(mkdtempSync(join(tmpdir(), 'scenarios-')), 'S.json');
  const file = { rules: ['R0'], about: 'x', now: 1000, ...more, scenarios: [{ name: 'a', steps }] };
  writeFileSync(path, JSON.stringify(file));
  const failures: (string | undefined)[] = [];
  const { passed, failed } = await run([path], ({ failure }) => failures.push(failure));
  assert.equal(passed + failed, 1);
  assert.equal(failed === 0, failures[0] === undefined);
  return failures[0];
}

const DESCRIBE = { call: 'about.describe', expect: { ok: {} } };

test('a scenario passes, and fails at the first step that fails', async () => {
  assert.equal(await outcome([DESCRIBE]), undefined);
  const wrong = { call: 'about.describe', expect: { ok: { name: 'another' } } };
  assert.match(
    (await outcome([DESCRIBE, wrong]))!,
    /^step 2: about\.describe: at \/ok\/name: expected "another", but it is "/,
  );
  assert.match((await outcome([DESCRIBE], { setup: [wrong] }))!, /^setup 1: /);
});

test('a misspelt key fails, wherever it stands', async () => {
  const cases: [Json, RegExp][] = [
    [[{ ...DESCRIBE, expekt: {} }], /unknown key "expekt"/],
    [[{ cal: 'about.describe' }, DESCRIBE], /it is none of call, audit, row, put-agent/],
    [[{ 'put-agent': 'a', bout: 'x' }, DESCRIBE], /unknown key "bout"/],
    [[{ 'put-project': { id: 'p', memory: false } }, DESCRIBE], /unknown key "memory"/],
    [[{ 'put-session': { key: { harness: 'h', id: 's', x: 1 } } }, DESCRIBE], /unknown key "x"/],
    [[{ 'put-link': { from: 'a', to: 'b', direction: 'both' } }, DESCRIBE], /"both" is no direction/],
    [[{ 'edit-memory': { id: '1', body: 'x' } }, DESCRIBE], /there is no such memory to edit/],
    [[{ clock: { 'add-seconds': 1, set: 1 } }, DESCRIBE], /either set or add-seconds/],
    [[{ call: 'about.describes', expect: {} }], /there is no export about\.describes/],
    [[{ call: 'about.describe', args: { x: 1 }, expect: {} }], /has no argument "x"/],
    [
      [{ call: 'tools.get', args: { session: { harness: 'h' } }, expect: {} }],
      /session\.id is null, and a string is needed/,
    ],
    [[{ audit: true }, DESCRIBE], /an audit step needs expect/],
    [[{ ...DESCRIBE, save: { x: '/ok/nothing' } }], /nothing at \/ok\/nothing/],
    [[{ 'put-agent': '$x' }, DESCRIBE], /there is no variable "x"/],
  ];
  for (const [steps, why] of cases) assert.match((await outcome(steps)) ?? 'it passed', why, JSON.stringify(steps));
});

test('variables that never end are an error', async () => {
  const put = [{ 'put-agent': '$v0' }, DESCRIBE];
  assert.match((await outcome(put, { let: { v0: ['$a'], a: '$v0' } }))!, /in a circle/);
  // Each twice the one before: 2^40 of the last.
  const doubled: Record<string, Json> = { v40: 'x' };
  for (let n = 0; n < 40; n++) doubled[`v${n}`] = [`$v${n + 1}`, `$v${n + 1}`];
  assert.match((await outcome(put, { let: doubled }))!, /too many values/);
});

test('a misspelt condition is an error everywhere', async () => {
  for (const expected of [
    { $contians: 'x' },
    { a: [{ $not: { $contians: 'x' } }] },
    { $has: { $length: '3' } },
    { $lacks: [] },
    { $bytes: -1 },
  ] as Json[]) {
    assert.throws(() => checkExpectation(expected), JSON.stringify(expected));
  }
  checkExpectation({ a: { $not: { $contains: ['x'], $bytes: 1 } } });
  const why = await outcome([{ call: 'about.describe', expect: { ok: { name: { $not: { $contians: 'x' } } } } }]);
  assert.match(why!, /\$contians is no condition/);
});

test('a call that fails and of which nothing was expected', async () => {
  const call = { call: 'tools.get', args: { session: { harness: 'h', id: 's' }, ids: [] } };
  assert.match((await outcome([call, DESCRIBE]))!, /tools\.get failed and nothing was expected of it: \{"error"/);
});

test('files that check nothing are refused', () => {
  const file = (steps: Json) => ({ rules: ['R0'], about: 'x', now: 0, scenarios: [{ name: 'a', steps }] });
  readScenarios(file([DESCRIBE]));
  assert.throws(() => readScenarios(file([{ call: 'about.describe' }])), /cannot fail/);
  assert.throws(() => readScenarios({ rules: [], about: 'x', now: 0, scenarios: [] }), /no scenarios/);
  assert.throws(() => readScenarios({ rule: 'R0' }), /unknown key/);
  assert.throws(() => readScenarios({ rules: [], about: 'x', now: 0.5, scenarios: [] }), /./);
});

test('an expectation says what it says', () => {
  const actual = { a: [1, { b: 'some text, some', more: true }], c: null, n: 3, never: 9_223_372_036_854_775_807n };
  for (const expected of [
    {},
    { a: [1, { b: { '$starts-with': 'some' } }] },
    { a: [{ '$at-least': 1, '$at-most': 1 }, { b: { $contains: ['some', 'text'], $once: 'text', $bytes: 15 } }] },
    { a: { $has: { b: { $lacks: 'other' } }, $length: 2 } },
    { c: null, n: { $not: 4 }, never: 9_223_372_036_854_775_807n },
  ] as Json[]) {
    assert.equal(difference(expected, actual), undefined);
  }
  for (const expected of [
    { a: [1] },
    { d: 1 },
    { c: 0 },
    { a: [1, { b: { $contains: ['some', 'other'] } }] },
    { a: [1, { b: { $once: 'some' } }] },
    { a: { $length: 1 } },
    { c: { $lacks: 'x' } },
    { n: '3' },
    { never: 9_223_372_036_854_775_806n },
    { toString: {} },
  ] as Json[]) {
    assert.notEqual(difference(expected, actual), undefined);
  }
  assert.throws(() => difference({ a: { $unknown: 1 } }, actual), /no operator/);
});

test('large numbers stay exact, and arguments are of their types', () => {
  assert.deepEqual(parseJson('{"a":9223372036854775807,"b":"12345678901234567890","c":1e17,"d":9007199254740991}'), {
    a: 9_223_372_036_854_775_807n,
    b: '12345678901234567890',
    c: 1e17,
    d: 9_007_199_254_740_991,
  });
  const session = { harness: 'h', id: 's' };
  assert.deepEqual(
    toParams('child.deliver', {
      child: session,
      occasion: 'o',
      claim: { tag: 'parent-session', val: { 'agent-type': 'x' } },
    }),
    [session, 'o', { tag: 'parent-session', val: { task: undefined, agentType: 'x', registersAll: false } }],
  );
  const wrong: Json[] = [
    { tag: 'parent' },
    { tag: 'ids', val: {} },
    { tag: 'parent-session', val: { agentType: 'x' } },
  ];
  for (const claim of wrong) {
    assert.throws(() => toParams('child.deliver', { child: session, occasion: 'o', claim }), JSON.stringify(claim));
  }
  for (const number of [-1, 0.5, 4_294_967_296, '1', null]) {
    assert.throws(() => toParams('upkeep.sweep', { limit: number }), `${number}`);
  }
  assert.deepEqual(fromContract({ frozenAt: 5n, snapshotRef: undefined, size: { tag: 'expired', val: undefined } }), {
    'frozen-at': 5,
    'snapshot-ref': null,
    size: { tag: 'expired' },
  });
});

test('a run of nothing is an error', () => {
  assert.throws(() => files([]), /no files/);
  assert.throws(() => files([mkdtempSync(join(tmpdir(), 'empty-'))]), /no \.json file/);
});

test('a file that is not there or is no JSON is a failure', async () => {
  const path = join(mkdtempSync(join(tmpdir(), 'broken-')), 'B.json');
  const failures: string[] = [];
  const report = ({ name, failure }: { name: string; failure: string | undefined }) =>
    failures.push(`${name}: ${failure}`);
  assert.deepEqual(await run([path], report), { passed: 0, failed: 1 });
  writeFileSync(path, '{');
  assert.deepEqual(await run([path], report), { passed: 0, failed: 1 });
  assert.match(failures[0]!, /^B: ENOENT/);
  assert.match(failures[1]!, /^B: not JSON/);
});

test('the program says how it went', async () => {
  const program = (...args: string[]) =>
    new Promise<{ code: number; out: string; err: string }>((resolve) => {
      const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
      execFile(process.execPath, [cli, ...args], (error, out, err) =>
        resolve({ code: error ? Number(error.code) : 0, out, err }),
      );
    });
  const path = join(mkdtempSync(join(tmpdir(), 'program-')), 'P.json');
  const scenarios = [
    { name: 'good', steps: [DESCRIBE] },
    { name: 'bad', steps: [{ call: 'about.describe', expect: { ok: null } }] },
  ];
  writeFileSync(path, JSON.stringify({ rules: [], about: 'x', now: 0, scenarios }));
  const ran = await program('conformance', path);
  assert.equal(ran.code, 1);
  assert.match(ran.out, /^PASS P\/good\nFAIL P\/bad: step 1: about\.describe: at \/ok: .*\n1 passed, 1 failed\n$/);
  writeFileSync(path, JSON.stringify({ rules: [], about: 'x', now: 0, scenarios: scenarios.slice(0, 1) }));
  assert.deepEqual(await program('conformance', path), { code: 0, out: 'PASS P/good\n1 passed, 0 failed\n', err: '' });
  assert.match((await program('--help')).out, /conformance/);
  assert.match((await program('conformance', '--help')).out, /Example/);
  for (const misuse of [[], ['conform'], ['conformance'], ['conformance', '--quiet', path]]) {
    const { code, out, err } = await program(...misuse);
    assert.deepEqual([code, out], [2, ''], misuse.join(' '));
    assert.match(err, /^error: /);
  }
});
