// From rows to the contract's records and back. Whatever comes out of the file is checked: a value of the wrong type, a
// number out of range or a text that is not UTF-8 is `damaged`.

import type { Allowance } from '../allowance.js';
import type {
  Attributes,
  Audience,
  Given,
  HandOver,
  Instant,
  Link,
  Memory,
  Offer,
  Page,
  Project,
  Session,
  SessionKey,
  Snapshot,
  StoredPage,
} from '../contract.js';
import { type AuditRow, StoreFailure } from '../store.js';
import type { Value } from './driver.js';

/** The values of a row, in order. */
export type Row = readonly Value[];

const LAST_INSTANT = 2n ** 63n - 1n;

/** An instant as SQLite holds it. `too-large` beyond the year 292,278,994. */
export function instant(at: Instant): bigint {
  if (at > LAST_INSTANT) throw new StoreFailure('too-large', `${at} is too late an instant for this store`);
  return at;
}

/**
 * A list of texts as one JSON parameter. A text with a NUL is written as null, which equals nothing: SQLite would read
 * it as the part before the NUL, and so as another name.
 */
export function texts(list: readonly string[]): string {
  return JSON.stringify(list.map(whole));
}

/** A list of session keys as one JSON parameter. */
export function keys(list: readonly SessionKey[]): string {
  return JSON.stringify(list.map((key) => [whole(key.harness), whole(key.id)]));
}

function whole(text: string): string | null {
  return text.includes('\0') ? null : text;
}

/** Anything else that is stored as JSON, and only read by hosts. */
export function json(value: readonly string[] | Attributes): string {
  return JSON.stringify(value);
}

function damaged(index: number, why: string): StoreFailure {
  return new StoreFailure('damaged', `column ${index} of a row ${why}`);
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A text, which statements.ts has made its bytes, or JSON that SQLite made. */
export function text(row: Row, index: number): string {
  const value = row[index];
  if (typeof value === 'string') return value;
  if (!(value instanceof Uint8Array)) throw damaged(index, 'is not a text');
  try {
    return UTF_8.decode(value);
  } catch {
    throw damaged(index, 'is not UTF-8');
  }
}

/** A text, or undefined for NULL. */
export function textIf(row: Row, index: number): string | undefined {
  return row[index] === null ? undefined : text(row, index);
}

/** An integer. */
export function integer(row: Row, index: number): bigint {
  const value = row[index];
  if (typeof value !== 'bigint') throw damaged(index, 'is not an integer');
  return value;
}

/** A `u32`. */
export function number(row: Row, index: number): number {
  const value = integer(row, index);
  if (value < 0n || value > 0xffff_ffffn) throw damaged(index, `is out of range: ${value}`);
  return Number(value);
}

/** A truth value. */
export function truth(row: Row, index: number): boolean {
  return integer(row, index) !== 0n;
}

function instantOf(row: Row, index: number): Instant {
  const at = integer(row, index);
  if (at < 0n) throw damaged(index, `is before 1970: ${at}`);
  return at;
}

function instantIf(row: Row, index: number): Instant | undefined {
  return row[index] === null ? undefined : instantOf(row, index);
}

function parsed(row: Row, index: number): unknown {
  try {
    return JSON.parse(text(row, index));
  } catch (error) {
    if (error instanceof StoreFailure) throw error;
    throw damaged(index, 'is not JSON');
  }
}

/** Half a character, which JSON can name and no text may hold. */
const HALF = /\p{Surrogate}/u;

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string' && !HALF.test(item));
}

function textsOf(row: Row, index: number): string[] {
  const value = parsed(row, index);
  if (!isTexts(value)) throw damaged(index, 'is not a list of texts');
  return value;
}

function attributes(row: Row, index: number): Attributes {
  const value = parsed(row, index);
  const isPair = (item: unknown): item is [string, string] => isTexts(item) && item.length === 2;
  if (!Array.isArray(value) || !value.every(isPair)) throw damaged(index, 'is not a list of attributes');
  return value;
}

function sessionKey(row: Row, index: number): SessionKey {
  return { harness: text(row, index), id: text(row, index + 1) };
}

/** A session key, if there is one. */
export function sessionKeyIf(row: Row, index: number): SessionKey | undefined {
  const [harness, id] = [textIf(row, index), textIf(row, index + 1)];
  return harness === undefined || id === undefined ? undefined : { harness, id };
}

function audience(row: Row, index: number): Audience {
  const word = text(row, index);
  if (word === 'agent' || word === 'project' || word === 'workspace') return word;
  throw damaged(index, 'is no audience');
}

/**
 * A memory, from column `first` on; its body if the allowance admits it. undefined: a row that cannot be read. It is
 * left out, and does not count.
 */
