// Runs scenario files (tests/scenarios/README.md says what is in one) against the component and a store. Any host in any
// language runs the same files, so nothing here is part of their meaning.

import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Audience, SessionKey } from './contract.js';
import { Prefetch } from './host.js';
import { callByName, fromContract, isObject, isWhole, parseJson, shown } from './json.js';
import type { Json, JsonObject } from './json.js';
import { SqliteStore } from './sqlite/store.js';
import type { AuditRow, MemoryEdit, NewMemory } from './store.js';

/** What came of one scenario. */
export interface Report {
  /** `FILE/NAME`. */
  name: string;
  /** Why it failed; undefined: it passed. */
  failure: string | undefined;
}

/** A scenario that is not as it should be, in what it says or in what came of it. */
class Failed extends Error {}

/** How long a call waits for another process, which in a scenario never comes to an end by itself. */
const BUSY_MS = 50;

/**
 * Run the scenarios of these files and directories, and report each as it ends. Answers how many passed and failed.
 * Throws where there is nothing to run: a run of nothing must not look like a success.
 */
export async function run(
  paths: string[],
  report: (report: Report) => void,
): Promise<{ passed: number; failed: number }> {
  const counts = { passed: 0, failed: 0 };
  for (const path of files(paths)) {
    for await (const outcome of runFile(path)) {
      counts[outcome.failure === undefined ? 'passed' : 'failed'] += 1;
      report(outcome);
    }
  }
  return counts;
}

/** The scenario files among these paths; of a directory, every `.json` file directly in it, by name. */
export function files(paths: string[]): string[] {
  if (paths.length === 0) throw new Error('no files were named');
  return paths.flatMap((path) => {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return [path];
    const inside = readdirSync(path).filter((name) => name.endsWith('.json'));
    if (inside.length === 0) throw new Error(`${path} has no .json file in it`);
    return inside.sort().map((name) => join(path, name));
  });
}

