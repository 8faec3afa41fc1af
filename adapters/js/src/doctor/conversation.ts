// What the scripted model says in a proof: the parent calls its tool for starting agents once and names a memory, the
// agent answers at once. Whose request one is, is known by a word that only one of both has in it.

import { randomBytes } from 'node:crypto';
import { textsOf, toolResults } from './model_server.js';
import type { JsonSchema, ModelRequest, Reply, ToolDefinition } from './model_server.js';

/** What differs between harnesses. */
export interface Speech {
  /** The tool that starts agents, if the parent is offered one. */
  starter(tools: readonly ToolDefinition[]): ToolDefinition | undefined;
  /** What to call it with. */
  call(schema: JsonSchema, task: string, memory: unknown): Record<string, unknown>;
  /** Where its schema offers the field `memory`. */
  offered(schema: JsonSchema): JsonSchema | undefined;
  /** How an agent ends, with this answer. */
  finish(answer: string): Reply;
}

export class Conversation {
  /** What the user asks the parent for. */
  readonly prompt = `A check of memory-prefetch: delegate the task. (${word()})`;
  readonly task = `A check of memory-prefetch: answer with one word. (${word()})`;
  /** What the parent asked of the model; not what has no tools, as a title. */
  readonly parent: ModelRequest[] = [];
  readonly child: ModelRequest[] = [];
  readonly #speech: Speech;
  readonly #memory: unknown;

  /** `id`: the memory that the parent names. */
  constructor(speech: Speech, id: string) {
    this.#speech = speech;
    this.#memory = { prefetch_ids: [id] };
  }

  answer(request: ModelRequest): Reply {
    const { tools = [], messages } = request.body;
    const says = (text: string) => messages.some((message) => textsOf(message).some((part) => part.includes(text)));
    if (tools.length > 0 && says(this.prompt)) {
      this.parent.push(request);
      const tool = this.#speech.starter(tools);
      if (!tool || this.parent.length > 1) return { text: 'The check is done.' };
      const { name, parameters = {} } = tool.function;
      return { toolCalls: [{ name, arguments: this.#speech.call(parameters, this.task, this.#memory) }] };
    }
    if (!says(this.task)) return { text: 'A check.' };
    this.child.push(request);
    return this.#speech.finish('Checked.');
  }

  /** The tool that starts agents, as the parent was offered it. */
  get starter(): ToolDefinition | undefined {
    return this.#speech.starter(this.parent[0]?.body.tools ?? []);
  }

  get isOffered(): boolean {
    const schema = this.starter?.function.parameters;
    return schema !== undefined && this.#speech.offered(schema) !== undefined;
  }

  /** What the parent's tool said in the end; undefined: the parent was never told. */
  get result(): string | undefined {
    const told = this.parent[1];
    return told && toolResults(told).join('\n');
  }
}

/** What {@link word} makes. */
export const WORD = /check-[0-9a-f]{24}/;

/** A word that stands nowhere else. */
export function word(): string {
  return `check-${randomBytes(12).toString('hex')}`;
}
