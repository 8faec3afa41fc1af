// The component as jco has made it: a JavaScript module around core WebAssembly modules. Here it is checked that it was
// made for a contract which this host speaks, and instances of it are made.

import { readFileSync } from 'node:fs';
import { instantiate as make } from '../generated/component.js';
import type { ImportObject, Root } from '../generated/component.js';
import world from '../generated/world.js';
import type { Memory, SearchFilter } from './contract.js';

/** The series of the contract that this host speaks: `0.1.x`. */
const SERIES = '0.1.';

const PACKAGE = 'agent-memory:prefetch/';

/** The interfaces that this host offers, by the names that jco's module asks for. */
export interface Imports {
  'agent-memory:prefetch/memories': {
    get(ids: string[], maxBytes: number): (Memory | undefined)[];
    search(filter: SearchFilter, query: string, limit: number, maxBytes: number): Memory[];
    recordAccess(ids: string[], at: bigint): void;
  };
  'agent-memory:prefetch/directory': ImportObject['agent-memory:prefetch/directory@0.1.0'];
  'agent-memory:prefetch/snapshots': ImportObject['agent-memory:prefetch/snapshots@0.1.0'];
  'agent-memory:prefetch/environment': Omit<ImportObject['agent-memory:prefetch/environment@0.1.0'], 'countTokens'> & {
    countTokens(model: string, texts: string[]): number[] | undefined;
  };
  'agent-memory:prefetch/audit': ImportObject['agent-memory:prefetch/audit@0.1.0'];
}

const OFFERED: Record<keyof Imports | `${typeof PACKAGE}types`, true> = {
  'agent-memory:prefetch/types': true,
  'agent-memory:prefetch/memories': true,
  'agent-memory:prefetch/directory': true,
  'agent-memory:prefetch/snapshots': true,
  'agent-memory:prefetch/environment': true,
  'agent-memory:prefetch/audit': true,
};

/** The interfaces that this host calls. */
export interface Exports {
  orchestrator: Root['orchestrator'];
  child: Root['child'];
  tools: Root['tools'];
  upkeep: Root['upkeep'];
  wire: Root['wire'];
  about: Root['about'];
}

const CALLED: Record<keyof Exports, true> = {
  orchestrator: true,
  child: true,
  tools: true,
  upkeep: true,
  wire: true,
  about: true,
};

/** The component was made for another world. Nothing was run. */
export class OtherWorld extends Error {
  constructor(why: string, imports: string[], exports: string[]) {
    super(
      `the component does not fit this host: ${why}. It needs ${imports.join(', ')} and has ${exports.join(', ')}. ` +
        `This host offers ${Object.keys(OFFERED).join(', ')} and calls ${Object.keys(CALLED).join(', ')}, in versions ${SERIES}x`,
    );
    this.name = 'OtherWorld';
  }
}

/** SHA-256 of the component, in hex. */
export const digest: string = world.digest;

/**
 * Whether a component with these imports and exports (`package/interface@version`) fits. Throws `OtherWorld`. jco's names
 * of imports carry no version, so nothing else would notice another one.
 */
export function checkWorld(imports: string[], exports: string[]): void {
  const other = (why: string) => new OtherWorld(why, imports, exports);
  const known = (full: string, names: object, what: string) => {
    const [name, version] = full.split('@');
    const isOurs = Object.hasOwn(names, what === 'import' ? name! : name!.replace(PACKAGE, ''));
    if (what === 'import' && !isOurs) throw other(`no import is named ${full}`);
    if (isOurs && !version?.startsWith(SERIES)) throw other(`${full} is of another series`);
  };
  imports.forEach((full) => known(full, OFFERED, 'import'));
  exports.forEach((full) => known(full, CALLED, 'export'));
  for (const name of Object.keys(CALLED)) {
    if (!exports.some((full) => full.startsWith(`${PACKAGE}${name}@`))) throw other(`it has no ${name}`);
  }
}

let compiled: Map<string, WebAssembly.Module> | undefined;

/** Check and compile the component, once in a thread. Takes some 10 ms. */
export function compile(): Map<string, WebAssembly.Module> {
  if (!compiled) {
    checkWorld(world.imports, world.exports);
    const read = (name: string) => readFileSync(new URL(`../generated/${name}`, import.meta.url));
    compiled = new Map(world.modules.map((name) => [name, new WebAssembly.Module(read(name))]));
  }
  return compiled;
}

/** An instance, which serves one call after the other. */
export interface Instance {
  exports: Exports;
  /**
   * Make its memory what it was in the beginning, so that nothing is left of the call before, and of whoever called.
   * `false`: that one needed more memory than there was; make a new instance. Only after a call that was answered, since
   * one that was stopped leaves a stack behind.
   */
  renew(): boolean;
}

/** Bytes of the largest text that a call can take without its instance being thrown away, about: 64 memories of 16 KB. */
const ROOM = 1 << 20;

/** The memory of an instance that has served nobody, and has room. All instances begin alike. */
let beginning: Uint8Array | undefined;

/**
 * A new instance. Takes 1 ms in Node and 13 in Bun, which has also much to tidy up after it; `renew` takes 0.1 ms. The
 * module's only state is its memory: the stack pointer is back where it was when a call has been answered, and there is
 * no other global that changes, and no table.
 */
export function instantiate(imports: Imports): Instance {
  const modules = compile();
  let memory: WebAssembly.Memory | undefined;
  const makeCore = (module: WebAssembly.Module, importObject: WebAssembly.Imports) => {
    const core = new WebAssembly.Instance(module, importObject);
    memory ??= core.exports['memory'] as WebAssembly.Memory | undefined;
    return core;
  };
  const exports = withPromising(() =>
    make((name) => modules.get(name)!, imports as unknown as ImportObject, makeCore),
  ) as Exports;
  const held = memory;
  if (!held) throw new Error('the component has no memory');
  if (!beginning) {
    makeRoom(exports);
    beginning = new Uint8Array(held.buffer).slice();
  } else {
    held.grow((beginning.length - held.buffer.byteLength) / PAGE);
  }
  const image = beginning;
  const renew = () => {
    if (held.buffer.byteLength !== image.length) return false;
    new Uint8Array(held.buffer).set(image);
    return true;
  };
  renew();
  return { exports, renew };
}

/** Bytes in a page of WebAssembly's memory. */
const PAGE = 65_536;

/** Let its allocator ask for memory, which it keeps. What is decoded is no delegation, and nobody's. */
function makeRoom(exports: Exports): void {
  try {
    exports.wire.decode(' '.repeat(ROOM));
  } catch {
    // That it is none.
  }
}

/**
 * jco asks for `WebAssembly.promising` once for each export and catches the error where there is none, which takes Node 20
 * 110 ms for each instance. All of our calls are synchronous, so what it would return is never called.
 */
function withPromising<T>(run: () => T): T {
  const wasm = WebAssembly as { promising?: (function_: unknown) => unknown };
  if (wasm.promising) return run();
  wasm.promising = (function_) => function_;
  try {
    return run();
  } finally {
    delete wasm.promising;
  }
}