/** Run every scenario of one file, each on a new store. A file that cannot be read is one failure. */
export async function* runFile(path: string): AsyncGenerator<Report> {
  const stem = basename(path).replace(/\.[^.]*$/, '');
  let file: File;
  try {
    file = readFile(path);
  } catch (error) {
    yield { name: stem, failure: messageOf(error) };
    return;
  }
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-'));
  try {
    for (const [number, scenario] of file.scenarios.entries()) {
      let failure: string | undefined;
      try {
        await runScenario(file, scenario, join(directory, `${number + 1}.db`));
      } catch (error) {
        failure = messageOf(error);
      }
      yield { name: `${stem}/${scenario.name}`, failure };
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

interface File {
  now: bigint;
  variables: JsonObject;
  setup: Json[];
  scenarios: Scenario[];
}

interface Scenario {
  name: string;
  steps: Json[];
}

function readFile(path: string): File {
  const text = readFileSync(path, 'utf8');
  let value: Json;
  try {
    value = parseJson(text);
  } catch (error) {
    throw new Failed(`not JSON: ${messageOf(error)}`);
  }
  return readScenarios(value);
}

/** What a file says, if it can fail. */
export function readScenarios(value: Json): File {
  const object = fields(value, ['rules', 'about', 'now', 'let', 'setup', 'scenarios']);
  array(object, 'rules');
  text(object, 'about');
  const variables = object['let'] ?? {};
  if (!isObject(variables)) throw new Failed('let is not an object');
  const setup = Object.hasOwn(object, 'setup') ? array(object, 'setup') : [];
  const scenarios: Scenario[] = [];
  for (const inner of array(object, 'scenarios')) {
    const scenario = fields(inner, ['name', 'about', 'steps']);
    const name = text(scenario, 'name');
    const steps = array(scenario, 'steps');
    if (!steps.some((step) => isObject(step) && Object.hasOwn(step, 'expect'))) {
      throw new Failed(`scenario ${JSON.stringify(name)} expects nothing, so it cannot fail`);
    }
    if (scenarios.some((other) => other.name === name)) {
      throw new Failed(`two scenarios are called ${JSON.stringify(name)}`);
    }
    scenarios.push({ name, steps });
  }
  if (scenarios.length === 0) throw new Failed('there are no scenarios in it');
  const now = object['now'];
  if (!isWhole(now)) throw new Failed('now is not an instant in milliseconds');
  return { now: BigInt(now), variables, setup, scenarios };
}

/** A scenario as it goes on. */
interface Run {
  prefetch: Prefetch<SqliteStore>;
  now: bigint;
  variables: JsonObject;
  /** Audit entries that a step has looked at. */
  audited: number;
  /** Another process that writes. */
  lock: { release(): void } | undefined;
}

async function runScenario(file: File, scenario: Scenario, path: string): Promise<void> {
  const store = await SqliteStore.open(path, { busyTimeoutMs: BUSY_MS, create: true });
  const state: Run = {
    prefetch: new Prefetch(store),
    now: file.now,
    variables: { ...file.variables },
    audited: 0,
    lock: undefined,
  };
  state.prefetch.clock = () => state.now;
  try {
    for (const [place, steps] of [
      ['setup', file.setup],
      ['step', scenario.steps],
    ] as const) {
      for (const [index, step] of steps.entries()) {
        try {
          await runStep(state, step);
        } catch (error) {
          throw new Failed(`${place} ${index + 1}: ${messageOf(error)}`);
        }
      }
    }
  } finally {
    state.lock?.release();
    state.prefetch.close();
  }
}

async function runStep(state: Run, step: Json): Promise<void> {
  if (!isObject(step)) throw new Failed('it is not an object');
  if (Object.hasOwn(step, 'call')) return callStep(state, step);
  if (Object.hasOwn(step, 'audit')) return auditStep(state, step);
  if (Object.hasOwn(step, 'row')) return rowStep(state, step);
  const kind = Object.keys(step).find((key) => Object.hasOwn(STEPS, key));
  if (kind === undefined) throw new Failed(`it is none of call, audit, row, ${Object.keys(STEPS).join(', ')}`);
  fields(step, [kind, 'about']);
  await STEPS[kind]?.(state, filled(state, step[kind] ?? null));
}

const ABSENT = (what: string) => new Failed(`there is no such ${what}`);

/** The steps that change something, by name. Each is given its value, filled in. */
const STEPS: Readonly<Record<string, (state: Run, value: Json) => void | Promise<void>>> = {
  'put-agent': ({ prefetch }, value) => void prefetch.store.addAgent(string(value, 'an agent')),
  'put-project'({ prefetch }, value) {
    const object = fields(value, ['id', 'workspace', 'memory-on', 'trusted']);
    prefetch.store.putProject({
      id: text(object, 'id'),
      workspace: optionalText(object, 'workspace'),
      memoryOn: flag(object, 'memory-on', true),
      trusted: flag(object, 'trusted', true),
      attributes: [],
    });
  },
  'remove-project': ({ prefetch }, value) => void prefetch.store.removeProject(string(value, 'a project')),
  'put-session'({ prefetch }, value) {
    const object = fields(value, ['key', 'agent', 'project', 'parent', 'memory-on']);
    prefetch.store.putSession({
      key: key(object['key']),
      agent: optionalText(object, 'agent'),
      project: optionalText(object, 'project'),
      parent: Object.hasOwn(object, 'parent') ? key(object['parent']) : undefined,
      memoryOn: flag(object, 'memory-on', true),
    });
  },
  'put-alias'({ prefetch }, value) {
    const object = fields(value, ['alias', 'of']);
    if (!prefetch.store.addAlias(key(object['alias']), key(object['of']))) throw ABSENT('session to alias');
  },
  'remove-session': ({ prefetch }, value) => void prefetch.store.removeSession(key(value)),
  'put-link'({ prefetch }, value) {
    const object = fields(value, ['from', 'to', 'direction', 'kind']);
    const direction = text(object, 'direction');
    if (direction !== 'one-way' && direction !== 'two-way') {
      throw new Failed(`${JSON.stringify(direction)} is no direction`);
    }
    prefetch.store.addLink({
      fromAgent: text(object, 'from'),
      toAgent: text(object, 'to'),
      direction,
      kind: optionalText(object, 'kind') ?? 'peer',
      attributes: [],
    });
  },
  'remove-links'({ prefetch }, value) {
    const object = fields(value, ['from', 'to']);
    prefetch.store.removeLinks(text(object, 'from'), text(object, 'to'));
  },
  'add-memory': ({ prefetch, now }, value) => void prefetch.store.addMemory(newMemory(value), now),
  'edit-memory'({ prefetch, now }, value) {
    const object = fields(value, ['id', 'body', 'category', 'audience', 'priority', 'trusted', 'expires-at']);
    if (!prefetch.store.editMemory(text(object, 'id'), memoryEdit(object), now)) throw ABSENT('memory to edit');
  },
  'archive-memory'({ prefetch }, value) {
    if (!prefetch.store.archiveMemory(string(value, 'a memory id'), true)) throw ABSENT('memory to archive');
  },
  'put-setting'({ prefetch }, value) {
    const object = fields(value, ['project', 'name', 'value']);
    prefetch.store.putSetting(optionalText(object, 'project'), text(object, 'name'), optionalText(object, 'value'));
  },
  clock(state, value) {
    const object = fields(value, ['add-seconds', 'set']);
    const set = optionalNumber(object, 'set');
    const seconds = object['add-seconds'];
    if ((set === undefined) === (seconds === undefined)) {
      throw new Failed('a clock step has either set or add-seconds');
    }
    if (set === undefined && !Number.isInteger(seconds)) throw new Failed('add-seconds is not a whole number');
    state.now = set ?? state.now + BigInt(seconds as number) * 1000n;
    if (state.now < 0n) throw new Failed('the clock would leave its range');
  },
  async restart(state, value) {
    if (value !== true) throw new Failed('restart is true');
    state.prefetch = new Prefetch(await state.prefetch.store.reopen());
    state.prefetch.clock = () => state.now;
  },
  lock(state, value) {
    if (typeof value !== 'boolean') throw new Failed('lock is true or false');
    state.lock?.release();
    state.lock = value ? state.prefetch.store.lock() : undefined;
  },
  'damage-page'({ prefetch }, value) {
    const object = fields(value, ['snapshot-ref', 'number']);
    const number = Number(optionalNumber(object, 'number') ?? 1n);
    if (!prefetch.store.damagePage(text(object, 'snapshot-ref'), number)) throw ABSENT('page to damage');
  },
};

function callStep(state: Run, step: JsonObject): void {
  fields(step, ['call', 'about', 'args', 'expect', 'save']);
  const name = text(step, 'call');
  const args = filled(state, step['args'] ?? {});
  if (!isObject(args)) throw new Failed('args is not an object');
  let answer: JsonObject;
  try {
    answer = callByName(state.prefetch, name, args);
  } catch (error) {
    throw new Failed(`${name}: ${messageOf(error)}`);
  }
  answer['host-calls'] = state.prefetch.hostCalls;
  if (Object.hasOwn(step, 'expect')) {
    expectThat(state, step['expect'] ?? null, answer, `${name}: `);
  } else if (Object.hasOwn(answer, 'error')) {
    throw new Failed(`${name} failed and nothing was expected of it: ${shown(answer)}`);
  }
  save(state, step, answer);
}

/** A memory's row, whatever its columns are. */
function rowStep(state: Run, step: JsonObject): void {
  fields(step, ['row', 'about', 'expect', 'save']);
  const id = string(filled(state, step['row'] ?? null), 'a memory id');
  const row = fromContract(state.prefetch.store.memoryRow(id));
  if (Object.hasOwn(step, 'expect')) expectThat(state, step['expect'] ?? null, row, '', 'row');
  save(state, step, row);
}

/** The audit entries since the last such step, oldest first. */
function auditStep(state: Run, step: JsonObject): void {
  const ALL = 100_000;
  fields(step, ['audit', 'about', 'expect']);
  if (!Object.hasOwn(step, 'expect')) throw new Failed('an audit step needs expect');
  const rows = state.prefetch.store.allAudit(ALL).reverse();
  const fresh = rows.slice(state.audited).map(auditJson);
  state.audited = rows.length;
  expectThat(state, step['expect'] ?? null, fresh, '', 'audit');
}

function auditJson({ at, session, export: name, rolledBack, entry }: AuditRow): Json {
  return fromContract({ at, session, export: name, rolledBack, ...entry });
}

/** Keep parts of an answer as variables. */
function save(state: Run, step: JsonObject, answer: Json): void {
  const saved = step['save'];
  if (saved === undefined) return;
  if (!isObject(saved)) throw new Failed('save is not an object');
  for (const [variable, pointer] of Object.entries(saved)) {
    if (typeof pointer !== 'string') throw new Failed('save names a JSON pointer for each variable');
    const value = at(answer, pointer);
    if (value === undefined) throw new Failed(`nothing at ${pointer} in ${shown(answer)}`);
    state.variables[variable] = value;
  }
}

/** The value at a JSON pointer. */
function at(value: Json, pointer: string): Json | undefined {
  const [before, ...names] = pointer.split('/');
  if (before !== '') return undefined;
  let found: Json | undefined = value;
  for (const escaped of names) {
    const name = escaped.replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(found)) found = /^(?:0|[1-9]\d*)$/.test(name) ? found[Number(name)] : undefined;
    else found = isObject(found) && Object.hasOwn(found, name) ? found[name] : undefined;
  }
  return found;
}

/** How deep a value may be with its variables filled in, which may use others, or themselves. */
const MAX_DEPTH = 160;

/** How large, in bytes or thereabouts: variables that use others twice double at each step. */
const MAX_FILLED = 64 << 20;

/** `value` with `$name` replaced by variables, and `{"$repeat": [text, n]}` and `{"$join": […]}` by their texts. */
function filled(state: Run, value: Json): Json {
  return fill(state.variables, value, MAX_DEPTH, { bytes: MAX_FILLED });
}

function fill(variables: JsonObject, value: Json, depth: number, room: { bytes: number }): Json {
  if (depth === 0) throw new Failed('variables use each other too deeply, or in a circle');
  const within = (inner: Json): Json => fill(variables, inner, depth - 1, room);
  const take = (bytes: number): void => {
    room.bytes -= bytes;
    if (room.bytes < 0) throw new Failed('this makes too long a text, or too many values');
  };
  const EACH = 32;
  take(EACH);
  if (typeof value === 'string') {
    take(value.length);
    if (!value.startsWith('$')) return value;
    const name = value.slice(1);
    if (name.startsWith('$')) return name;
    const variable = Object.hasOwn(variables, name) ? variables[name] : undefined;
    if (variable === undefined) throw new Failed(`there is no variable ${JSON.stringify(name)}`);
    // Variables of `let` may use others.
    return within(variable);
  }
  if (Array.isArray(value)) return value.map(within);
  if (!isObject(value)) return value;
  if (Object.hasOwn(value, '$repeat')) {
    const parts = within(value['$repeat'] ?? null);
    const [part, times] = Array.isArray(parts) ? parts : [];
    if (typeof part !== 'string' || !isWhole(times)) throw new Failed('$repeat is [text, times]');
    take(Number(times) * Buffer.byteLength(part));
    return part.repeat(Number(times));
  }
  if (Object.hasOwn(value, '$join')) {
    const parts = within(value['$join'] ?? null);
    if (!areTexts(parts)) throw new Failed('$join is an array of texts');
    return parts.join('');
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, within(inner)]));
}

