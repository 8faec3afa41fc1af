// What a parent model is offered and told: the `memory` field of a task tool, and the tools to read with. Plain JSON
// Schema of the kind that all model providers take: no references, no alternatives. What is given is read by
// `wire.decode`, so this only has to invite what that takes (wit/delegation.schema.json is exact).

/** The JSON Schema of a task tool's `memory` property. */
export const memoryField = {
  type: 'object',
  description:
    'Stored memories that this agent shall have in full before it begins, named by id. Their text is handed over as it ' +
    'is: do not paste it into the prompt. Leave this out where no memory is needed.',
  properties: {
    prefetch_ids: {
      type: 'array',
      items: { type: 'string' },
      description: 'Ids of memories, in the order in which the agent shall read them. memory_recall finds ids.',
    },
    mode: {
      type: 'string',
      enum: ['frozen', 'live'],
      description: 'frozen (default): the content as it is now. live: the content as it is when the agent reads it.',
    },
    snapshot_ref: {
      type: 'string',
      description: 'Instead of prefetch_ids: a snapshot that an earlier delegation of yours made (snap_…).',
    },
  },
  // What else a model writes is refused by the policy, which says what is allowed.
} as const;

/** What every host takes, wherever the user has not set a lower limit (R2, `max-ids`). */
const MOST_IDS = 64;
const MOST_BYTES = 256;

/**
 * Whether this is plainly a field as it should be, so that nothing about it has to be said to the model that wrote it. Only
 * for not waiting: what a field means, and whether it holds, is the policy's.
 */
export function isInOrder(memory: unknown): boolean {
  if (memory === undefined || memory === null) return true;
  if (typeof memory !== 'object' || Object.keys(memory).some((name) => name !== 'prefetch_ids')) return false;
  const { prefetch_ids: ids } = memory as { prefetch_ids?: unknown };
  const isId = (id: unknown) =>
    typeof id === 'string' &&
    // No control character, and no half of one that takes two.
    /^[^\p{Cc}\p{Cs}]+$/u.test(id) &&
    id !== '#' &&
    Buffer.byteLength(id) <= MOST_BYTES;
  return Array.isArray(ids) && ids.length > 0 && ids.length <= MOST_IDS && ids.every(isId);
}

/** Harnesses cut long answers of tools, and some keep the whole text in a file, where no erasure would reach it (R17). */
const part = {
  type: 'integer',
  description: 'The part of a long answer, from 1. Long answers say how many there are.',
} as const;

/** Tools that a model may call; the session is never an argument (R5). */
export const tools = {
  memory_recall: {
    description:
      'Search stored memories. Answers with ids and texts, best first. Pass ids on to an agent that you start, in the ' +
      '`memory` field of the tool that starts it.',
    parameters: {
      query: { type: 'string', description: 'Words to look for; any text is legal.' },
      agent: { type: 'string', description: 'Search the memories of this agent, if a link lets you read them.' },
      limit: { type: 'integer', description: 'At most so many results, 1 to 100. Default 10.' },
      part,
    },
    required: ['query'],
  },
  memory_get: {
    description: 'Read stored memories by id.',
    parameters: {
      ids: { type: 'array', items: { type: 'string' }, description: 'Ids of memories.' },
      part,
    },
    required: ['ids'],
  },
  memory_page: {
    description: 'Read another page of the memories that you were given when your task began.',
    parameters: {
      snapshot_ref: { type: 'string', description: 'The snapshot that your memories name (snap_…).' },
      page: { type: 'integer', description: 'The number of the page, from 2.' },
      part,
    },
    required: ['snapshot_ref', 'page'],
  },
} as const;

export type ToolName = keyof typeof tools;
