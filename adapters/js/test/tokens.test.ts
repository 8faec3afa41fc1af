// R33: exact counts are those of OpenAI's own encodings. The expected numbers are the Rust host's (tests/tokens.rs), whose
// tokenizer is another one.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { countTokens, encodingOf } from '../dist/tokens.js';

const CORPUS = new URL('../../../tests/corpus/', import.meta.url);

const ENCODINGS = ['o200k_base', 'cl100k_base'] as const;

/** Each text's count in both encodings. */
function counts(texts: string[]): (number | undefined)[][] {
  const found = ENCODINGS.map((encoding) => countTokens(encoding, texts));
  return texts.map((_, index) => found.map((all) => all?.[index]));
}

test('models and their variants are known', () => {
  for (const model of [
    'o200k_base',
    'gpt-4o',
    'gpt-4o-mini',
    'gpt-4o-2024-11-20',
    'gpt-4.1-nano',
    'gpt-5',
    'chatgpt-4o-latest',
    'gpt-oss-120b',
    'o1',
    'o3-mini',
    'o4-mini',
    'openai/gpt-4o',
  ]) {
    assert.equal(encodingOf(model), 'o200k_base', model);
  }
  for (const model of ['cl100k_base', 'gpt-4', 'gpt-4-turbo-2024-04-09', 'gpt-3.5-turbo-16k', 'openai/gpt-4-turbo']) {
    assert.equal(encodingOf(model), 'cl100k_base', model);
  }
});

test('a name that only looks like a known one is unknown, and is not estimated', () => {
  for (const model of [
    '',
    'gpt-',
    'gpt-40',
    'gpt-4o-',
    'gpt-4omni',
    'gpt-5.1',
    'gpt-3.5',
    'o1x',
    'o2',
    'GPT-4o',
    ' gpt-4o',
    'my-gpt-4o',
    'openai/',
    'openai/openai/gpt-4o',
    'azure/gpt-4o',
    'o200k_base-x',
    'claude-sonnet-4',
    '__proto__',
  ]) {
    assert.equal(encodingOf(model), undefined, model);
    assert.equal(countTokens(model, ['x']), undefined, model);
  }
});

test('exact counts are exact', () => {
  const expected: [string, number, number][] = [
    ['', 0, 0],
    ['a', 1, 1],
    ['hello world', 2, 2],
    ['The quick brown fox jumps over the lazy dog.', 10, 10],
    ['1234567', 3, 3],
    ['tiktoken is great!', 6, 6],
    ['\n\n\n', 1, 1],
    ['  indented\n\n\n  twice  ', 7, 7],
    ['a.\n/b', 3, 3],
    ["don't", 1, 2],
    ["it's fine, isn't it?", 6, 8],
    ['fooBarBaz', 3, 4],
    ['antidisestablishmentarianism', 6, 6],
    ['你好，世界', 3, 6],
    ['안녕하세요', 2, 5],
    ['\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}\u{200d}\u{1f466}', 11, 18],
    ['SGVsbG8gd29ybGQ=', 11, 11],
    ['\0\0', 1, 2],
    // What JavaScript and the patterns do not both call a space.
    ['\ufeff a\ufeff\ufeff b', 4, 5],
    [' \u0085\u0085x', 5, 5],
    // A long s is an s where case does not count.
    ["a'ſ it'ſ", 6, 8],
  ];
  assert.deepEqual(
    counts(expected.map(([text]) => text)),
    expected.map(([, ...both]) => both),
  );
});

test('the corpus has the counts that the Rust host has', () => {
  const expected = {
    'base64.txt': [6982, 7333],
    'cjk.txt': [1382, 1994],
    'code.txt': [2241, 2227],
    'emoji.txt': [1069, 1391],
    'english.txt': [2667, 2693],
  };
  const names = Object.keys(expected);
  const texts = names.map((name) => readFileSync(new URL(name, CORPUS), 'utf8'));
  assert.deepEqual(counts(texts), Object.values(expected));
});

test('counts come in the order asked', () => {
  assert.deepEqual(countTokens('gpt-4o', ['', 'hello world', 'a']), [0, 2, 1]);
  assert.deepEqual(countTokens('gpt-4o', []), []);
  assert.deepEqual(countTokens('openai/gpt-4', ["don't"]), countTokens('cl100k_base', ["don't"]));
});

test('special tokens count as the text that they are', () => {
  for (const [index, both] of counts(['<|endoftext|>', '<|endofprompt|>', 'a <|fim_prefix|> b']).entries()) {
    for (const count of both) assert.ok(count! > 3, `${index}: ${count}`);
  }
});

/** No text may stop the host: on these runs a library that merges in quadratic time takes seconds. */
test('long runs are counted, and at once', () => {
  const expected: [string, number, number][] = [
    ['A', 8192, 8192],
    [' ', 512, 512],
    ['\n', 4096, 2048],
    ["a'", 32769, 32769],
    ['\u{4e2d}', 21845, 21845],
    ['\u{301}', 32768, 32768],
    ['1', 21846, 21846],
    ['-', 1024, 1024],
  ];
  const texts = expected.map(([unit]) => unit.repeat(65_536 / Buffer.byteLength(unit)));
  const began = performance.now();
  assert.deepEqual(
    counts(texts),
    expected.map(([, ...both]) => both),
  );
  // Some 0.3 s; gpt-tokenizer 4.0 takes 6 s for the first of them alone.
  assert.ok(performance.now() - began < 5_000, `${performance.now() - began} ms`);
});
