// The extension of OMP. Its children run in the same process, and it says of each which call of which session started it,
// so a child claims exactly its own: by the snapshot's ref, also where two have the same text. What it was given is put
// into each of its requests, reminders too, and is never part of OMP's own session.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Adapter, ChildTask, Session } from './adapter.js';
import { itemsOf, offerMemory, putIn, registerTools } from './pi_family.js';
import type { Api, Context, Message, ToolCall, ToolResult } from './pi_family.js';

const HARNESS = 'omp';

/** The tool that starts children. */
const TASK = 'task';

/** How a child's prompt begins, before its task text. */
const PREFIX = 'Complete assignment thoroughly:\n\n';

/** What was registered for one item of a call. */
interface Registered {
  parent: string;
  task: string;
  /** Resolves once it is registered. */
  ref: Promise<string | undefined>;
}

/** Of all sessions of this process: OMP evaluates this once, and calls `extension` for each session. */
let adapter: Promise<Adapter> | undefined;
/** By call id and index of the item. */
const registered = new Map<string, Registered>();
/** By the child's session file: the call that started it. */
const started = new Map<string, string>();

const load = (): Promise<Adapter> =>
  (adapter ??= import('./adapter.js').then((module) => new module.Adapter(HARNESS, process.cwd(), log)));

export default function extension(omp: Api): void {
  /** The raw arguments of calls, by id: what OMP takes for the tool's own schema lacks unknown keys inside of `tasks`. */
  const raw = new Map<string, Record<string, unknown>>();
  let claimed: Promise<void> | undefined;

  registerTools(omp, { loadMode: 'essential' }, load, session);

  on('session_start', async () => {
    // So that it is ready when it is needed.
    await load();
  });

  on('before_provider_request', async ({ payload }: { payload: unknown }) => {
    const offered = taskSchemas(payload).filter(offerMemory);
    return offered.length > 0 ? payload : undefined;
  });

  on('message_update', async ({ assistantMessageEvent: happened }: { assistantMessageEvent?: Update }) => {
    if (happened?.type !== 'toolcall_end' || happened.toolCall?.name !== TASK) return;
    raw.set(happened.toolCall.id, happened.toolCall.arguments);
  });

  on('tool_call', async ({ toolName, toolCallId, input }: ToolCall, context) => {
    if (toolName !== TASK) return undefined;
    const on = await load();
    const parent = await session(context);
    const batch = Array.isArray(input['tasks']);
    const written = batch ? await arrived(() => raw.get(toolCallId)) : undefined;
    raw.delete(toolCallId);
    const memories = itemsOf(written ?? input);
    await Promise.all(
      itemsOf(input).map(async ({ index, task, agent }) => {
        const callId = `${toolCallId}/${index}`;
        const memory = memories.find((item) => item.index === index)?.memory;
        const ref = on.register(parent, { task, memory, callId, agentType: agent ?? TASK, model: UNKNOWN });
        registered.set(callId, { parent: parent.id, task, ref });
        await ref;
      }),
    );
    // OMP passes over a top-level key that it does not know; taking it out would change the model's own call in the history.
    return undefined;
  });

  omp.events?.on('task:subagent:lifecycle', ((happened: Lifecycle) => {
    if (happened.status !== 'started' || happened.sessionFile === undefined) return;
    started.set(happened.sessionFile, `${happened.parentToolCallId}/${happened.index}`);
  }) as (event: never) => void);

  on('tool_result', async ({ toolName, toolCallId, input, content }: ToolResult) => {
    if (toolName !== TASK) return undefined;
    const on = await load();
    const said = await Promise.all(
      itemsOf(input).map(({ index }) => {
        const callId = `${toolCallId}/${index}`;
        const child = children.get(callId);
        registered.delete(callId);
        children.delete(callId);
        return on.gist(callId, child);
      }),
    );
    const lines = said.filter((line) => line !== undefined);
    return lines.length === 0 ? undefined : { content: [...content, { type: 'text', text: lines.join('\n') }] };
  });

  on('before_agent_start', async ({ prompt }: { prompt: string }, context) => {
    // It comes again with every reminder, and the first answer stands.
    claimed ??= claim(prompt, context);
    await claimed;
  });

  on('context', async ({ messages }: { messages: Message[] }, context) => {
    const child = await session(context);
    if (!child.parent) return undefined;
    await claimed;
    return { messages: putIn(messages, await (await load()).texts(child)) };
  });

  async function claim(prompt: string, context: Context): Promise<void> {
    const child = await session(context);
    if (!child.parent) return;
    const callId = started.get(context.sessionManager.getSessionFile() ?? '');
    const own = callId === undefined ? undefined : registered.get(callId);
    if (callId !== undefined) children.set(callId, child.id);
    const ref = await own?.ref.catch(() => undefined);
    const task = own?.task ?? (prompt.startsWith(PREFIX) ? prompt.slice(PREFIX.length) : prompt);
    const claiming: ChildTask = { task, agentType: child.agent, ref };
    await (await load()).claim(child, 'start', claiming);
  }

  /** A handler that fails must not stop a task. Only a field that the model has to write anew stops it, and the model is told. */
  function on<E>(event: string, handler: (event: E, context: Context) => Promise<unknown>): void {
    omp.on(event, (async (happened: E, context: Context) => {
      try {
        return await handler(happened, context);
      } catch (error) {
        if (error instanceof Error && error.name === 'WrongField') return { block: true, reason: error.message };
        log('error', `${event}: ${String(error)}`);
        return undefined;
      }
    }) as (event: never, context: Context) => unknown);
  }
}