function areTexts(value: Json): value is string[] {
  return Array.isArray(value) && value.every((inner) => typeof inner === 'string');
}

function expectThat(state: Run, expectation: Json, actual: Json, before: string, place = ''): void {
  const expected = filled(state, expectation);
  checkExpectation(expected);
  const why = difference(expected, actual, place);
  if (why !== undefined) throw new Failed(before + why);
}

/**
 * Throws where an expectation says nothing: a condition that is misspelt or has a wrong operand must not pass, also not
 * inside `$not`.
 */
export function checkExpectation(expected: Json): void {
  if (Array.isArray(expected)) expected.forEach(checkExpectation);
  if (!isObject(expected)) return;
  for (const [name, operand] of Object.entries(expected)) {
    switch (name) {
      case '$contains':
      case '$lacks':
      case '$starts-with':
      case '$once':
        if (typeof operand === 'string' || (areTexts(operand) && operand.length > 0)) continue;
        break;
      case '$bytes':
      case '$at-most-bytes':
      case '$length':
      case '$at-most':
      case '$at-least':
        if (isWhole(operand)) continue;
        break;
      case '$not':
      case '$has':
        checkExpectation(operand);
        continue;
      default:
        if (!name.startsWith('$')) {
          checkExpectation(operand);
          continue;
        }
    }
    throw new Failed(`${name} is no condition, or has a wrong operand: ${shown(operand)}`);
  }
}

