// What Pi and OMP have in common: the shape of their extension API, of their messages, and of the tools that start
// children. Only types and small functions: an extension of Pi that cannot be loaded ends Pi, so what may fail is imported
// later (src/pi.ts).

import type { Adapter, Session } from './adapter.js';
import type { Text } from './service.js';
import { memoryField, tools } from './field.js';

/** The part of the extension API that is used here. */
export interface Api {
  on(event: string, handler: (event: never, context: Context) => unknown): void;
  registerTool(tool: Tool): void;
  getAllTools(): { name: string; parameters?: unknown }[];
  /** OMP: what its own parts tell each other. */
  events?: { on(event: string, handler: (event: never) => void): void };
}

/** What handlers are told of the session that they run in. */
export interface Context {
  cwd: string;
  hasUI?: boolean;
  ui?: { notify?(message: string, type?: string): void };
  sessionManager: {
    getSessionId(): string;
    getSessionFile(): string | undefined;
    getHeader(): { parentSession?: string } | null | undefined;
    getEntries(): { type: string; agent?: string; task?: string }[];
  };
}

export interface Tool {
  name: string;
  label: string;
  description: string;
  parameters: unknown;
  /** OMP: offered to the model itself, and not behind a search. */
  loadMode?: 'essential';
  execute(
    id: string,
    args: Record<string, unknown>,
    signal: unknown,
    update: unknown,
    context: Context,
  ): Promise<{ content: Part[]; details: object }>;
}

interface Part {
  type: string;
  text?: string;
}

export interface Message {
  role: string;
  content?: string | Part[];
  timestamp?: number;
}

export interface ToolCall {
  toolName: string;
  toolCallId: string;
  input: Record<string, unknown>;
}

export interface ToolResult extends ToolCall {
  content: Part[];
}

/**
 * Registers handlers that never fail: that would stop a task, or write over what the user reads. Only a field that the model
 * has to write anew is the model's business: then the call is refused with these words.
 */
export function guarded(api: Api) {
  return function on<E>(event: string, handler: (event: E, context: Context) => Promise<unknown>): void {
    api.on(event, (async (happened: E, context: Context) => {
      try {
        return await handler(happened, context);
      } catch (error) {
        if (error instanceof Error && error.name === 'WrongField') return { block: true, reason: error.message };
        log('error', `${event}: ${String(error)}`);
        return undefined;
      }
    }) as (event: never, context: Context) => unknown);
  };
}

/** There is no log that both have; whoever looks for a fault names a file. */
export function log(level: string, line: string): void {
  const file = process.env['MEMORY_PREFETCH_LOG'];
  if (file) void import('node:fs').then((fs) => fs.appendFileSync(file, `${level} ${line}\n`)).catch(() => {});
}

/** One child that a call starts. */
export interface Item {
  index: number;
  task: string;
  memory: unknown;
  agent: string | undefined;
}

/** The children that a call starts: one, several beside each other, or one after the other. */
export function itemsOf(input: Record<string, unknown>): Item[] {
  // Empty ones are what a model in strict mode writes for none.
  const list = [input['chain'], input['tasks']].find((value) => Array.isArray(value) && value.length > 0) as
    unknown[] | undefined;
  return (list ?? [input]).flatMap((item, index) => {
    if (typeof item !== 'object' || item === null) return [];
    const { task, memory, agent } = item as Record<string, unknown>;
    if (typeof task !== 'string') return [];
    const named = memory ?? (list ? input['memory'] : undefined);
    return [{ index, task, memory: named ?? undefined, agent: typeof agent === 'string' ? agent : undefined }];
  });
}

/** How a parent is told which of several children of one call is meant; undefined where there is but one. */
export function whose({ index, agent }: Item, all: readonly Item[]): string | undefined {
  if (all.length === 1) return undefined;
  return agent === undefined ? `Task ${index + 1}` : `Task ${index + 1} (${JSON.stringify(agent)})`;
}

type Schema = { properties?: Record<string, Schema>; items?: Schema; type?: unknown };

/** Offer the `memory` field where a tool's schema takes a task. Answers whether it does. */
export function offerMemory(parameters: unknown): boolean {
  const schema = parameters as Schema | undefined;
  const places = [schema, schema?.properties?.['tasks']?.items, schema?.properties?.['chain']?.items];
  const taking = places.flatMap((place) => (place?.properties?.['task'] ? [place.properties] : []));
  for (const properties of taking) properties['memory'] = memoryField as unknown as Schema;
  return taking.length > 0;
}

/** The messages of a request with what the child was given before all others, so that it stays where it is. */
export function putIn(messages: Message[], texts: Text[]): Message[] {
  const missing = texts.filter(({ text }) => !messages.some((message) => textOf(message).includes(text)));
  if (missing.length === 0) return messages;
  const content = missing.map(({ text }) => ({ type: 'text', text }));
  return [{ role: 'user', content, timestamp: messages[0]?.timestamp ?? 0 }, ...messages];
}

function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => part.text ?? '').join('\n');
}

/** Tools to read with, whose session is the harness's word and not the model's. */
export function registerTools(
  api: Api,
  more: Partial<Tool>,
  adapter: () => Promise<Adapter>,
  session: (context: Context) => Promise<Session>,
): void {
  const run: Record<keyof typeof tools, (on: Adapter, as: Session, args: Record<string, unknown>) => Promise<string>> =
    {
      memory_recall: (on, as, { query, agent, limit, part }) =>
        on.recall(as, { query: text(query) ?? '', agent: text(agent), limit: whole(limit), part: whole(part) }),
      memory_get: (on, as, { ids, part }) =>
        on.get(as, { ids: Array.isArray(ids) ? ids.map(String) : [], part: whole(part) }),
      memory_page: (on, as, { snapshot_ref: ref, page, part }) =>
        on.page(as, { ref: text(ref) ?? '', page: whole(page) ?? 0, part: whole(part) }),
    };
  for (const [name, answer] of Object.entries(run)) {
    const { description, parameters, required } = tools[name as keyof typeof tools];
    api.registerTool({
      name,
      label: name,
      description,
      parameters: { type: 'object', properties: parameters, required, additionalProperties: false },
      async execute(_id, args, _signal, _update, context) {
        const said = await answer(await adapter(), await session(context), args);
        return { content: [{ type: 'text', text: said }], details: {} };
      },
      ...more,
    });
  }
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function whole(value: unknown): number | undefined {
  return Number.isInteger(value) ? (value as number) : undefined;
}
