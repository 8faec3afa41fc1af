// The component over one store. One exported call is one unit of work: it is committed when the component answers ok, and
// undone when it answers an error or is stopped. Synchronous: src/client.ts runs it in a worker.

import { digest, instantiate } from './component.js';
import type { Exports, Instance } from './component.js';
import type {
  Answer,
  Claim,
  Delegation,
  DelegationOutcome,
  Error as ContractError,
  Block,
  Found,
  Info,
  Marked,
  Receipt,
  Request,
  SessionKey,
  Swept,
  View,
} from './contract.js';
import { ACCESS } from './exports.js';
import type { ExportName } from './exports.js';
import { bytes, makeImports, newUnit, now, writes } from './imports.js';
import type { Log, State, TokenCounter } from './imports.js';
import { DEFAULT_LIMITS } from './limits.js';
import type { Limits } from './limits.js';
import { StoreFailure } from './store.js';
import type { AuditRow, Memories, Store } from './store.js';
import { countTokens } from './tokens.js';

/** The policy answered an error. Nothing was stored, but for audit entries. */
export class PolicyError extends Error {
  constructor(readonly error: ContractError) {
    super(explain(error));
    this.name = 'PolicyError';
  }
}

/** The component was stopped by the host, or trapped. Its instance is gone; the next call has a new one. */
export class ComponentFailure extends Error {
  constructor(
    readonly name_: ExportName,
    why: unknown,
  ) {
    super(`the component failed in ${name_}: ${why instanceof Error ? why.message : String(why)}`, { cause: why });
    this.name = 'ComponentFailure';
  }
}

/** A policy's error in words. */
export function explain(error: ContractError): string {
  switch (error.tag) {
    case 'malformed':
      return `malformed request: ${error.val}`;
    case 'unavailable':
      return `not available: ${error.val.join(', ')}`;
    case 'expired':
      return 'this snapshot has expired: delegate again';
    case 'revoked':
      return 'this snapshot was revoked by its owner';
    case 'corrupt':
      return `the stored bytes of ${error.val} are not those that were frozen: nothing is delivered`;
    case 'no-link':
      return 'no link lets this agent read the other one';
    case 'wrong-direction':
      return 'there is a link between these agents, and it runs the other way';
    case 'store-not-available':
      return "the other agent's store cannot be reached";
    case 'store':
      return new StoreFailure(error.val.tag, error.val.val).message;
    case 'other':
      return error.val === 'unsupported' ? 'this component does not support that yet' : error.val;
  }
}

export interface PrefetchOptions {
  /** Take memories from here instead of from the store. */
  memories?: Memories | undefined;
  /** Epoch milliseconds. */
  clock?: () => bigint;
  countTokens?: TokenCounter;
  log?: Log;
  limits?: Limits;
}

/** What an erasure touched: snapshots that held one of the memories, and the memories that had a row. */
export interface Erased {
  snapshots: number;
  memories: string[];
}

/** The exported functions over one store. Not re-entrant. */
export class Prefetch<S extends Store = Store> {
  readonly #state: State;
  /** Undefined: a call was stopped, or there was none yet. */
  #instance: Instance | undefined;

