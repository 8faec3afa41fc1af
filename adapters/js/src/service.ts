// What the adapters of harnesses need of the host, one call for each thing that happens in a harness: a delegation is
// registered, a child claims what is for it, a request is about to be made, a model uses a tool. Synchronous: it runs in a
// worker (src/worker.ts).

import type {
  Answer,
  Block,
  Capacity,
  Claim,
  DelegationOutcome,
  Found,
  MemoryField,
  SessionKey,
  View,
} from './contract.js';
import type { Prefetch } from './host.js';
import type { SqliteStore } from './sqlite/store.js';

/** What a harness knows of a session that acts. Never what a model wrote. */
export interface Caller {
  key: SessionKey;
  /** The agent's name. */
  agent: string;
  /** Its project; undefined where it could not be named, and then it sees no memory (R7). */
  project: string | undefined;
  /** The session that delegated to it. */
  parent: SessionKey | undefined;
  /** `false`: the project's own files say that memory is off (R13). They may only restrict. */
  memoryOn: boolean;
}

/** A delegation, as the parent's task tool was called. */
export interface Delegating {
  task: string;
  /** The tool's `memory` argument as the model wrote it, in JSON; undefined: none. */
  memory: string | undefined;
  /** The child's budget (R29). */
  capacity: Capacity;
  agentType: string | undefined;
  /** The harness's id of the tool call, so that a retry is not a twin (R26). */
  callId: string | undefined;
  ttlSeconds: number | undefined;
}

/** A text that stands in a child's requests, and the turn that it came with; undefined after a restart. */
export interface Text {
  text: string;
  occasion: string | undefined;
}

/** For how long what was read ahead may stand for reading it, in milliseconds: deliveries have an end (R18). */
const AHEAD_MS = 1_000;

/** The operations, over one store. */
export class Service {
  /** By child: what `replay` would answer, for the request that follows its claim. */
  readonly #ahead = new Map<string, { texts: Text[]; version: string; at: number }>();
  /** Occasions whose content is live, by child: resolved anew at each request. */
  readonly #live = new Map<string, string[]>();
  /** By child and text of a block, the occasion on which it was given. */
  readonly #occasions = new Map<string, Map<string, string>>();

  constructor(
    readonly prefetch: Prefetch<SqliteStore>,
    /** How every block begins. */
    readonly prefix: string = prefetch.describe().blockPrefix,
  ) {}

  /**
   * R14: register a delegation, whether or not it names memories. Throws `PolicyError` `malformed` for a wrong field.
   * `isWaited`: somebody goes on when it is done, so it must be on the disk. Else the child's claim takes it there.
   */
  register(parent: Caller, delegating: Delegating, isWaited = true): DelegationOutcome {
    const memory = this.#field(delegating.memory);
    this.#know(parent);
    const request = {
      task: delegating.task,
      memory,
      capacity: memory ? delegating.capacity : undefined,
      priorities: [],
      agentType: delegating.agentType,
      ttlSeconds: delegating.ttlSeconds,
      children: 1,
      strict: false,
      carry: 'snapshot-ref' as const,
      callId: delegating.callId,
      attributes: [],
    };
    return this.prefetch.delegate(parent.key, request, isWaited ? 'write' : 'relaxed');
  }

  /** The child's turn begins: give it what its parent handed over (R22). The same occasion gives the same answer (R25). */
  claim(child: Caller, occasion: string, claim: Claim): Answer {
    this.#know(child);
    const answer = this.prefetch.deliver(child.key, occasion, claim);
    const id = name(child.key);
    if (answer.outcome.tag === 'live') this.#addLive(id, occasion);
    if (answer.block) this.#remember(id, answer.block, occasion);
    this.#readAhead(child, id);
    return answer;
  }

  /** Whether a child took what this call handed over. */
  taken(parent: Caller, callId: string): boolean {
    const store = this.prefetch.store;
    const filter = { parent: parent.key, callId, openOnly: false, withTask: false };
    return this.#read(() => store.findHandOvers(filter, 1).some(({ taken }) => taken > 0));
  }

  /** What stands in each request of this child, in the order in which it was given (R25, R27). */
  replay(child: Caller): Text[] {
    const id = name(child.key);
    const ahead = this.#ahead.get(id);
    this.#ahead.delete(id);
    // What was revoked or erased meanwhile must not be given (R17, R21).
    const holds = ahead && isFresh(ahead.at) && ahead.version === this.prefetch.store.version();
    return holds ? ahead.texts : this.#replay(child, id);
  }

