// Exact token counts, for the models whose tokenizers are public (R33): which model has which encoding, and the encoding
// itself over the tables of generated/. For every other model the answer is undefined, never an estimate: the component
// has an upper bound for that.
//
// Written here since the libraries merge in quadratic time, so that 64 KB of one letter take them seconds, and since what
// JavaScript's `\s` matches is not what it matches in the encodings' patterns.

import { readFileSync } from 'node:fs';

/**
 * The number of tokens of each text for `model`, in the order given; undefined if its tokenizer is not public.
 *
 * The text of a special token, such as `<|endoftext|>`, counts as ordinary text. What a provider adds around messages is
 * not in the text and not counted. The first call for an encoding reads its table, once for the process.
 */
export function countTokens(model: string, texts: string[]): number[] | undefined {
  const name = encodingOf(model);
  if (name === undefined) return undefined;
  const encoding = (loaded[name] ??= { pieces: PIECES[name], table: readTable(name) });
  try {
    return texts.map((text) => count(encoding, text));
  } catch (error) {
    // Millions of letters without a space are more than V8 keeps track of in a pattern.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

type EncodingName = 'o200k_base' | 'cl100k_base';

/**
 * Model families by encoding, as OpenAI's own `tiktoken` maps them. A family is its name alone or followed by `-` and a
 * variant or a date: `gpt-4o`, `gpt-4o-mini`, but not `gpt-40`, nor a `gpt-5.1` of which nothing is published.
 */
const FAMILIES: readonly [EncodingName, readonly string[]][] = [
  ['o200k_base', ['gpt-5', 'gpt-4.5', 'gpt-4.1', 'gpt-4o', 'chatgpt-4o', 'gpt-oss', 'o1', 'o3', 'o4']],
  ['cl100k_base', ['gpt-4', 'gpt-3.5-turbo', 'gpt-35-turbo', 'text-embedding-3', 'text-embedding-ada-002']],
];

/** The encoding of a model, by its name with or without the provider's prefix, or by the encoding's own name. */
export function encodingOf(model: string): EncodingName | undefined {
  if (model === 'o200k_base' || model === 'cl100k_base') return model;
  const name = model.startsWith('openai/') ? model.slice('openai/'.length) : model;
  const isOf = (family: string) =>
    name === family || (name.startsWith(`${family}-`) && name.length > family.length + 1);
  return FAMILIES.find(([, families]) => families.some(isOf))?.[0];
}

interface Encoding {
  /** Parts a text into the pieces that are encoded each by itself. */
  pieces: RegExp;
  table: Table;
}

const loaded: Partial<Record<EncodingName, Encoding>> = {};

// `\s` of the published patterns is White_Space, which has U+0085 and not U+FEFF, other than JavaScript's; and a case
// that does not count makes U+017F an `s`.
const CONTRACTION = "'(?:[sS\\u017f]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])";
const SPACE = '\\p{White_Space}';
const UPPER = '\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}';
const LOWER = '\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}';
const BEFORE = '[^\\r\\n\\p{L}\\p{N}]?';

const PIECES: Record<EncodingName, RegExp> = {
  o200k_base: pattern([
    `${BEFORE}[${UPPER}]*[${LOWER}]+(?:${CONTRACTION})?`,
    `${BEFORE}[${UPPER}]+[${LOWER}]*(?:${CONTRACTION})?`,
    '\\p{N}{1,3}',
    ` ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n/]*`,
    `${SPACE}*[\\r\\n]+`,
    `${SPACE}+(?!\\P{White_Space})`,
    `${SPACE}+`,
  ]),
  cl100k_base: pattern([
    CONTRACTION,
    `${BEFORE}\\p{L}+`,
    '\\p{N}{1,3}',
    ` ?[^${SPACE}\\p{L}\\p{N}]+[\\r\\n]*`,
    `${SPACE}*[\\r\\n]+`,
    `${SPACE}+(?!\\P{White_Space})`,
    `${SPACE}+`,
  ]),
};

function pattern(alternatives: string[]): RegExp {
  return new RegExp(alternatives.join('|'), 'gu');
}

/** The tokens of an encoding, found by their bytes: a hash table with open addressing. */
interface Table {
  /** All tokens' bytes, as in the file. */
  bytes: Uint8Array;
  /** Where each token's bytes begin, by rank. */
  starts: Int32Array;
  /** By hash: rank and 1, or 0 for a free slot. */
  slots: Int32Array;
  /** The rank of each pair of bytes, which are looked up most; -1: they are no token. */
  pairs: Int32Array;
}

function readTable(name: EncodingName): Table {
  const bytes = new Uint8Array(readFileSync(new URL(`../generated/${name}.ranks`, import.meta.url)));
  const starts: number[] = [];
  for (let at = 0; at < bytes.length; at += 1 + bytes[at]!) starts.push(at + 1);
  let size = 1;
  while (size < 2 * starts.length) size *= 2;
  const table = { bytes, starts: Int32Array.from(starts), slots: new Int32Array(size), pairs: new Int32Array(65536) };
  table.pairs.fill(-1);
  starts.forEach((start, rank) => {
    const end = start + bytes[start - 1]!;
    let slot = hash(bytes, start, end) & (size - 1);
    while (table.slots[slot] !== 0) slot = (slot + 1) & (size - 1);
    table.slots[slot] = rank + 1;
    if (end - start === 2) table.pairs[(bytes[start]! << 8) | bytes[start + 1]!] = rank;
  });
  return table;
}

/** FNV-1a. */
function hash(bytes: Uint8Array, from: number, to: number): number {
  let hash = 0x811c9dc5;
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193);
  return hash ^ (hash >>> 15);
}

/** The rank of the token of these bytes, -1 if they are none. */
function rankOf(table: Table, text: Uint8Array, from: number, to: number): number {
  const length = to - from;
  if (length === 2) return table.pairs[(text[from]! << 8) | text[from + 1]!]!;
  if (length > 255) return -1;
  const mask = table.slots.length - 1;
  for (let slot = hash(text, from, to) & mask; table.slots[slot] !== 0; slot = (slot + 1) & mask) {
    const rank = table.slots[slot]! - 1;
    const start = table.starts[rank]!;
    if (table.bytes[start - 1] !== length) continue;
    let at = 0;
    while (at < length && table.bytes[start + at] === text[from + at]) at++;
    if (at === length) return rank;
  }
  return -1;
}

const UTF8 = new TextEncoder();

function count(encoding: Encoding, text: string): number {
  let tokens = 0;
  for (const [piece] of text.matchAll(encoding.pieces)) {
    const bytes = UTF8.encode(piece);
    tokens += rankOf(encoding.table, bytes, 0, bytes.length) >= 0 ? 1 : merged(encoding.table, bytes);
  }
  return tokens;
}

/**
 * How many tokens a piece becomes: of the neighbours that are a token together, those of the lowest rank are merged, the
 * first of them if there are several, until there are none. Parts are a linked list by their first bytes, and the pairs
 * are in a heap, so that a piece of n bytes takes n log n steps.
 */
function merged(table: Table, piece: Uint8Array): number {
  const length = piece.length;
  const next = new Int32Array(length + 1);
  const previous = new Int32Array(length + 1);
  /** The rank of the part and the next one together; what the heap says otherwise is out of date. */
  const ranks = new Int32Array(length + 1).fill(-1);
  const heap: number[] = [];
  const consider = (at: number) => {
    const middle = next[at]!;
    ranks[at] = middle < length ? rankOf(table, piece, at, next[middle]!) : -1;
    if (ranks[at]! >= 0) push(heap, ranks[at]! * POSITIONS + at);
  };
  for (let at = 0; at <= length; at++) {
    next[at] = at + 1;
    previous[at] = at - 1;
  }
  for (let at = 0; at < length; at++) consider(at);
  let parts = length;
  for (let least = pop(heap); least !== undefined; least = pop(heap)) {
    const at = least % POSITIONS;
    if (ranks[at] !== (least - at) / POSITIONS) continue;
    const gone = next[at]!;
    ranks[gone] = -1;
    next[at] = next[gone]!;
    previous[next[at]!] = at;
    parts -= 1;
    consider(at);
    if (previous[at]! >= 0) consider(previous[at]!);
  }
  return parts;
}

/** More than a text has bytes; together with a rank it is still an exact number. */
const POSITIONS = 2 ** 31;

/** Into a binary heap, which has the least number first. */
function push(heap: number[], number: number): void {
  let at = heap.length;
  for (let above = (at - 1) >> 1; at > 0 && heap[above]! > number; above = (at - 1) >> 1) {
    heap[at] = heap[above]!;
    at = above;
  }
  heap[at] = number;
}

/** The least number out of a heap. */
function pop(heap: number[]): number | undefined {
  const least = heap[0];
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return least;
  let at = 0;
  for (let below = 1; below < heap.length; below = 2 * at + 1) {
    if (below + 1 < heap.length && heap[below + 1]! < heap[below]!) below += 1;
    if (heap[below]! >= last) break;
    heap[at] = heap[below]!;
    at = below;
  }
  heap[at] = last;
  return least;
}
