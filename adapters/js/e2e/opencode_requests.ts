// What the tests look for in a request, in the bytes as they came over the wire.

import assert from 'node:assert/strict';
import { textsOf } from './model_server.js';
import type { ModelRequest } from './model_server.js';
import type { Child, Played } from './opencode_scene.js';

/** How everything of ours begins (README.md). */
export const HEAD = '[memory-prefetch]';
export const BLOCK_HEAD = '[memory-prefetch] Stored memories, ';

/** What stands where the block would, where nothing could be read (docs/hosts.md). */
export const FIXED_NOTICE =
  '[memory-prefetch] No memories were delivered: they could not be read. Go on without them, or ask the agent that ' +
  'delegated this task.';

/** How often a text stands in the body of a request, as it came. */
export function timesIn({ raw }: ModelRequest, text: string): number {
  return raw.split(JSON.stringify(text).slice(1, -1)).length - 1;
}

/** The texts of ours among what the user says in this request; what tools say is not among them. */
export function givenIn({ body }: ModelRequest): string[] {
  const users = body.messages.filter(({ role }) => role === 'user');
  return users.flatMap(textsOf).filter((text) => text.startsWith(HEAD));
}

/** A child's first request. */
export function first({ requests, id }: Child): ModelRequest {
  const [request] = requests;
  assert.ok(request, `${id} made no request`);
  return request;
}

/** The child whose task this is. */
export function childOf({ children }: Played, prompt: string): Child {
  const says = (child: Child) => first(child).body.messages.flatMap(textsOf);
  const found = children.filter((child) => says(child).includes(prompt));
  assert.equal(found.length, 1, `one child has the task ${JSON.stringify(prompt)}`);
  return found[0]!;
}

/** The one text of ours in a child's first request. It must be the same and there once in each later one, too. */
export function givenTo(child: Child): string {
  const [text, ...more] = givenIn(first(child));
  assert.ok(text !== undefined, 'the first request has a text of ours');
  assert.deepEqual(more, []);
  for (const request of child.requests) assert.equal(timesIn(request, text), 1);
  return text;
}

/** As `givenTo`, for one that is a block with these memories and no others of `bodies`. */
export function blockWith(child: Child, ids: string[], bodies: Record<string, string>): string {
  const block = givenTo(child);
  assert.ok(block.startsWith(BLOCK_HEAD), block);
  for (const [id, body] of Object.entries(bodies)) {
    const fenced = new RegExp(`^Memory ${JSON.stringify(id)}, .*\\n<<<(\\d+)\\n`, 'm').exec(block);
    assert.equal(fenced !== null, ids.includes(id), `memory ${id} is there: ${ids.includes(id)}`);
    if (!fenced) continue;
    const start = fenced.index + fenced[0].length;
    assert.equal(block.slice(start, start + body.length), body, `memory ${id}, byte for byte`);
    assert.ok(block.startsWith(`\n${fenced[1]}>>>\n`, start + body.length), `memory ${id} ends where its fence does`);
  }
  return block;
}

/** Nothing of ours is in any request of this child. */
export function nothingGiven(child: Child): void {
  for (const request of child.requests) assert.equal(timesIn(request, HEAD), 0);
}
