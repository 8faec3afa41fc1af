// What the adapters of all harnesses share: which session acts, what is registered and claimed, what stands in a request,
// and what is said where something fails. A harness's own file only knows where its hooks are. The task always goes on:
// nothing here throws but for a `memory` field that the parent's model must write anew.

import { createHash } from 'node:crypto';
import type { Answer, Capacity, Claim, SessionKey, View } from './contract.js';
import { HostFailure, client } from './client.js';
import type { Client } from './client.js';
import { projectMemory, readSettings } from './config.js';
import type { Settings } from './config.js';
import { gist } from './gist.js';
import type { Fate } from './gist.js';
import { inParts } from './parts.js';
import { projectIdentity } from './project_identity.js';
import type { Caller, Text } from './service.js';

/** What stands where the block would, if nothing could be read (docs/hosts.md). */
export const FIXED_NOTICE =
  '[memory-prefetch] No memories were delivered: they could not be read. Go on without them, or ask the agent that ' +
  'delegated this task.';

/** A session, as the harness knows it. */
export interface Session {
  id: string;
  agent: string;
  /** The session that started it. */
  parent: SessionKey | undefined;
}

/** The model that a child will run on, as far as it is known (R29). */
export interface ChildModel {
  name: string | undefined;
  /** Its context window in tokens, and what is kept free for its answer. */
  context: number | undefined;
  output: number | undefined;
}

export interface Delegation {
  task: string;
  memory: unknown;
  callId: string | undefined;
  agentType: string | undefined;
  model: ChildModel;
}

/** What a child knows of the delegation that it comes from. */
export interface ChildTask {
  /** Its task text, or the prompt that contains it. */
  task: string;
  agentType: string | undefined;
  /** The snapshot, where the harness can tell which call the child comes from. */
  ref?: string | undefined;
  /** The delegation could not be registered, as another process of the harness says. */
  lost?: boolean;
}

export interface Recalling {
  query: string;
  agent?: string | undefined;
  limit?: number | undefined;
  part?: number | undefined;
}

export interface Paging {
  ref: string;
  page: number;
  part?: number | undefined;
}

/** The parent's model wrote something that only it can put right. The harness hands the message to the model. */
export class WrongField extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'WrongField';
  }
}

export type Log = (level: 'info' | 'warn' | 'error', line: string) => void;

/** What a child's memories may take where its model's window is not known, in tokens. */
const SMALL_BUDGET = 16_000;

/** The part of a child's window that memories may take where the user has not set `budgetTokens`. */
const SHARE = 4;

/** For how long the request that follows a claim need not ask again, in milliseconds. */
const FRESH_MS = 2_000;

/** What is known of one child between its claim and its end. */
interface Child {
  /** Whether it may have been given something, so that it must be told where that cannot be read. */
  expects: boolean;
  claimed: Answer | string | undefined;
  /** The notice where claiming failed, and the turn that it belongs to. */
  notice: Text | undefined;
  /** What stood in its requests when it claimed, and when that was (`performance.now()`). */
  fresh: { texts: Text[]; at: number } | undefined;
}

/** One harness's adapter in one directory. */
export class Adapter {
  readonly #harness: string;
  readonly #directory: string;
  readonly #log: Log;
  #client: Client | undefined;
  #settings: Settings | undefined;
  /** Why there is no client. */
  #broken: string | undefined;
  readonly #project: Promise<string | undefined>;
  /** By call id. */
  readonly #delegations = new Map<string, { parent: string; task: string; named: boolean; fate: Fate['registered'] }>();
  readonly #children = new Map<string, Child>();
  /** By child: a claim that is on its way. */
  readonly #claiming = new Map<string, Promise<void>>();

