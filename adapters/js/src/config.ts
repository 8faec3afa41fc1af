// Where the store and the memories are, and what the user prefers: defaults, then the user's file, then the environment.
// A project's own file may only switch memory off (R9, R13): it may have been written by somebody else.

import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';

/** What an adapter works with. */
export interface Settings {
  /** The store's file. */
  store: string;
  /** Whether the store is where the default is, so that its directory may be made. */
  isDefaultStore: boolean;
  /** Another program's memories, `magic-context:PATH`; undefined: those of the store. */
  memories: { kind: 'magic-context'; path: string } | undefined;
  /** Whether the user trusts what is in `memories` (R9). */
  memoriesTrusted: boolean;
  /** Tokens that a child's memories may take; undefined: a quarter of its model's window. */
  budgetTokens: number | undefined;
  /** What to do where they take more (R31). */
  overflow: 'refuse' | 'trim-priority' | 'trim-recency' | 'paginate';
  /** How long a child may take to start; undefined: the store's setting, else an hour (R18). */
  ttlSeconds: number | undefined;
  /** What an agent is called in a harness that has no names for agents; undefined: as the harness. */
  agent: string | undefined;
  /** How long to wait for another process that writes to the store, in milliseconds. */
  busyTimeoutMs: number;
}

/** A file or a variable that cannot be used. The message says which, what is wrong and what is allowed. */
export class ConfigError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ConfigError';
  }
}

type Environment = Record<string, string | undefined>;

/** The user's configuration file. */
export function configFile(env: Environment = process.env): string {
  return join(absolute(env['XDG_CONFIG_HOME']) ?? join(home(env), '.config'), 'memory-prefetch', 'config.json');
}

/** The store where none is named: the one that the program `memory-prefetch` takes too. */
export function defaultStore(env: Environment = process.env, platform: string = process.platform): string {
  if (platform === 'darwin') {
    return join(home(env), 'Library', 'Application Support', 'memory-prefetch', 'store.sqlite');
  }
  if (platform === 'win32') {
    return join(env['APPDATA'] ?? join(home(env), 'AppData', 'Roaming'), 'memory-prefetch', 'data', 'store.sqlite');
  }
  return join(absolute(env['XDG_DATA_HOME']) ?? join(home(env), '.local', 'share'), 'memory-prefetch', 'store.sqlite');
}

/** The settings of this user. Throws `ConfigError`. */
export function readSettings(env: Environment = process.env): Settings {
  const file = configFile(env);
  const config = existsSync(file) ? readObject(file) : {};
  const known = [
    'store',
    'memories',
    'memoriesTrust',
    'budgetTokens',
    'overflow',
    'ttlSeconds',
    'agent',
    'busyTimeoutMs',
  ];
  const wrong = (name: string, allowed: string) =>
    new ConfigError(`${file}: ${JSON.stringify(name)} is ${JSON.stringify(config[name])}; allowed is ${allowed}`);
  for (const name of Object.keys(config)) {
    if (!known.includes(name)) {
      throw new ConfigError(`${file}: there is no setting ${JSON.stringify(name)}; known are ${known.join(', ')}`);
    }
  }
  const text = (name: string, variable: string): Named | undefined => {
    if (env[variable]) return { value: env[variable], from: variable };
    const value = config[name];
    if (value !== undefined && typeof value !== 'string') throw wrong(name, 'a text');
    return value === undefined ? undefined : { value, from: `${file}: ${JSON.stringify(name)}` };
  };
  const oneOf = <T extends string>(name: string, words: readonly T[]): T => {
    const value = config[name] ?? words[0];
    if (!words.includes(value as T)) throw wrong(name, words.map((word) => JSON.stringify(word)).join(', '));
    return value as T;
  };
  const positive = (name: string, most = 0xffff_ffff): number | undefined => {
    const value = config[name];
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > most) {
      throw wrong(name, `a whole number from 1 to ${most}`);
    }
    return value as number;
  };

  const store = text('store', 'MEMORY_PREFETCH_STORE');
  const memories = text('memories', 'MEMORY_PREFETCH_MEMORIES');
  const agent = text('agent', 'MEMORY_PREFETCH_AGENT');
  if (agent?.value === '') throw wrong('agent', 'a text that is not empty');
  return {
    store: store === undefined ? defaultStore(env) : path(store, 'sqlite', env),
    isDefaultStore: store === undefined,
    memories:
      memories === undefined ? undefined : { kind: 'magic-context', path: path(memories, 'magic-context', env) },
    memoriesTrusted: oneOf('memoriesTrust', ['trusted', 'untrusted']) === 'trusted',
    budgetTokens: positive('budgetTokens'),
    overflow: oneOf('overflow', ['refuse', 'trim-priority', 'trim-recency', 'paginate']),
    ttlSeconds: positive('ttlSeconds'),
    agent: agent?.value,
    busyTimeoutMs: positive('busyTimeoutMs', 600_000) ?? 2_000,
  };
}

