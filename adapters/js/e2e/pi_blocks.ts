// What a model reads of ours in a request: blocks with their memories, notices, or nothing.

import assert from 'node:assert/strict';
import { textsOf } from './model_server.js';
import type { ModelRequest } from './model_server.js';

/** How everything of ours begins. */
const OURS = '[memory-prefetch]';

/** How a block begins; what begins otherwise is a notice, or what a parent is told. */
export const BLOCK = `${OURS} Stored memories`;

/** What a child is told if nothing could be read (docs/hosts.md). */
export const FIXED_NOTICE =
  '[memory-prefetch] No memories were delivered: they could not be read. Go on without them, or ask the agent that ' +
  'delegated this task.';

/** Every text of the request's messages, part by part. */
export function textsIn(request: ModelRequest): string[] {
  return request.body.messages.flatMap(textsOf);
}

/** The one block of a request, which is a text of its own. */
export function blockOf(request: ModelRequest): string {
  const blocks = textsIn(request).filter((text) => text.includes(BLOCK));
  assert.equal(blocks.length, 1, `${blocks.length} texts with a block:\n${outline(request)}`);
  const block = blocks[0] as string;
  assert.ok(block.startsWith(BLOCK), `what stands before the block: ${block.slice(0, block.indexOf(BLOCK))}`);
  assert.equal(block.split(BLOCK).length, 2, 'the block is there twice');
  return block;
}

/** A request in a few lines: a harness's own texts are long. */
function outline(request: ModelRequest): string {
  const lines = request.body.messages.map(({ role, content }) => `${role}: ${JSON.stringify(content)}`);
  return lines.map((line) => (line.length > 300 ? `${line.slice(0, 300)}…` : line)).join('\n');
}

/** The memories of a block, by id: the bytes between their fences. */
export function memoriesIn(block: string): Record<string, string> {
  const found = block.matchAll(/^Memory ("(?:[^"\\]|\\.)*")[^\n]*:\n<<<(\d+)\n([^]*?)\n\2>>>$/gm);
  return Object.fromEntries([...found].map(([, id, , body]) => [JSON.parse(id as string) as string, body as string]));
}

/** This request has exactly these memories, byte for byte, once. */
export function assertDelivered(request: ModelRequest, memories: Readonly<Record<string, string>>): void {
  assert.deepEqual(memoriesIn(blockOf(request)), memories);
}

/** This request has no memory, and says so once. */
export function assertNotice(request: ModelRequest, notice?: string): void {
  const ours = textsIn(request).filter((text) => text.includes(OURS));
  assert.equal(ours.length, 1, `${ours.length} texts of ours:\n${outline(request)}`);
  assert.ok(ours[0]?.startsWith(OURS) && !ours[0].includes(BLOCK), ours[0]);
  if (notice !== undefined) assert.equal(ours[0], notice);
}

/** This request has nothing of ours. */
export function assertSilent(request: ModelRequest): void {
  assert.deepEqual(
    textsIn(request).filter((text) => text.includes(OURS)),
    [],
  );
}

/** This request has not a word of this memory. */
export function assertErased(request: ModelRequest, body: string): void {
  assert.ok(!textsIn(request).some((text) => text.includes(body)), 'an erased memory is in a request');
}

/** What the parent's tools have answered by now, without the texts of any memory. */
export function answersIn(request: ModelRequest | undefined): string {
  assert.ok(request, 'the parent made no further request');
  const text = request.body.messages
    .filter(({ role }) => role === 'tool')
    .flatMap(textsOf)
    .join('\n');
  assert.ok(!text.includes(BLOCK), 'the parent has the block of its child');
  return text;
}
