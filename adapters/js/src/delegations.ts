// The delegations of this process whose tool calls are still going on. Only for what the store cannot know: which of them
// could not be registered, and which named no memory. Who gets what is decided by the policy.

import type { Fate } from './gist.js';

/** One call, or one item of a call that starts several children. */
export interface Registered {
  parent: string;
  /** The harness's id of the call. Two sessions may use the same. */
  callId: string;
  task: string;
  /** Whether it named memories. */
  named: boolean;
  /** What registering it answered; a text: why it could not be. */
  fate: Fate['registered'];
  /** The call id that the host knows it by; undefined: none. */
  registeredAs: string | undefined;
  /** Resolves when `fate` is known. */
  settled: Promise<unknown>;
  isSettled: boolean;
  /** Its field was wrong, so that no child comes from it. */
  isRefused: boolean;
  /** The child that it started, once that is known. */
  child: string | undefined;
}

/** What is known of the delegation that a child comes from, once it is settled. */
export interface Origin {
  /** Why it, or one that cannot be told from it, could not be registered. */
  lost: string | undefined;
  /** Whether it named memories; undefined: not known. */
  named: boolean | undefined;
}

/** How many are remembered. A call that fails has no end that a harness tells. */
const REMEMBERED = 1_000;

export class Delegations {
  #all: Registered[] = [];
  readonly #turns = new Map<string, number>();

  /** How often the parent's model went on in this process: its calls are numbered anew each time by some providers. */
  turn(parent: string): number {
    return this.#turns.get(parent) ?? 0;
  }

  add(delegation: Registered): void {
    this.#all = [...this.#all.filter((other) => !isSame(other, delegation)), delegation].slice(-REMEMBERED);
  }

  of(parent: string, callId: string): Registered | undefined {
    return this.#all.find((other) => isSame(other, { parent, callId }));
  }

  /** Its call has ended. */
  end(parent: string, callId: string): Registered | undefined {
    const ended = this.of(parent, callId);
    this.#all = this.#all.filter((other) => other !== ended);
    return ended;
  }

  /** The parent's model goes on, so that all of its calls that were registered have ended, also where that was not told. */
  nextTurn(parent: string): void {
    this.#turns.set(parent, this.turn(parent) + 1);
    this.#all = this.#all.filter((other) => other.parent !== parent || !other.isSettled);
  }

  /**
   * The one call that this child comes from, if only one can be: each of the parent's calls that are going on is known
   * before its child begins, so a single one with this text, and without a child, is it.
   */
  callOf(parent: string, text: string, child: string): Registered | undefined {
    const open = this.#all.filter(
      (other) => other.parent === parent && other.task === text && (other.child ?? child) === child,
    );
    return open.length === 1 ? open[0] : undefined;
  }

  /**
   * Those that a child with this text may come from: with the equal text, else with the longest that the text contains, as
   * the policy joins them (R23).
   */
  candidates(parent: string, text: string): Registered[] {
    const own = this.#all.filter((delegation) => delegation.parent === parent);
    const equal = own.filter(({ task }) => task === text);
    const inside = own.filter(({ task }) => task !== '' && text.includes(task));
    const longest = inside.reduce((length, { task }) => Math.max(length, task.length), 0);
    return equal.length > 0 ? equal : inside.filter(({ task }) => task.length === longest);
  }
}

/** What is known of a child that comes from one of these. If one of them was lost, the child may be that one's. */
export function originOf(delegations: readonly Registered[]): Origin {
  const lost = delegations.map(({ fate }) => fate).find((fate) => typeof fate === 'string');
  return { lost, named: delegations.length === 0 ? undefined : delegations.some(({ named }) => named) };
}

function isSame(one: Registered, other: Pick<Registered, 'parent' | 'callId'>): boolean {
  return one.parent === other.parent && one.callId === other.callId;
}