/** A project's own file, in its root. */
export const PROJECT_FILE = '.memory-prefetch.json';

/**
 * Whether a project's own files leave memory on: `{"memory": "off"}` in `directory`, or anywhere above it in the same
 * repository, switches it off, and nothing below switches it on again. A file that cannot be read or understood does so
 * too, since it can only have been meant to restrict; `why` says that.
 */
export function projectMemory(directory: string): ProjectMemory {
  for (const place of withinRepository(directory)) {
    const found = restriction(join(place, PROJECT_FILE));
    if (found !== undefined) return { on: false, ...found };
  }
  return { on: true };
}

/** `why`: why it is off. `isBroken`: since a file cannot be understood. */
export interface ProjectMemory {
  on: boolean;
  why?: string;
  isBroken?: boolean;
}

function restriction(file: string): { why: string; isBroken: boolean } | undefined {
  if (!isThere(file)) return undefined;
  try {
    const { memory, ...others } = readObject(file);
    const unknown = Object.keys(others)[0];
    if (unknown !== undefined) {
      throw new ConfigError(`${file}: there is no setting ${JSON.stringify(unknown)} there; known is memory`);
    }
    if (memory === undefined || memory === 'on') return undefined;
    if (memory === 'off') return { why: `${file} says so`, isBroken: false };
    throw new ConfigError(`${file}: "memory" is ${JSON.stringify(memory)}; allowed is "on" or "off"`);
  } catch (error) {
    return { why: error instanceof Error ? error.message : String(error), isBroken: true };
  }
}

/** Whether something has that name, also a link to nowhere and a file that may not be looked at. */
function isThere(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch (error) {
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}

/** A directory and those above it, up to the root of its repository; outside of any, it alone. Links are followed. */
function withinRepository(directory: string): string[] {
  let place: string;
  try {
    place = realpathSync(directory);
  } catch {
    return [directory];
  }
  const above = [place];
  for (; !isThere(join(place, '.git')); place = dirname(place)) {
    if (dirname(place) === place) return above.slice(0, 1);
    above.push(dirname(place));
  }
  return above;
}

function readObject(file: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new ConfigError(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ConfigError(`${file} is not a JSON object`);
  }
  return value as Record<string, unknown>;
}

/** A value, and where it stands. */
interface Named {
  value: string;
  from: string;
}

/** The path of `KIND:PATH`; `~/` is the home directory. A harness starts in many directories, so a relative one is none. */
function path({ value, from }: Named, kind: string, env: Environment): string {
  const rest = value.startsWith(`${kind}:`) ? value.slice(kind.length + 1) : '';
  const full = rest.startsWith('~/') ? join(home(env), rest.slice(2)) : rest;
  if (!isAbsolute(full)) {
    throw new ConfigError(
      `${from} is ${JSON.stringify(value)}; allowed is ${kind}: and an absolute path, or one from ~/`,
    );
  }
  return full;
}

function home(env: Environment): string {
  return env['HOME'] || homedir();
}

/** XDG says that a relative path there is to be passed over. */
function absolute(value: string | undefined): string | undefined {
  return value && isAbsolute(value) ? value : undefined;
}
