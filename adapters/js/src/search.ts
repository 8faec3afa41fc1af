// What a search looks for, from any text (R42): words, and runs of characters of scripts that are written without
// spaces. `host/sql/migrations/001.sql` says how bodies are indexed for it; stores without an index score rows by it.

import type { Memory, SearchFilter } from './contract.js';

/** How many words and runs of a query are looked for; the rest of it is not. */
const MAX_TERMS = 32;

/** How many characters of a run are looked for, the first. */
const MAX_RUN = 64;

/** How many bytes a word may have; a longer one is looked for nowhere. */
const MAX_WORD = 1_024;

/** Chinese, Japanese and Korean letters. The same ranges stand in the view `memory_texts`. */
const RUN =
  '\\u{1100}-\\u{11ff}\\u{3005}-\\u{3007}\\u{3041}-\\u{309f}\\u{30a1}-\\u{30fa}\\u{30fc}-\\u{30ff}\\u{3105}-\\u{318f}' +
  '\\u{31a0}-\\u{31ff}\\u{3400}-\\u{4dbf}\\u{4e00}-\\u{9fff}\\u{a960}-\\u{a97f}\\u{ac00}-\\u{d7ff}\\u{f900}-\\u{faff}' +
  '\\u{ff66}-\\u{ffdc}\\u{20000}-\\u{3ffff}';

/** What is a letter, a digit or a number in any script. */
const ALPHANUMERIC = '\\p{Alphabetic}\\p{Nd}\\p{Nl}\\p{No}';

/** ASCII, spaces, controls, and the blocks of punctuation, symbols and pictographs beyond ASCII. */
const PARTING =
  '\\0-\\u{bf}\\p{White_Space}\\p{Cc}\\u{d7}\\u{f7}\\u{2000}-\\u{2bff}\\u{2e00}-\\u{2fff}\\u{3000}-\\u{303f}\\u{30fb}' +
  '\\u{fe00}-\\u{fe1f}\\u{fe30}-\\u{fe6f}\\u{ff00}-\\u{ff65}\\u{fff0}-\\u{ffff}\\u{1f000}-\\u{1faff}' +
  '\\u{e0000}-\\u{e0fff}';

/** Where a word or a run begins. A mark that is no letter (a vowel sign, a virama) belongs to its word. */
const BEGIN = new RegExp(`[${RUN}${ALPHANUMERIC}]|[^${PARTING}]`, 'gu');

/** Where a run ends. */
const END_OF_RUN = new RegExp(`[^${RUN}]`, 'gu');

/** Where a word ends. */
const END_OF_WORD = new RegExp(`[${RUN}]|(?![${ALPHANUMERIC}])[${PARTING}]`, 'gu');

const IS_RUN = new RegExp(`^[${RUN}]`, 'u');

/** The words and runs of a text. Each is found by looking for one character: a text may be millions of them long. */
function* parts(text: string): Generator<Term> {
  for (let end = 0; ;) {
    const start = next(BEGIN, text, end);
    if (start === text.length) return;
    const isRun = IS_RUN.test(text.slice(start, start + 2));
    end = next(isRun ? END_OF_RUN : END_OF_WORD, text, start);
    const part = text.slice(start, end);
    yield isRun ? { run: part } : { word: part };
  }
}

/** Where such a character comes next, or where the text ends. */
function next(character: RegExp, text: string, from: number): number {
  character.lastIndex = from;
  return character.exec(text)?.index ?? text.length;
}

/** A whole word in lower case, or characters that are found wherever they stand together. */
type Term = { word: string } | { run: string };

/** A query, without duplicates. */
export interface Query {
  readonly terms: readonly Term[];
}

/** Any text is a query; it has no operators. */
export function parseQuery(text: string): Query {
  const terms = new Map<string, Term>();
  for (const part of parts(text)) {
    if (terms.size >= MAX_TERMS) break;
    if ('run' in part) {
      const run = firstOf(part.run, MAX_RUN);
      terms.set(`run ${run}`, { run });
    } else if (Buffer.byteLength(part.word) <= MAX_WORD) {
      const word = part.word.toLowerCase();
      terms.set(`word ${word}`, { word });
    }
  }
  return { terms: [...terms.values()] };
}

/** How many of the query's words and runs are in this text; 0: it does not match. */
export function score(query: Query, text: string): number {
  const words = new Set<string>();
  for (const part of parts(text.toLowerCase())) {
    if ('word' in part) words.add(part.word);
  }
  return query.terms.filter((term) => ('word' in term ? words.has(term.word) : text.includes(term.run))).length;
}

/**
 * A query's terms as FTS5 expressions over the texts of the view `memory_texts`, where a run is a phrase of its
 * overlapping pairs of characters.
 */
export function expressions(query: Query): string[] {
  return query.terms.map((term) => ('word' in term ? quoted(term.word) : phrase([...term.run])));
}

function phrase(characters: string[]): string {
  // Every character of a run begins a pair, or is its last.
  if (characters.length === 1) return `${quoted(characters.join(''))} *`;
  const pairs = characters.slice(1).map((character, before) => `${characters[before]}${character}`);
  return quoted(pairs.join(' '));
}

/** A string of FTS5: nothing in it is an operator. */
function quoted(text: string): string {
  return `"${text.replaceAll('"', '""')}"`;
}

/** The first characters of a text. It may be long, so that it is not taken apart whole. */
function firstOf(text: string, count: number): string {
  return [...text.slice(0, 2 * count)].slice(0, count).join('');
}

/** Whether a search with this filter may find this row (`memories.search-filter`). */
export function admits(filter: SearchFilter, row: Memory): boolean {
  const { owner, sharedIn, projects, at, trustedOnly } = filter;
  const isShared =
    sharedIn !== undefined &&
    (row.audience === 'workspace' || (row.audience === 'project' && row.project === sharedIn));
  return (
    row.owner !== undefined &&
    (row.owner === owner || isShared) &&
    row.project !== undefined &&
    projects.includes(row.project) &&
    row.active &&
    (row.expiresAt === undefined || row.expiresAt > at) &&
    (row.trusted || !trustedOnly)
  );
}
