// Long answers in parts: nothing is lost between two of them, and each is short enough for a harness to hand on whole.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inParts } from '../dist/parts.js';

const MARK = /\n\[part (\d+) of (\d+)(?:; ask for part (\d+) next)?\]$/;

function all(text: string): string[] {
  const first = inParts(text);
  const count = Number(MARK.exec(first)?.[2] ?? 1);
  return Array.from({ length: count }, (_, index) => inParts(text, index + 1));
}

test('a short answer is one part, as it is', () => {
  for (const text of ['', 'a', 'a\nb\n', 'x'.repeat(40_000)]) assert.equal(inParts(text), text);
});

test('the parts of a long one are the whole, and each is short', () => {
  const long = [
    'line\n'.repeat(20_000),
    'x'.repeat(200_000),
    '字'.repeat(100_000),
    `${'👩‍👩‍👧'.repeat(9_000)}\nend`,
    '\n'.repeat(5_000),
    `a\n${'b'.repeat(39_999)}\n${'c'.repeat(40_001)}\r\n`,
  ];
  for (const text of long) {
    const parts = all(text);
    assert.ok(parts.length > 1);
    for (const part of parts) {
      assert.ok(Buffer.byteLength(part) < 50_000 && part.split('\n').length < 2_000);
    }
    assert.equal(parts.map((part) => part.replace(MARK, '')).join(''), text);
    assert.match(parts[0]!, /ask for part 2 next/);
    assert.doesNotMatch(parts.at(-1)!, /next/);
  }
});

test('a part that is not there is said', () => {
  assert.match(inParts('a', 2), /no part 2; there are 1/);
  assert.match(inParts('a', 0), /no part 0/);
});