  #replay(child: Caller, id: string): Text[] {
    const live = this.#live.get(id) ?? this.#findLive(child.key, id);
    const blocks = this.prefetch.replay(child.key);
    for (const occasion of live) {
      const answer = this.prefetch.deliver(child.key, occasion, ANY);
      if (answer.block) {
        this.#remember(id, answer.block, occasion);
        blocks.push(answer.block);
      }
    }
    return blocks.map(({ text }) => ({ text, occasion: this.#occasions.get(id)?.get(text) }));
  }

  /** R40 */
  recall(caller: Caller, query: string, agent: string | undefined, limit: number): View[] {
    this.#know(caller);
    return this.prefetch.recall(caller.key, agent, query, limit);
  }

  get(caller: Caller, ids: string[]): Found {
    this.#know(caller);
    return this.prefetch.get(caller.key, ids);
  }

  /** R13: whether the store leaves memory on for this session, and for its project. */
  isMemoryOn({ key }: Caller): boolean {
    const [session] = this.#read(() => this.prefetch.store.sessions([key]));
    return session?.memoryOn === true && session.project?.memoryOn === true;
  }

  /** R32 */
  page(caller: Caller, ref: string, number: number): Block {
    return this.prefetch.page(caller.key, ref, number);
  }

  /** The harness will not run this session again (R18). */
  ended(key: SessionKey): void {
    this.#live.delete(name(key));
    this.#occasions.delete(name(key));
    this.prefetch.sessionEnded(key);
  }

  /** One small batch of a sweep; answers whether there is more (R19). */
  sweep(): boolean {
    return this.prefetch.sweep(100).more;
  }

  close(): void {
    this.prefetch.close();
  }

  /** R38: the field as the policy reads it. */
  #field(memory: string | undefined): MemoryField | undefined {
    return memory === undefined ? undefined : this.prefetch.decode(`{"memory":${memory}}`).memory;
  }

  /** Tell the directory who acts. What the user has set for a project stays. */
  #know({ key, agent, project, parent, memoryOn }: Caller): void {
    this.prefetch.store.ensureDirectory({ agent, project, session: key, parent, memoryOn });
  }

  /** While nobody waits: the harness goes on starting the child. Live content is as it is when it is read. */
  #readAhead(child: Caller, id: string): void {
    this.#ahead.delete(id);
    for (const [other, { at }] of this.#ahead) if (!isFresh(at)) this.#ahead.delete(other);
    try {
      const live = this.#live.get(id) ?? this.#findLive(child.key, id);
      const version = this.prefetch.store.version();
      if (version === undefined || live.length > 0) return;
      this.#ahead.set(id, { texts: this.#replay(child, id), version, at: Date.now() });
    } catch {
      // The request itself will find out, and say why.
    }
  }

  /** After a restart: which of the child's occasions are live. Only those deliveries have neither bytes nor a notice. */
  #findLive(child: SessionKey, id: string): string[] {
    const rows = this.#read(() => this.prefetch.store.deliveries(child).map((row) => row.delivery));
    const without = rows.filter((row) => row.handOver !== undefined && !row.snapshotRef && row.notice === undefined);
    this.#live.set(id, []);
    for (const { occasion } of without) {
      const answer = this.prefetch.deliver(child, occasion, ANY);
      if (answer.outcome.tag === 'live') this.#addLive(id, occasion);
    }
    return this.#live.get(id) ?? [];
  }

  /** Rows that no policy has to be asked about, since they are the caller's own. */
  #read<T>(run: () => T): T {
    const { store } = this.prefetch;
    store.beginUnit('read');
    try {
      const rows = run();
      store.commit();
      return rows;
    } catch (error) {
      store.rollBack();
      throw error;
    }
  }

  #addLive(id: string, occasion: string): void {
    const known = this.#live.get(id) ?? [];
    if (!known.includes(occasion)) this.#live.set(id, [...known, occasion]);
  }

  #remember(id: string, block: Block, occasion: string): void {
    const known = this.#occasions.get(id) ?? new Map<string, string>();
    if (!known.has(block.text)) known.set(block.text, occasion);
    this.#occasions.set(id, known);
  }
}

/** The answer of an occasion is repeated whatever is asked, so nothing is said here. */
const ANY: Claim = { tag: 'parent-session', val: { task: undefined, agentType: undefined, registersAll: false } };

/** Whether what was read at this time, by the clock, may still stand for reading it. */
function isFresh(at: number): boolean {
  const age = Date.now() - at;
  return age >= 0 && age < AHEAD_MS;
}

function name(key: SessionKey): string {
  return JSON.stringify([key.harness, key.id]);
}
