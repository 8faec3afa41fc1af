// What the adapters of all harnesses share: which session acts, what is registered and claimed, what stands in a request,
// and what is said where something fails. A harness's own file only knows where its hooks are. The task always goes on:
// nothing here throws but for a `memory` field that the parent's model must write anew.

import { createHash } from 'node:crypto';
import type { Answer, Capacity, Claim, SessionKey, View } from './contract.js';
import { HostFailure, client } from './client.js';
import type { Client } from './client.js';
import { projectMemory, readSettings } from './config.js';
import type { Settings } from './config.js';
import { Delegations, originOf } from './delegations.js';
import type { Registered } from './delegations.js';
import { isInOrder } from './field.js';
import { gist } from './gist.js';
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
  /** The parent's session, and what is to be known of it; asking the harness may fail. */
  parent: string;
  session(): Promise<Session>;
  /** The harness's id of the call; with the item's number, where a call starts several children. */
  callId: string;
  task: string;
  /** The `memory` argument, as the model wrote it. */
  memory: unknown;
  agentType: string | undefined;
  model?(): Promise<ChildModel>;
}

/** What a child knows of the delegation that it comes from. */
export interface ChildTask {
  /** Its task text, or the prompt that contains it. */
  task: string;
  agentType: string | undefined;
  /** The call that it comes from, where the harness can tell. */
  callId?: string | undefined;
  /** What another process of the harness says of that call: its snapshot; that it named nothing; that it was lost. */
  told?: { ref?: string | undefined; nothing?: boolean | undefined; lost?: boolean | undefined } | undefined;
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

/** What is known of one child between its claim and its end. */
interface Child {
  /** Whether it may have been given something, so that it must be told where that cannot be read. */
  expects: boolean;
  claimed: Answer | { failed: string } | undefined;
  /** The notice where claiming failed, and the turn that it belongs to. */
  notice: Text | undefined;
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
  /** Why the project has no name. */
  #unnamed: string | undefined;
  /** Why memory is off, as it was logged. */
  #off: string | undefined;
  readonly #project: Promise<string | undefined>;
  readonly #delegations = new Delegations();
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
      this.#unnamed = text(error);
      log('warn', `memory-prefetch cannot name the project, so no memory is visible: ${this.#unnamed}`);
      return undefined;
    });
  }

  key(id: string): SessionKey {
    return { harness: this.#harness, id };
  }

  /** Whether the project's own files leave memory on. Asked each time, since they may change. */
  #memoryOn(): boolean {
    const { on, why } = projectMemory(this.#directory);
    if (why !== undefined && why !== this.#off) this.#log('info', `memory is off in this project: ${why}`);
    this.#off = why;
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
  async register(delegation: Delegation): Promise<string | undefined> {
    const { registered, registering } = this.#begin(delegation, true);
    await registering;
    return refOf(registered);
  }

  /**
   * As `register`, for a harness that starts the child in this process: the child's claim waits for it. Here is waited only
   * where the field may be one that the parent's model must write anew.
   */
  async registerMeanwhile(delegation: Delegation): Promise<void> {
    const isWaited = !isInOrder(delegation.memory);
    const { registering } = this.#begin(delegation, isWaited);
    if (isWaited) await registering;
  }

  /** Known at once: what else happens in this harness may ask for it. */
  #begin(delegation: Delegation, isWaited: boolean): { registered: Registered; registering: Promise<void> } {
    const { parent, callId, task, memory } = delegation;
    const registered: Registered = {
      parent,
      callId,
      task,
      named: memory !== undefined && memory !== null,
      fate: 'it is not registered yet',
      registeredAs: undefined,
      settled: Promise.resolve(),
      isSettled: false,
      isRefused: false,
      child: undefined,
    };
    const registering = this.#register(registered, delegation, isWaited);
    registered.settled = registering
      .catch(() => {})
      .then(() => {
        registered.isSettled = true;
      });
    this.#delegations.add(registered);
    return { registered, registering };
  }

  async #register(registered: Registered, delegation: Delegation, isWaited: boolean): Promise<void> {
    const { parent, session, callId, task, memory, agentType, model } = delegation;
    try {
      const written = registered.named ? asJson(memory) : undefined;
      // A provider may number the calls of each conversation, or of each answer, from 0: the same id and another request is
      // another call, while a retry stays the same (R26).
      const identity = digestOf(JSON.stringify([callId, this.#delegations.turn(parent), task, written, agentType]));
      registered.registeredAs = plain(`${callId}/${identity.slice(0, 16)}`);
      registered.fate = await this.#host().register(
        await this.#caller(await session()),
        {
          task,
          memory: written,
          capacity: this.#capacity((await model?.()) ?? UNKNOWN_MODEL),
          agentType: agentType === undefined ? undefined : plain(agentType),
          callId: registered.registeredAs,
          ttlSeconds: this.#settings?.ttlSeconds,
        },
        isWaited,
      );
    } catch (error) {
      const isParents = error instanceof HostFailure && error.kind === 'policy' && PARENTS_FAULT.includes(error.tag);
      if (isWaited && (error instanceof WrongField || (registered.named && isParents))) {
        registered.isRefused = true;
        this.#delegations.end(parent, callId);
        throw error instanceof WrongField ? error : new WrongField(`memory: ${text(error)}`);
      }
      registered.fate = this.#failed('registering a delegation', error);
    }
  }

  /** The parent's model goes on: its earlier calls have ended, whatever became of them. */
  nextTurn(parent: string): void {
    this.#delegations.nextTurn(parent);
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

  async #claim(child: Session, occasion: string, { task, agentType, callId, told }: ChildTask): Promise<void> {
    if (!child.parent) return;
    const parent = child.parent.id;
    let own =
      callId === undefined ? this.#delegations.callOf(parent, task, child.id) : this.#delegations.of(parent, callId);
    // Before anything is waited for: the next child's call must not be taken for this one's.
    if (own) own.child = child.id;
    const possible = own ? [own] : this.#delegations.candidates(parent, task);
    await Promise.all(possible.map(({ settled }) => settled));
    const candidates = possible.filter(({ isRefused }) => !isRefused);
    const [only] = candidates;
    if (!own && candidates.length === 1 && only?.task === task && only.child === undefined) {
      own = only;
      own.child = child.id;
    }
    const origin = originOf(candidates);
    const nothing = told?.nothing || (own !== undefined && !own.named);
    // One that is known to have been given nothing, now and before, has nothing to miss.
    const expects = !(nothing || origin.named === false) || (this.#children.get(child.id)?.expects ?? false);
    const known: Child = { expects, claimed: undefined, notice: undefined };
    this.#children.set(child.id, known);
    forgetOldest(this.#children);
    const caller = await this.#caller(child);
    if (!caller.memoryOn || nothing) return;
    try {
      // What could not be registered must not make the child take its sibling's (R23).
      const why = origin.lost ?? (told?.lost ? 'the delegation could not be registered' : undefined);
      if (why !== undefined) throw new HostFailure('store', 'other', why);
      const ref = told?.ref ?? (own && refOf(own));
      const hints = { task, agentType: agentType === undefined ? undefined : plain(agentType), registersAll: true };
      const claim: Claim =
        ref === undefined ? { tag: 'parent-session', val: hints } : { tag: 'snapshot-ref', val: ref };
      known.claimed = await this.#host().claim(caller, plain(occasion), claim);
    } catch (error) {
      known.claimed = { failed: this.#failed('claiming for a child', error) };
      if (expects) known.notice = { text: FIXED_NOTICE, occasion };
    }
  }

  /** What stands in each request of this session: for a child, what it was given. */
  async texts(session: Session): Promise<Text[]> {
    if (!session.parent) return [];
    await this.#claiming.get(session.id);
    const known = this.#children.get(session.id);
    const notice = known?.notice;
    const caller = await this.#caller(session);
    if (!caller.memoryOn) return [];
    try {
      const given = await this.#host().replay(caller);
      return notice ? [...given, notice] : given;
    } catch (error) {
      this.#failed('reading what a child was given', error);
      return known?.expects === false ? [] : [notice ?? { text: FIXED_NOTICE, occasion: undefined }];
    }
  }

  /** What the parent is told of this call, once its child has ended. `child`: undefined if it has not begun; `whose`: which of several. */
  async gist(parent: string, callId: string, child: string | undefined, whose?: string): Promise<string | undefined> {
    if (child !== undefined) await this.#claiming.get(child);
    const delegation =
      child === undefined ? this.#delegations.of(parent, callId) : this.#delegations.end(parent, callId);
    if (!delegation?.named) return undefined;
    await delegation.settled;
    const claimed = child === undefined ? 'not yet' : this.#children.get(child)?.claimed;
    return gist({ registered: delegation.fate, claimed }, whose);
  }

  /** As `gist`, where children run in other processes: what is known of the child is whether it took what was for it. */
  async gistFromAfar(parent: Session, callId: string, whose?: string): Promise<string | undefined> {
    const delegation = this.#delegations.end(parent.id, callId);
    if (!delegation?.named) return undefined;
    const { fate: registered, registeredAs } = delegation;
    try {
      const taken = registeredAs !== undefined && (await this.#host().taken(await this.#caller(parent), registeredAs));
      return gist({ registered, claimed: { taken } }, whose);
    } catch (error) {
      return gist({ registered, claimed: { failed: this.#failed('asking for a delivery', error) } }, whose);
    }
  }

  /** Whether this call could not be registered, so that its child must not look for it. */
  isLost(parent: string, callId: string): boolean {
    return typeof this.#delegations.of(parent, callId)?.fate === 'string';
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
      if (found.length > 0) return found.map(shown).join('\n\n');
      return (await host.isMemoryOn(caller)) ? 'No memories were found.' : OFF;
    });
  }

  async get(session: Session, { ids, part }: { ids: string[]; part?: number | undefined }): Promise<string> {
    return this.#tool(session, part, async (host, caller) => {
      const { memories, unavailable } = await host.get(caller, ids);
      if (memories.length === 0 && !(await host.isMemoryOn(caller))) return OFF;
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
      if (!caller.memoryOn) return OFF;
      if (caller.project === undefined) {
        return `No memory is visible, since this project cannot be named: ${this.#unnamed}`;
      }
      return inParts(await run(this.#host(), caller), part);
    } catch (error) {
      if (!(error instanceof HostFailure && error.kind === 'policy')) this.#failed('a tool', error);
      return `Error: ${text(error)}`;
    }
  }

  /** R29: the child's own budget. */
  #capacity({ name, context, output }: ChildModel): Capacity {
    // OpenCode says 0 where a model's limits are not configured.
    const share = context ? Math.floor(Math.max(0, context - (output ?? 0)) / SHARE) : SMALL_BUDGET;
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

/** R13: what a model is told whose user has switched memory off. */
const OFF = 'Memory is off in this project.';

const UNKNOWN_MODEL: ChildModel = { name: undefined, context: undefined, output: undefined };

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
  return `sha256-${digestOf(name)}`;
}

/** The snapshot of a delegation that was handed over frozen. */
function refOf({ fate }: Registered): string | undefined {
  const field = typeof fate === 'string' || fate.tag !== 'handed-over' ? undefined : fate.val.memory;
  return field?.tag === 'snapshot-ref' ? field.val : undefined;
}

/** Throws `WrongField`: what a model wrote may be nested deeper than can be written down. */
function asJson(memory: unknown): string {
  try {
    return JSON.stringify(memory);
  } catch (error) {
    throw new WrongField(`memory: it cannot be read (${text(error)})`);
  }
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
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
