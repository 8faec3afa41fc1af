// What a search looks for in a text (R42): the cases of host/src/search.rs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expressions, parseQuery, score } from '../dist/search.js';

const of = (text: string) => expressions(parseQuery(text));

test('any text is a query, and nothing in it is an operator', () => {
  assert.deepEqual(of('Login AND form*'), ['"login"', '"and"', '"form"']);
  const operators = of('"a" NEAR(b, 2) col:c ^d -e');
  assert.deepEqual(operators, ['"a"', '"near"', '"b"', '"2"', '"col"', '"c"', '"d"', '"e"']);
  const nothing = ['', ' \n', '"*"', '()', '\0', '\u{3000}\u{85}', '🎉👩‍👩‍👧', '— «…»', '\u{202e}', '\u{1680}\u{200b}'];
  for (const text of nothing) assert.deepEqual(of(text), [], JSON.stringify(text));
  assert.deepEqual(of('a a A'), ['"a"']);
});

test('letters, marks and numbers of any script make words', () => {
  assert.deepEqual(of('ª º µ ½ ² ×÷'), ['"ª"', '"º"', '"µ"', '"½"', '"²"']);
  assert.deepEqual(of('cafe\u{301} हिन्दी Ⅷ٣'), ['"cafe\u{301}"', '"हिन्दी"', '"ⅷ٣"']);
  assert.deepEqual(of('ΟΔΟΣ İ 𝔘x'), ['"οδος"', '"i\u{307}"', '"𝔘x"']);
  // A private letter, and one that nobody has assigned.
  assert.deepEqual(of('\u{e000} \u{378}'), ['"\u{e000}"', '"\u{378}"']);
});

test('runs are phrases of pairs', () => {
  assert.deepEqual(of('日本語'), ['"日本 本語"']);
  assert.deepEqual(of('字'), ['"字" *']);
  assert.deepEqual(of('SQLiteを使う'), ['"sqlite"', '"を使 使う"']);
  assert.deepEqual(of('東京。大阪'), ['"東京"', '"大阪"']);
  assert.deepEqual(of('𠀋𠮷x'), ['"𠀋𠮷"', '"x"']);
});

test('a long query is cut', () => {
  const many = Array.from({ length: 1_000 }, (_, n) => `w${n}`).join(' ');
  assert.equal(of(many).length, 32);
  assert.equal(of('x'.repeat(1_024))[0]?.length, 1_026);
  assert.deepEqual(of('x'.repeat(1_025)), []);
  // Counted in bytes.
  assert.equal(of('é'.repeat(512)).length, 1);
  assert.deepEqual(of('é'.repeat(513)), []);
  assert.deepEqual(of('x'.repeat(10_000_000)), []);
  assert.equal([...of('漢'.repeat(1_000_000)).join('')].length, 63 * 3 + 1);
  assert.equal([...of('𠀋'.repeat(100_000)).join('')].length, 63 * 3 + 1);
});

test('words match whole and runs anywhere', () => {
  const count = (query: string, text: string) => score(parseQuery(query), text);
  assert.equal(count('form login', 'The LOGIN-form.'), 2);
  assert.equal(count('log', 'login'), 0);
  assert.equal(count('本語', '日本語だ'), 1);
  assert.equal(count('本大', '日本。大阪'), 0);
  assert.equal(count('sqlite', 'SQLiteを使う'), 1);
});