/** By call id and index: the child's session. */
const children = new Map<string, string>();

interface Update {
  type: string;
  toolCall?: { name: string; id: string; arguments: Record<string, unknown> };
}

interface Lifecycle {
  status: string;
  parentToolCallId?: string;
  index?: number;
  sessionFile?: string;
}

/** R29: roles and settings may give the child another model than the parent's. */
const UNKNOWN = { name: undefined, context: undefined, output: undefined };

async function session({ sessionManager }: Context): Promise<Session> {
  const file = sessionManager.getSessionFile();
  const callId = file === undefined ? undefined : started.get(file);
  const parent = (callId && registered.get(callId)?.parent) ?? parentOf(sessionManager.getHeader()?.parentSession);
  const agent = sessionManager.getEntries().find(({ type }) => type === 'session_init')?.agent;
  return {
    id: sessionManager.getSessionId(),
    agent: agent ?? (await load()).agent,
    parent: parent === undefined ? undefined : { harness: HARNESS, id: parent },
  };
}

/** The session whose file this is: by the file's own first lines, else by its name, `TIME_ID.jsonl`. */
function parentOf(file: string | undefined): string | undefined {
  if (file === undefined) return undefined;
  const known = parents.get(file) ?? idIn(file) ?? basename(file, '.jsonl').split('_').pop();
  if (known !== undefined) parents.set(file, known);
  return known;
}

const parents = new Map<string, string>();

function idIn(file: string): string | undefined {
  try {
    for (const line of readFileSync(file, 'utf8').split('\n', 8)) {
      const entry = JSON.parse(line) as { type?: string; id?: string };
      if (entry.type === 'session') return entry.id;
    }
  } catch {
    // It may be gone; its name is left.
  }
  return undefined;
}

/** Schemas of the task tool, in the payloads of the providers' several APIs. */
function taskSchemas(payload: unknown): unknown[] {
  const { tools } = (payload ?? {}) as { tools?: unknown };
  if (!Array.isArray(tools)) return [];
  const all = (tools as ProviderTool[]).flatMap((tool) => tool.functionDeclarations ?? [tool.function ?? tool]);
  return all.filter(({ name }) => name === TASK).map((tool) => tool.parameters ?? tool.input_schema);
}

interface ProviderTool {
  name?: string;
  parameters?: unknown;
  input_schema?: unknown;
  function?: ProviderTool;
  functionDeclarations?: ProviderTool[];
}

/** What another handler is about to bring, within a second. */
async function arrived<T>(look: () => T | undefined): Promise<T | undefined> {
  for (let waited = 0; waited < 1_000; waited += 2) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  return undefined;
}

function log(level: string, line: string): void {
  const file = process.env['MEMORY_PREFETCH_LOG'];
  if (file) void import('node:fs').then((fs) => fs.appendFileSync(file, `${level} ${line}\n`)).catch(() => {});
}