export function memory(row: Row, first: number, allowance: Allowance): Memory | undefined {
  try {
    const body = text(row, first + 12);
    const bytes = (row[first + 12] as Uint8Array).length;
    const read: Memory = {
      id: text(row, first),
      owner: textIf(row, first + 1),
      project: textIf(row, first + 2),
      audience: audience(row, first + 3),
      active: truth(row, first + 4),
      expiresAt: instantIf(row, first + 5),
      trusted: truth(row, first + 6),
      category: text(row, first + 7),
      priority: number(row, first + 8),
      version: integer(row, first + 9).toString(),
      updatedAt: instantIf(row, first + 10),
      attributes: attributes(row, first + 11),
      bytes,
      body: undefined,
    };
    if (allowance.admits(bytes)) read.body = body;
    return read;
  } catch (error) {
    if (error instanceof StoreFailure) return undefined;
    throw error;
  }
}

/** A project, from column `first` on. */
export function project(row: Row, first: number): Project {
  return {
    id: text(row, first),
    workspace: textIf(row, first + 1),
    memoryOn: truth(row, first + 2),
    trusted: truth(row, first + 3),
    attributes: attributes(row, first + 4),
  };
}

/** A session with its project, from column `first` on. */
export function session(row: Row, first: number): Session {
  return {
    key: sessionKey(row, first),
    memoryOn: truth(row, first + 2),
    agent: textIf(row, first + 3),
    project: row[first + 7] === null ? undefined : project(row, first + 7),
    parent: sessionKeyIf(row, first + 4),
    attributes: attributes(row, first + 6),
  };
}

/** A link. */
export function link(row: Row): Link {
  return {
    fromAgent: text(row, 0),
    toAgent: text(row, 1),
    direction: truth(row, 2) ? 'two-way' : 'one-way',
    kind: text(row, 3),
    attributes: attributes(row, 4),
  };
}

/** A snapshot, from column `first` on. */
export function snapshot(row: Row, first: number): Snapshot {
  return {
    snapshotRef: text(row, first),
    owner: sessionKey(row, first + 1),
    createdAt: instantOf(row, first + 3),
    expiresAt: instantOf(row, first + 4),
    keepUntil: instantOf(row, first + 5),
    revokedAt: instantIf(row, first + 6),
    pages: number(row, first + 7),
    state: text(row, first + 8),
    memoryIds: textsOf(row, first + 9),
  };
}

/** A page, from column `first` on. */
export function page(row: Row, first: number): Page {
  return {
    number: number(row, first),
    check: text(row, first + 1),
    state: text(row, first + 2),
    text: text(row, first + 3),
  };
}

/** A hand-over without its id, from column `first` on. */
function handOver(row: Row, id: string, first: number): HandOver {
  return {
    id,
    parent: sessionKey(row, first),
    callId: textIf(row, first + 2),
    agentType: textIf(row, first + 3),
    snapshotRef: textIf(row, first + 4),
    idsKey: textIf(row, first + 5),
    children: number(row, first + 6),
    createdAt: instantOf(row, first + 7),
    expiresAt: instantOf(row, first + 8),
    keepUntil: instantOf(row, first + 9),
    taskDigest: text(row, first + 10),
    taskHead: text(row, first + 11),
    task: text(row, first + 12),
    state: text(row, first + 13),
  };
}

/** A hand-over and how many places are taken. */
export function offer(row: Row): Offer {
  return { handOver: handOver(row, text(row, 0), 1), taken: number(row, 15), nextPlace: number(row, 16) };
}

/** A delivery with its hand-over. */
export function given(row: Row): Given {
  const taken = textIf(row, 4);
  return {
    delivery: {
      child: sessionKey(row, 0),
      occasion: text(row, 2),
      snapshotRef: textIf(row, 3),
      handOver: taken,
      place: number(row, 5),
      at: instantOf(row, 6),
      keepUntil: instantOf(row, 7),
      state: text(row, 8),
      check: textIf(row, 9),
      notice: textIf(row, 10),
    },
    handOver: taken === undefined ? undefined : handOver(row, taken, 11),
  };
}

/** One text of a replay. */
export function storedPage(row: Row): StoredPage {
  return {
    snapshotRef: textIf(row, 0),
    revokedAt: instantIf(row, 1),
    pages: number(row, 2),
    check: text(row, 3),
    text: textIf(row, 4) ?? text(row, 5),
  };
}

/** An audit entry. */
export function audit(row: Row): AuditRow {
  return {
    at: instantOf(row, 0),
    session: sessionKeyIf(row, 1),
    export: text(row, 3),
    component: text(row, 4),
    rolledBack: truth(row, 5),
    entry: {
      action: text(row, 6),
      outcome: text(row, 7),
      snapshotRefs: textsOf(row, 8),
      memoryIds: textsOf(row, 9),
      attributes: attributes(row, 10),
    },
  };
}
