// The contract's values as JSON, in the notation of the scenarios (tests/scenarios/README.md), and calls by name: so a
// scenario can call any export. What an export takes is written down here, since jco's module does not say it.

import type { ExportName } from './exports.js';
import { ComponentFailure, PolicyError } from './host.js';
import type { Prefetch } from './host.js';
import { StoreFailure } from './store.js';

/** A value of JSON. A whole number that a `number` cannot hold exactly is a bigint. */
export type Json = null | boolean | number | bigint | string | Json[] | JsonObject;

export interface JsonObject {
  [name: string]: Json;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A whole number from 0 on, as u64 is. */
export function isWhole(value: Json | undefined): value is number | bigint {
  return typeof value === 'bigint' ? value >= 0n : Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Marks a large number while `JSON.parse` has the text. No text of a scenario begins like this. */
const LARGE = '\0large';

/** As `JSON.parse`, and large whole numbers stay exact: instants are of 64 bits. */
export function parseJson(text: string): Json {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g, (token) =>
    token.startsWith('"') ? token : `"\\u0000large${token}"`,
  );
  return JSON.parse(marked, (_, value: Json) =>
    typeof value === 'string' && value.startsWith(LARGE) ? whole(BigInt(value.slice(LARGE.length))) : value,
  ) as Json;
}

/** For people: a large number as near as a `number` comes to it. */
export function shown(value: Json): string {
  return JSON.stringify(value, (_, inner: Json) => (typeof inner === 'bigint' ? Number(inner) : inner));
}

function whole(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** There is no such function, or the arguments are not of its type. */
export class CallMistake extends Error {}

/**
 * Call the export `name` (`child.deliver`) with these arguments by name. Answers `{"ok": …}` or
 * `{"error": {"tag": …, "val": …}}`; functions that cannot fail answer `{"ok": …}` too. Throws `CallMistake`, or
 * `ComponentFailure` if it was stopped.
 */
export function callByName(prefetch: Prefetch, name: string, args: JsonObject): JsonObject {
  const params = toParams(name, args);
  try {
    return { ok: fromContract(prefetch.call(name as ExportName, params)) };
  } catch (error) {
    if (error instanceof PolicyError) return { error: fromContract(error.error) };
    // What the component would have been told, had the unit been opened for it.
    if (error instanceof StoreFailure) {
      return { error: { tag: 'store', val: { tag: error.kind, val: error.why } } };
    }
    throw error instanceof ComponentFailure ? error : new Error(`${name} threw ${String(error)}`, { cause: error });
  }
}

/** A type of the contract, as far as arguments have it. */
type Type =
  | 'bool'
  | 'u32'
  | 'u64'
  | 'string'
  | { list: Type }
  | { tuple: Type[] }
  | { option: Type }
  | { enum: readonly string[] }
  | { record: Readonly<Record<string, Type>> }
  | { variant: Readonly<Record<string, Type | undefined>> };

const ATTRIBUTES: Type = { list: { tuple: ['string', 'string'] } };

const SESSION: Type = { record: { harness: 'string', id: 'string' } };

const NAMED_IDS: Type = { record: { ids: { list: 'string' }, mode: { enum: ['frozen', 'live'] } } };

const MEMORY_FIELD: Type = { variant: { 'snapshot-ref': 'string', 'prefetch-ids': NAMED_IDS } };

const WINDOW: Type = {
  record: { window: 'u32', 'output-reserve': 'u32', system: 'u32', tools: 'u32', task: 'u32' },
};

const CAPACITY: Type = {
  record: {
    budget: { variant: { bytes: 'u32', tokens: 'u32', window: WINDOW } },
    model: { option: 'string' },
    overflow: { enum: ['refuse', 'trim-priority', 'trim-recency', 'paginate'] },
  },
};

const REQUEST: Type = {
  record: {
    task: 'string',
    memory: { option: MEMORY_FIELD },
    capacity: { option: CAPACITY },
    priorities: { list: { tuple: ['string', 'u32'] } },
    'agent-type': { option: 'string' },
    'ttl-seconds': { option: 'u32' },
    children: 'u32',
    strict: 'bool',
    carry: { enum: ['snapshot-ref', 'ids'] },
    'call-id': { option: 'string' },
    attributes: ATTRIBUTES,
  },
};

const CLAIM: Type = {
  variant: {
    'snapshot-ref': 'string',
    ids: { record: { ids: NAMED_IDS, capacity: { option: CAPACITY } } },
    'parent-session': {
      record: { task: { option: 'string' }, 'agent-type': { option: 'string' }, 'registers-all': 'bool' },
    },
  },
};

const DELEGATION: Type = { record: { task: 'string', memory: { option: MEMORY_FIELD } } };

/** What each export takes, in the order of its parameters. */
const PARAMS: Readonly<Record<ExportName, Readonly<Record<string, Type>>>> = {
  'orchestrator.estimate': { session: SESSION, request: REQUEST },
  'orchestrator.delegate': { session: SESSION, request: REQUEST },
  'orchestrator.revalidate': { session: SESSION, 'snapshot-ref': 'string' },
  'orchestrator.revoke': { session: SESSION, 'snapshot-ref': 'string' },
  'child.deliver': { child: SESSION, occasion: 'string', claim: CLAIM },
  'child.replay': { child: SESSION },
  'child.page': { child: SESSION, 'snapshot-ref': 'string', number: 'u32' },
  'tools.get': { session: SESSION, ids: { list: 'string' } },
  'tools.recall': { session: SESSION, target: { option: 'string' }, query: 'string', limit: 'u32' },
  'upkeep.evictable': { 'memory-ids': { list: 'string' } },
  'upkeep.sweep': { limit: 'u32' },
  'upkeep.session-ended': { session: SESSION },
  'upkeep.forget': { 'memory-ids': { list: 'string' } },
  'wire.encode': { delegation: DELEGATION },
  'wire.decode': { json: 'string' },
  'wire.parse-markers': { text: 'string' },
  'about.describe': {},
};

/** Arguments by name as the contract's values in their order. Throws `CallMistake`. */
export function toParams(name: string, args: JsonObject): unknown[] {
  const params = Object.hasOwn(PARAMS, name) ? PARAMS[name as ExportName] : undefined;
  if (params === undefined) throw new CallMistake(`there is no export ${name}`);
  const unknown = Object.keys(args).find((arg) => !Object.hasOwn(params, arg));
  if (unknown !== undefined) throw new CallMistake(`${name} has no argument ${JSON.stringify(unknown)}`);
  return Object.entries(params).map(([param, type]) => toContract(args[param] ?? null, type, param));
}

/**
 * JSON to a value of this type. Missing options are none, missing lists empty, missing booleans false; everything else
 * must be there. `path` names the place in the message.
 */
function toContract(value: Json, type: Type, path: string): unknown {
  const wrong = (what: string) => new CallMistake(`${path} is ${shown(value)}, and ${what} is needed`);
  switch (type) {
    case 'bool':
      if (value === null) return false;
      if (typeof value !== 'boolean') throw wrong('true or false');
      return value;
    case 'u32':
      if (!isWhole(value) || value > 0xffff_ffff) throw wrong('a whole number that fits');
      return Number(value);
    case 'u64':
      if (!isWhole(value) || value > 0xffff_ffff_ffff_ffffn) throw wrong('a whole number that fits');
      return BigInt(value);
    case 'string':
      if (typeof value !== 'string') throw wrong('a string');
      return value;
  }
  if ('list' in type) {
    if (value === null) return [];
    if (!Array.isArray(value)) throw wrong('an array');
    return value.map((inner, index) => toContract(inner, type.list, `${path}[${index}]`));
  }
  if ('tuple' in type) {
    if (!Array.isArray(value) || value.length !== type.tuple.length) throw wrong('an array of the right length');
    return type.tuple.map((inner, index) => toContract(value[index] ?? null, inner, `${path}[${index}]`));
  }
  if ('option' in type) return value === null ? undefined : toContract(value, type.option, path);
  if ('enum' in type) {
    if (typeof value !== 'string' || !type.enum.includes(value)) throw wrong(`one of ${type.enum.join(', ')}`);
    return value;
  }
  if (!isObject(value)) throw wrong('an object');
  if ('record' in type) {
    const unknown = Object.keys(value).find((key) => !Object.hasOwn(type.record, key));
    if (unknown !== undefined) throw new CallMistake(`${path} has the unknown field ${JSON.stringify(unknown)}`);
    return Object.fromEntries(
      Object.entries(type.record).map(([field, inner]) => [
        camel(field),
        toContract(value[field] ?? null, inner, `${path}.${field}`),
      ]),
    );
  }
  const { tag } = value;
  if (typeof tag !== 'string' || !Object.hasOwn(type.variant, tag)) {
    throw wrong(`a tag of ${Object.keys(type.variant).join(', ')}`);
  }
  const inner = type.variant[tag];
  return inner === undefined ? { tag } : { tag, val: toContract(value['val'] ?? null, inner, `${path}.${tag}`) };
}

/** A value as JSON: names with dashes, none as `null`, and a variant's `val` only where the case has one. */
export function fromContract(value: unknown): Json {
  switch (typeof value) {
    case 'undefined':
      return null;
    case 'bigint':
      return whole(value);
    case 'boolean':
    case 'number':
    case 'string':
      return value;
  }
  if (value === null) return null;
  if (Array.isArray(value)) return value.map(fromContract);
  const object: JsonObject = {};
  for (const [name, inner] of Object.entries(value as object)) {
    if (name === 'val' && inner === undefined) continue;
    object[kebab(name)] = fromContract(inner);
  }
  return object;
}

function camel(name: string): string {
  return name.replace(/-./g, (dash) => dash.charAt(1).toUpperCase());
}

function kebab(name: string): string {
  return name.replace(/[A-Z]/g, (capital) => `-${capital.toLowerCase()}`);
}
