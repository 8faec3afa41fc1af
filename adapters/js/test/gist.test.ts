// What a parent is told of a delegation: what was delivered, what not, and why; never a text, and nothing that could be
// taken for ours.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Answer, DelegationOutcome, Receipt } from '../dist/contract.js';
import { gist } from '../dist/gist.js';
import type { Fate } from '../dist/gist.js';

const size = { bytes: 100, tokens: 40, counted: false };
const item = (id: string) => ({ id, version: '1', sha256: '0'.repeat(64), size, removed: false });

function receipt(more: Partial<Receipt>): Receipt {
  return {
    snapshotRef: 'snap_1',
    frozenAt: 0n,
    expiresAt: 1n,
    items: [item('11')],
    unavailable: [],
    omitted: [],
    size: { bytes: 645, tokens: 255, counted: false },
    pages: 1,
    attributes: [],
    ...more,
  };
}

function handedOver(more: Partial<Receipt> = {}, warnings: string[] = []): DelegationOutcome {
  return { tag: 'handed-over', val: { memory: undefined, receipt: receipt(more), warnings } };
}

function answer(outcome: Answer['outcome'], more: Partial<Receipt> = {}): Answer {
  return {
    outcome,
    replayed: false,
    block: undefined,
    receipt: outcome.tag === 'delivered' ? receipt(more) : undefined,
  };
}

test('what was delivered, what is unavailable, what was left out', () => {
  const more = { unavailable: ['99', 'a"b\u202e'], omitted: [{ id: '7', size, why: 'over-budget' }], pages: 2 };
  assert.equal(
    gist({ registered: handedOver(), claimed: answer({ tag: 'delivered' }, more) }),
    '[memory-prefetch] Delivered to the agent: "11" (645 bytes, at most 255 tokens, 2 pages, of which it has the first, ' +
      'snapshot snap_1). Unavailable: "99", "a\\"b\\u202e". Left out, over its budget: "7" (100 bytes, at most 40 tokens).',
  );
});

test('why an agent got none', () => {
  const none = (registered: DelegationOutcome | string, claimed: Fate['claimed']) =>
    gist({ registered, claimed }) ?? '';
  const cases: [string, RegExp][] = [
    [none('the store is busy: locked', undefined), /got no memories: the store is busy: locked\.$/],
    [none({ tag: 'memory-off' }, undefined), /Memory is off here/],
    [
      none(
        {
          tag: 'refused',
          val: {
            tag: 'over-capacity',
            val: { unit: 'tokens', budget: 5, needed: 9, sizes: [{ id: '7', size, why: '' }] },
          },
        },
        undefined,
      ),
      /they take 9 tokens, and its budget is 5\. Name fewer of them: "7" \(100 bytes/,
    ],
    [none(handedOver(), undefined), /did not ask/],
    [none(handedOver(), 'not yet'), /To be delivered when the agent begins: "11"/],
    [none(handedOver(), { taken: false }), /no agent took them/],
    [none(handedOver(), { taken: true }), /Delivered to the agent: "11"/],
    [none(handedOver(), answer({ tag: 'ambiguous', val: 2 })), /2 delegations with the same text/],
    [none(handedOver(), answer({ tag: 'expired' })), /began too late/],
    [none(handedOver(), answer({ tag: 'memory-off' })), /Memory is off for the agent/],
    [none(handedOver(), { failed: 'no answer within 7000 ms' }), /no answer within 7000 ms/],
    [
      none(
        handedOver({ items: [], unavailable: ['99'] }),
        answer({ tag: 'delivered' }, { items: [], unavailable: ['99'] }),
      ),
      /got no memories\. Unavailable: "99"/,
    ],
  ];
  for (const [said, expected] of cases) assert.match(said, expected);
});

test('nothing is said where no memory was named, but for a warning', () => {
  const registered = (warnings: string[]): DelegationOutcome => ({
    tag: 'handed-over',
    val: { memory: undefined, receipt: undefined, warnings },
  });
  assert.equal(gist({ registered: registered([]), claimed: undefined }), undefined);
  assert.equal(
    gist({ registered: registered(['two are alike']), claimed: undefined }),
    '[memory-prefetch] Note: two are alike.',
  );
});