/** How `actual` is not what `expected` says; undefined: it is. `place` is where it stands, for the message. */
export function difference(expected: Json, actual: Json, place = ''): string | undefined {
  const differs = (what: string) => `at ${place === '' ? '/' : place}: ${what}, but it is ${brief(actual)}`;
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length)
      return differs(`expected ${expected.length} elements`);
    for (const [index, inner] of expected.entries()) {
      const why = difference(inner, actual[index] ?? null, `${place}/${index}`);
      if (why !== undefined) return why;
    }
    return undefined;
  }
  if (!isObject(expected)) return expected === actual ? undefined : differs(`expected ${brief(expected)}`);
  if (Object.keys(expected).some((name) => name.startsWith('$'))) {
    const broken = Object.entries(expected).find(([operator, operand]) => !holds(operator, operand, actual));
    return broken && differs(`expected ${broken[0]} ${brief(broken[1])}`);
  }
  for (const [name, inner] of Object.entries(expected)) {
    const found = isObject(actual) && Object.hasOwn(actual, name) ? actual[name] : undefined;
    if (found === undefined) return differs(`expected a field ${JSON.stringify(name)}`);
    const why = difference(inner, found, `${place}/${name}`);
    if (why !== undefined) return why;
  }
  return undefined;
}

/** Whether a condition holds. Its operand is as {@link checkExpectation} wants it. */
function holds(operator: string, operand: Json, actual: Json): boolean {
  const every = (test: (whole: string, part: string) => boolean) =>
    typeof actual === 'string' && ([operand].flat() as string[]).every((part) => test(actual, part));
  const number = operand as number | bigint;
  switch (operator) {
    case '$contains':
      return every((whole, part) => whole.includes(part));
    case '$lacks':
      return every((whole, part) => !whole.includes(part));
    case '$starts-with':
      return every((whole, part) => whole.startsWith(part));
    case '$once':
      return every((whole, part) => whole.split(part).length === 2);
    case '$bytes':
      return typeof actual === 'string' && Buffer.byteLength(actual) === Number(number);
    case '$at-most-bytes':
      return typeof actual === 'string' && Buffer.byteLength(actual) <= number;
    case '$length':
      return Array.isArray(actual) && actual.length === Number(number);
    case '$at-most':
      return isWhole(actual) && actual <= number;
    case '$at-least':
      return isWhole(actual) && actual >= number;
    case '$not':
      return difference(operand, actual) !== undefined;
    case '$has':
      return Array.isArray(actual) && actual.some((inner) => difference(operand, inner) === undefined);
    default:
      throw new Failed(`there is no operator ${operator}`);
  }
}