  /** `directory`: the root of the project that the harness works in. */
  constructor(harness: string, directory: string, log: Log) {
    this.#harness = harness;
    this.#directory = directory;
    this.#log = log;
    try {
      this.#settings = readSettings();
      this.#client = client(this.#settings);
    } catch (error) {
      this.#broken = text(error);
      log('error', `memory-prefetch is off: ${this.#broken}`);
    }
    this.#project = projectIdentity(directory).catch((error: unknown) => {
      log('warn', `memory-prefetch cannot name the project, so no memory is visible: ${text(error)}`);
      return undefined;
    });
  }

  key(id: string): SessionKey {
    return { harness: this.#harness, id };
  }

  /** Whether the project's own files leave memory on. Asked each time, since they may change. */
  #memoryOn(): boolean {
    const { on, why } = projectMemory(this.#directory);
    if (!on) this.#log('info', `memory is off in this project: ${why}`);
    return on;
  }

  async #caller(session: Session): Promise<Caller> {
    return {
      key: this.key(session.id),
      agent: plain(session.agent),
      project: await this.#project,
      parent: session.parent,
      memoryOn: this.#memoryOn(),
    };
  }

  /**
   * A parent starts a child (R14). Answers the snapshot's ref, for a harness that can tell which child comes of which call.
   * Throws `WrongField` only.
   */
  async register(parent: Session, delegation: Delegation): Promise<string | undefined> {
    const { task, memory, callId, agentType, model } = delegation;
    const named = memory !== undefined && memory !== null;
    let fate: Fate['registered'];
    try {
      const caller = await this.#caller(parent);
      fate = await this.#host().register(caller, {
        task,
        memory,
        capacity: this.#capacity(model),
        agentType: agentType && plain(agentType),
        callId: callId && plain(callId),
        ttlSeconds: this.#settings?.ttlSeconds,
      });
    } catch (error) {
      if (named && error instanceof HostFailure && error.kind === 'policy' && PARENTS_FAULT.includes(error.tag)) {
        throw new WrongField(`memory: ${error.message}`);
      }
      fate = this.#failed('registering a delegation', error);
    }
    const id = callId ?? `${parent.id}/${task}`;
    this.#delegations.set(id, { parent: parent.id, task, named, fate });
    forgetOldest(this.#delegations);
    const field = typeof fate === 'string' || fate.tag !== 'handed-over' ? undefined : fate.val.memory;
    return field?.tag === 'snapshot-ref' ? field.val : undefined;
  }

  /**
   * A child's turn begins. Claims what is for it; `occasion` is the harness's id of the turn (R25). A harness need not wait:
   * `texts` and `gist` do.
   */
  claim(child: Session, occasion: string, task: ChildTask): Promise<void> {
    const claiming = this.#claim(child, occasion, task);
    this.#claiming.set(child.id, claiming);
    return claiming.finally(() => {
      if (this.#claiming.get(child.id) === claiming) this.#claiming.delete(child.id);
    });
  }

  async #claim(child: Session, occasion: string, { task, agentType, ref, lost }: ChildTask): Promise<void> {
    if (!child.parent) return;
    const delegation = this.#find(child.parent.id, task);
    // One that is known to have been given nothing, now and before, has nothing to miss.
    const expects = delegation?.named !== false || (this.#children.get(child.id)?.expects ?? false);
    const known: Child = { expects, claimed: undefined, notice: undefined, fresh: undefined };
    this.#children.set(child.id, known);
    forgetOldest(this.#children);
    const caller = await this.#caller(child);
    if (!caller.memoryOn) return;
    try {
      // What could not be registered must not make the child take its sibling's (R23).
      if (typeof delegation?.fate === 'string') throw new HostFailure('store', 'other', delegation.fate);
      if (lost) throw new HostFailure('store', 'other', 'the delegation could not be registered');
      const hints = { task, agentType: agentType && plain(agentType), registersAll: true };
      const claim: Claim =
        ref === undefined ? { tag: 'parent-session', val: hints } : { tag: 'snapshot-ref', val: ref };
      const { answer, texts } = await this.#host().claim(caller, plain(occasion), claim);
      known.claimed = answer;
      known.fresh = { texts, at: performance.now() };
    } catch (error) {
      known.claimed = this.#failed('claiming for a child', error);
      if (expects) known.notice = { text: FIXED_NOTICE, occasion };
    }
  }

  /** What stands in each request of this session: for a child, what it was given. */
  async texts(session: Session): Promise<Text[]> {
    if (!session.parent) return [];
    await this.#claiming.get(session.id);
    const known = this.#children.get(session.id);
    const { fresh, notice } = known ?? {};
    const caller = await this.#caller(session);
    if (!caller.memoryOn) return [];
    if (known) known.fresh = undefined;
    if (fresh && performance.now() - fresh.at < FRESH_MS) return fresh.texts;
    try {
      const given = await this.#host().replay(caller);
      return notice ? [...given, notice] : given;
    } catch (error) {
      this.#failed('reading what a child was given', error);
      return known?.expects === false ? [] : [notice ?? { text: FIXED_NOTICE, occasion: undefined }];
    }
  }

  /** What the parent is told of this call, once its child has ended. */
  async gist(callId: string, childId: string | undefined): Promise<string | undefined> {
    if (childId !== undefined) await this.#claiming.get(childId);
    const delegation = this.#delegations.get(callId);
    this.#delegations.delete(callId);
    if (!delegation?.named) return undefined;
    return gist({ registered: delegation.fate, claimed: childId ? this.#children.get(childId)?.claimed : undefined });
  }

  /** As `gist`, where children run in other processes: what is known of the child is whether it took what was for it. */
  async gistFromAfar(parent: Session, callId: string): Promise<string | undefined> {
    const delegation = this.#delegations.get(callId);
    this.#delegations.delete(callId);
    if (!delegation?.named) return undefined;
    try {
      const taken = await this.#host().taken(await this.#caller(parent), plain(callId));
      return gist({ registered: delegation.fate, claimed: { taken } });
    } catch (error) {
      return gist({ registered: delegation.fate, claimed: this.#failed('asking for a delivery', error) });
    }
  }

  /** Whether this call could not be registered, so that its child must not look for it. */
  isLost(callId: string): boolean {
    return typeof this.#delegations.get(callId)?.fate === 'string';
  }

  /** What agents are called where the harness has no names for them. */
  get agent(): string {
    return this.#settings?.agent ?? this.#harness;
  }

  /** The harness will not run this session again (R18). */
  async ended(id: string): Promise<void> {
    this.#children.delete(id);
    await this.#host()
      .ended(this.key(id))
      .catch((error: unknown) => void this.#failed('ending a session', error));
  }

  /** Tools: what a model is answered. `part`: which part of a long answer. */
  async recall(session: Session, { query, agent, limit, part }: Recalling): Promise<string> {
    return this.#tool(session, part, async (host, caller) => {
      const found = await host.recall(caller, query, agent, limit ?? 10);
      return found.length === 0 ? 'No memories were found.' : found.map(shown).join('\n\n');
    });
  }

  async get(session: Session, { ids, part }: { ids: string[]; part?: number | undefined }): Promise<string> {
    return this.#tool(session, part, async (host, caller) => {
      const { memories, unavailable } = await host.get(caller, ids);
      const said = memories.map(shown);
      if (unavailable.length > 0) said.push(`Unavailable: ${unavailable.map((id) => JSON.stringify(id)).join(', ')}.`);
      return said.join('\n\n');
    });
  }

  async page(session: Session, { ref, page, part }: Paging): Promise<string> {
    return this.#tool(session, part, async (host, caller) => (await host.page(caller, ref, page)).text);
  }

  async #tool(
    session: Session,
    part: number | undefined,
    run: (host: Client, caller: Caller) => Promise<string>,
  ): Promise<string> {
    try {
      const caller = await this.#caller(session);
      if (!caller.memoryOn) return 'Memory is off in this project.';
      return inParts(await run(this.#host(), caller), part);
    } catch (error) {
      if (!(error instanceof HostFailure && error.kind === 'policy')) this.#failed('a tool', error);
      return `Error: ${text(error)}`;
    }
  }

  /** The delegation that this child comes from, if it was registered in this process. */
  #find(parent: string, task: string) {
    const all = [...this.#delegations.values()].filter((delegation) => delegation.parent === parent);
    return (
      all.find((delegation) => delegation.task === task) ??
      all
        .filter((delegation) => delegation.task !== '' && task.includes(delegation.task))
        .sort((a, b) => b.task.length - a.task.length)[0]
    );
  }

  /** R29: the child's own budget. */
  #capacity({ name, context, output }: ChildModel): Capacity {
    const share = context === undefined ? SMALL_BUDGET : Math.floor(Math.max(0, context - (output ?? 0)) / SHARE);
    const tokens = this.#settings?.budgetTokens ?? Math.max(1, share);
    return { budget: { tag: 'tokens', val: tokens }, model: name, overflow: this.#settings?.overflow ?? 'refuse' };
  }

  #host(): Client {
    if (!this.#client) throw new HostFailure('component', 'failed', this.#broken ?? 'it could not be started');
    return this.#client;
  }

  #failed(what: string, error: unknown): string {
    this.#log('error', `memory-prefetch: ${what} failed: ${text(error)}`);
    return text(error);
  }
}

/** Errors of the contract that the parent's model can put right, by another field or another delegation. */
const PARENTS_FAULT = ['malformed', 'unavailable', 'expired', 'revoked'];

/** How many children and delegations of one process are remembered. */
const REMEMBERED = 1_000;

function forgetOldest(map: Map<string, unknown>): void {
  const oldest = map.keys().next();
  if (map.size > REMEMBERED && !oldest.done) map.delete(oldest.value);
}

/** A name that the contract takes: at most 256 bytes and without control characters; another one is named by its digest. */
function plain(name: string): string {
  if (name !== '' && Buffer.byteLength(name) <= 256 && !/[\u0000-\u001f\u007f-\u009f]/.test(name)) return name;
  return `sha256-${createHash('sha256').update(name).digest('hex')}`;
}

function shown(view: View): string {
  const { id, owner, category, body } = view;
  const head = [
    `Memory ${JSON.stringify(id)} of ${JSON.stringify(owner)}`,
    category && `category ${JSON.stringify(category)}`,
  ];
  return `${head.filter(Boolean).join(', ')}:\n${body}`;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
