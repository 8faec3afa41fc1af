// What a parent is told of a delegation, in the result of its tool: what its child got, what it did not get, and why (R28).
// One line, without any text of a memory; ids and whatever else a model or a user wrote are JSON strings.

import type { Answer, DelegationOutcome, Omission, Receipt, Refusal } from './contract.js';

/** How every text of ours begins, so that nobody takes it for the child's words. */
const HEAD = '[memory-prefetch]';

/** What became of a delegation, as far as it is known. */
export interface Fate {
  /** What registering it answered; a message where that failed. */
  registered: DelegationOutcome | string;
  /**
   * What its child was answered, or why it could not be asked. In a harness that runs children in other processes, only
   * whether a child took it. undefined: it did not ask; `not yet`: it has not begun.
   */
  claimed: Answer | { failed: string } | { taken: boolean } | 'not yet' | undefined;
}

/**
 * The line, or undefined where the parent named no memory and nothing else has to be said. `whose`: which of several
 * agents of one call it is about.
 */
export function gist({ registered, claimed }: Fate, whose?: string): string | undefined {
  const said = typeof registered === 'string' ? [failed(registered)] : outcome(registered, claimed);
  return said.length === 0 ? undefined : [HEAD, ...(whose === undefined ? [] : [`${whose}:`]), ...said].join(' ');
}

function failed(why: string): string {
  return `The agent got no memories: ${sentence(why)}`;
}

function outcome(registered: DelegationOutcome, claimed: Fate['claimed']): string[] {
  switch (registered.tag) {
    case 'memory-off':
      return ['Memory is off here: the agent got no memories.'];
    case 'refused':
      return [`The agent got no memories: ${refused(registered.val)}`];
    case 'handed-over': {
      const { receipt, warnings } = registered.val;
      // They say what may keep a child from its memories, and are of no use once it has them.
      const has = typeof claimed === 'object' && 'outcome' in claimed && claimed.outcome.tag === 'delivered';
      const warned = has ? [] : warnings.map((warning) => `Note: ${sentence(warning)}`);
      return receipt ? [...given(receipt, claimed), ...warned] : warned;
    }
  }
}

function given(receipt: Receipt, claimed: Fate['claimed']): string[] {
  if (claimed === 'not yet') return contents(receipt, 'To be delivered when the agent begins');
  if (!claimed) return ['The agent did not ask for its memories, so it got none.'];
  if ('failed' in claimed) return [failed(claimed.failed)];
  if ('taken' in claimed) {
    return claimed.taken
      ? contents(receipt)
      : [failed('no agent took them; it did not ask, or another delegation has the same text')];
  }
  switch (claimed.outcome.tag) {
    case 'delivered':
    case 'live':
      return contents(claimed.receipt ?? receipt);
    case 'memory-off':
      return ['Memory is off for the agent: it got no memories.'];
    case 'nothing':
      return [failed('nothing was waiting for it under this text')];
    case 'ambiguous':
      return [
        failed(
          `${claimed.outcome.val} delegations with the same text and other memories fit it; give each its own text`,
        ),
      ];
    case 'taken':
      return [failed('they were taken by another agent that was given the same text')];
    case 'expired':
      return [failed('it began too late; delegate again')];
    case 'revoked':
      return [failed('they were revoked')];
    case 'refused':
      return [`The agent got no memories: ${refused(claimed.outcome.val)}`];
  }
}

function contents(receipt: Receipt, what = 'Delivered to the agent'): string[] {
  const { items, unavailable, omitted, size, pages } = receipt;
  const said: string[] = [];
  if (items.length > 0) {
    const tokens = `${size.counted ? '' : 'at most '}${size.tokens} tokens`;
    const more = pages > 1 ? `, ${pages} pages, of which it has the first` : '';
    const named = receipt.snapshotRef ? `, snapshot ${receipt.snapshotRef}` : '';
    said.push(
      `${what}: ${items.map(({ id }) => quoted(id)).join(', ')} (${size.bytes} bytes, ${tokens}${more}${named}).`,
    );
  } else {
    said.push('The agent got no memories.');
  }
  if (unavailable.length > 0) said.push(`Unavailable: ${unavailable.map(quoted).join(', ')}.`);
  if (omitted.length > 0) said.push(`Left out, over its budget: ${sizes(omitted)}.`);
  return said;
}

function refused(refusal: Refusal): string {
  switch (refusal.tag) {
    case 'unavailable':
      return `unavailable are ${refusal.val.map(quoted).join(', ')}.`;
    case 'other-workspace':
      return 'it works in another workspace.';
    case 'over-capacity': {
      const { unit, budget, needed, sizes: each } = refusal.val;
      return `they take ${needed} ${unit}, and its budget is ${budget}. Name fewer of them: ${sizes(each)}.`;
    }
    case 'policy':
      return sentence(refusal.val);
  }
}

function sizes(list: Omission[]): string {
  return list
    .map(
      ({ id, size }) => `${quoted(id)} (${size.bytes} bytes, ${size.counted ? '' : 'at most '}${size.tokens} tokens)`,
    )
    .join(', ');
}

/** What a model or a store wrote may not look like ours: JSON, with line ends and controls escaped (R35). */
function quoted(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