function brief(value: Json): string {
  const SHOWN = 600;
  const text = shown(value);
  if (text.length <= SHOWN) return text;
  return `${text.slice(0, SHOWN)}… (${Buffer.byteLength(text)} bytes)`;
}

function newMemory(value: Json): NewMemory {
  const object = fields(value, [
    'id',
    'owner',
    'project',
    'audience',
    'category',
    'priority',
    'trusted',
    'expires-at',
    'body',
  ]);
  return {
    id: optionalText(object, 'id'),
    owner: optionalText(object, 'owner'),
    project: optionalText(object, 'project'),
    audience: audience(object),
    category: optionalText(object, 'category') ?? '',
    priority: priority(object) ?? 0,
    trusted: flag(object, 'trusted', true),
    expiresAt: optionalNumber(object, 'expires-at'),
    body: text(object, 'body'),
  };
}

function memoryEdit(object: JsonObject): MemoryEdit {
  const edit: MemoryEdit = {};
  const body = optionalText(object, 'body');
  const category = optionalText(object, 'category');
  const rank = priority(object);
  if (body !== undefined) edit.body = body;
  if (category !== undefined) edit.category = category;
  if (rank !== undefined) edit.priority = rank;
  if (Object.hasOwn(object, 'audience')) edit.audience = audience(object);
  if (Object.hasOwn(object, 'trusted')) edit.trusted = flag(object, 'trusted', true);
  if (Object.hasOwn(object, 'expires-at')) edit.expiresAt = optionalNumber(object, 'expires-at') ?? null;
  return edit;
}