  constructor(
    readonly store: S,
    options: PrefetchOptions = {},
  ) {
    this.#state = {
      store,
      memories: options.memories,
      clock: options.clock ?? (() => BigInt(Date.now())),
      countTokens: options.countTokens ?? countTokens,
      log: options.log ?? (() => {}),
      limits: options.limits ?? DEFAULT_LIMITS,
      unit: newUnit('about.describe'),
    };
  }

  /** Where the time comes from. */
  set clock(clock: () => bigint) {
    this.#state.clock = clock;
  }

  /** How many imports the last call called, but for `log`. */
  get hostCalls(): number {
    return this.#state.unit.hostCalls;
  }

  estimate(session: SessionKey, request: Request): DelegationOutcome {
    return this.#call('orchestrator.estimate', session, request, (to) => to.orchestrator.estimate(session, request));
  }

  /** `access`: `relaxed` does not wait for the disk; the next unit that does takes this one with it. */
  delegate(session: SessionKey, request: Request, access: 'write' | 'relaxed' = 'write'): DelegationOutcome {
    const run = (to: Exports) => to.orchestrator.delegate(session, request);
    return this.#call('orchestrator.delegate', session, request, run, access);
  }

  revalidate(session: SessionKey, ref: string): Receipt {
    return this.#call('orchestrator.revalidate', session, ref, (to) => to.orchestrator.revalidate(session, ref));
  }

  revoke(session: SessionKey, ref: string): void {
    return this.#call('orchestrator.revoke', session, ref, (to) => to.orchestrator.revoke(session, ref));
  }

  deliver(child: SessionKey, occasion: string, claim: Claim): Answer {
    return this.#call('child.deliver', child, [occasion, claim], (to) => to.child.deliver(child, occasion, claim));
  }

  replay(child: SessionKey): Block[] {
    return this.#call('child.replay', child, '', (to) => to.child.replay(child));
  }

  page(child: SessionKey, ref: string, number: number): Block {
    return this.#call('child.page', child, ref, (to) => to.child.page(child, ref, number));
  }

  get(session: SessionKey, ids: string[]): Found {
    return this.#call('tools.get', session, ids, (to) => to.tools.get(session, ids));
  }

  recall(session: SessionKey, target: string | undefined, query: string, limit: number): View[] {
    return this.#call('tools.recall', session, [target, query], (to) => to.tools.recall(session, target, query, limit));
  }

  evictable(ids: string[]): string[] {
    return this.#call('upkeep.evictable', undefined, ids, (to) => to.upkeep.evictable(ids));
  }

  sweep(limit: number): Swept {
    return this.#call('upkeep.sweep', undefined, '', (to) => to.upkeep.sweep(limit));
  }

  sessionEnded(session: SessionKey): void {
    return this.#call('upkeep.session-ended', undefined, session, (to) => to.upkeep.sessionEnded(session));
  }

  /** R17: with the rows of the memories themselves, in the same unit of work. */
  forget(ids: string[]): Erased {
    let memories: string[] = [];
    const { snapshots } = this.#call('upkeep.forget', undefined, ids, (to) => {
      const forgotten = to.upkeep.forget(ids);
      // The ids as the policy reads them (R2).
      memories = (this.#state.memories ?? this.store).erase(ids.map((id) => id.replace(/^#/, '')));
      return forgotten;
    });
    return { snapshots, memories };
  }

  encode(delegation: Delegation): string {
    return this.#call('wire.encode', undefined, delegation, (to) => to.wire.encode(delegation));
  }

  decode(json: string): Delegation {
    return this.#call('wire.decode', undefined, json, (to) => to.wire.decode(json));
  }

  parseMarkers(text: string): Marked {
    return this.#call('wire.parse-markers', undefined, text, (to) => to.wire.parseMarkers(text));
  }

  describe(): Info {
    return this.#call('about.describe', undefined, '', (to) => to.about.describe());
  }

  /** Any export by its name, its arguments in their order: for scenarios. */
  call(name: ExportName, args: unknown[]): unknown {
    const method = name.replace(/^.*\./, '').replace(/-./g, (dash) => dash.charAt(1).toUpperCase());
    const run = (this as unknown as Record<string, (...args: unknown[]) => unknown>)[method];
    return run?.apply(this, args);
  }

  close(): void {
    this.#instance = undefined;
    this.#state.memories?.close?.();
    this.store.close();
  }

  /** One exported call, one unit of work. */
  #call<T>(
    name: ExportName,
    session: SessionKey | undefined,
    request: unknown,
    run: (to: Exports) => T,
    access = ACCESS[name],
  ): T {
    const state = this.#state;
    const size = textBytes(request) + textBytes(session);
    if (size > state.limits.bytesIn) {
      throw new StoreFailure('too-large', `the request has ${size} bytes, and this host takes ${state.limits.bytesIn}`);
    }
    state.unit = newUnit(name, size);
    if (access) {
      state.store.beginUnit(access);
      // Waiting for another process is not the component's time.
      state.unit.began = performance.now();
      try {
        state.memories?.begin?.();
      } catch (error) {
        state.store.rollBack();
        throw error;
      }
    }

    let result: { ok: T } | { error: unknown };
    try {
      result = { ok: run(this.#fresh()) };
    } catch (error) {
      result = { error: this.#failure(name, error) };
    }
    return this.#end(name, session, result);
  }

  #failure(name: ExportName, error: unknown): unknown {
    // jco's error for an answer that is one; each instance has a class of its own for it. Another one has come from an
    // import, right through the component.
    if (error instanceof Error && error.constructor.name === 'ComponentError') {
      return new PolicyError((error as Error & { payload: ContractError }).payload);
    }
    // A trap: it may be in any state.
    this.#instance = undefined;
    if (error instanceof StoreFailure) return error;
    return new ComponentFailure(name, error);
  }

  /** Commit or undo, and keep the audit either way. */
  #end<T>(name: ExportName, session: SessionKey | undefined, result: { ok: T } | { error: unknown }): T {
    const state = this.#state;
    const { store } = state;
    const entries = state.unit.audit;
    const at = entries.length === 0 ? 0n : now(state);
    const rows = (rolledBack: boolean): AuditRow[] =>
      entries.map((entry) => ({ at, session, export: name, component: digest, rolledBack, entry }));
    state.memories?.end?.();
    if (ACCESS[name]) {
      try {
        if ('ok' in result) {
          if (writes(name)) store.appendAudit(rows(false));
          store.commit();
        }
      } catch (error) {
        result = { error };
      }
      const undone = 'error' in result;
      if (undone) store.rollBack();
      // A unit that reads has no transaction to write in; one that was undone has none any more.
      if ((undone || !writes(name)) && entries.length > 0) {
        try {
          store.appendAudit(rows(undone));
        } catch (failure) {
          state.log('error', `${entries.length} audit entries could not be written: ${String(failure)}`);
        }
      }
    }
    if ('error' in result) throw result.error;
    return result.ok;
  }

  /** An instance in which nothing is left of earlier calls: it could keep what another caller had. */
  #fresh(): Exports {
    if (!this.#instance?.renew()) this.#instance = instantiate(makeImports(this.#state));
    return this.#instance.exports;
  }
}

/** Bytes of all texts in a request. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return bytes(value);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce<number>((total, inner) => total + textBytes(inner), 0);
}