function audience(object: JsonObject): Audience {
  const name = optionalText(object, 'audience') ?? 'agent';
  if (name === 'agent' || name === 'project' || name === 'workspace') return name;
  throw new Failed(`${JSON.stringify(name)} is no audience`);
}

function priority(object: JsonObject): number | undefined {
  const number = optionalNumber(object, 'priority');
  if (number !== undefined && number > 0xffff_ffffn) throw new Failed('priority is too large');
  return number === undefined ? undefined : Number(number);
}

function key(value: Json | undefined): SessionKey {
  if (value === undefined) throw new Failed('a session key is missing');
  const object = fields(value, ['harness', 'id']);
  return { harness: text(object, 'harness'), id: text(object, 'id') };
}

/** The object, if it has no other keys than these: a misspelt one would be a check that never fails. */
function fields(value: Json, known: string[]): JsonObject {
  if (!isObject(value)) throw new Failed(`${brief(value)} is not an object`);
  const unknown = Object.keys(value).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Failed(`unknown key ${JSON.stringify(unknown)}: known are ${known.join(', ')}`);
  return value;
}

function array(object: JsonObject, name: string): Json[] {
  const value = object[name];
  if (!Array.isArray(value)) throw new Failed(`${name} is not an array`);
  return value;
}

function text(object: JsonObject, name: string): string {
  return string(object[name], name);
}

function string(value: Json | undefined, what: string): string {
  if (typeof value !== 'string') throw new Failed(`${what} is not a string`);
  return value;
}

function optionalText(object: JsonObject, name: string): string | undefined {
  return (object[name] ?? null) === null ? undefined : text(object, name);
}

function optionalNumber(object: JsonObject, name: string): bigint | undefined {
  const value = object[name] ?? null;
  if (value === null) return undefined;
  if (!isWhole(value)) throw new Failed(`${name} is not a whole number`);
  return BigInt(value);
}

function flag(object: JsonObject, name: string, otherwise: boolean): boolean {
  const value = object[name];
  if (value === undefined) return otherwise;
  if (typeof value !== 'boolean') throw new Failed(`${name} is not true or false`);
  return value;
}
