// The extension of OMP. Its children run in the same process, and it says of each which call of which session started it,
// so a child claims exactly its own: by the snapshot's ref, also where two have the same text. What it was given is put
// into each of its requests, reminders too, and is never part of OMP's own session.

import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import type { Adapter, Session } from './adapter.js';
import { guarded, itemsOf, log, offerMemory, putIn, registerTools, whose } from './pi_family.js';
import type { Api, Context, Message, ToolCall, ToolResult } from './pi_family.js';

const HARNESS = 'omp';

/** The tool that starts children. */
const TASK = 'task';

/** How a child's prompt begins, before its task text. */
const PREFIX = 'Complete assignment thoroughly:\n\n';

/** What was registered for one item of a call. */
interface Registered {
  parent: string;
  callId: string;
  task: string;
  /** Resolves once it is registered; the ref of its snapshot, and whether it could not be. */
  outcome: Promise<{ ref: string | undefined; lost: boolean }>;
  /** The child that it started, once that has begun. */
  child: string | undefined;
}

/** Of all sessions of this process: OMP evaluates this once, and calls `extension` for each session. */
let adapter: Promise<Adapter> | undefined;
/** By session, call id and index of the item: providers may number the calls of each conversation from 0. */
const registered = new Map<string, Registered>();
/** By the child's session file: the key in `registered` of what started it. */
const started = new Map<string, string>();

/** How many are remembered, of children that may still begin. */
const REMEMBERED = 1_000;

const load = (): Promise<Adapter> =>
  (adapter ??= import('./adapter.js').then((module) => new module.Adapter(HARNESS, process.cwd(), log)));

export default function extension(omp: Api): void {
  const on = guarded(omp);
  /** The raw arguments of calls, by id: what OMP takes for the tool's own schema lacks unknown keys inside of `tasks`. */
  const raw = new Map<string, Record<string, unknown>>();
  let claimed: Promise<void> | undefined;
  /** This session's id, which its own part of OMP's events does not say. */
  let own: string | undefined;

  registerTools(omp, { loadMode: 'essential' }, load, session);

  on('session_start', async (_event, context) => {
    own = context.sessionManager.getSessionId();
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
    own = context.sessionManager.getSessionId();
    const parent = own;
    const batch = Array.isArray(input['tasks']);
    const written = batch ? await arrived(() => raw.get(toolCallId)) : undefined;
    raw.delete(toolCallId);
    const memories = itemsOf(written ?? input);
    await Promise.all(
      itemsOf(input).map(async ({ index, task, agent }) => {
        const callId = `${toolCallId}/${index}`;
        const memory = memories.find((item) => item.index === index)?.memory;
        const agentType = agent ?? TASK;
        const registering = on.register({ parent, session: () => session(context), callId, task, memory, agentType });
        const outcome = registering.then((ref) => ({ ref, lost: on.isLost(parent, callId) }));
        registered.set(keyOf(parent, callId), { parent, callId, task, outcome, child: undefined });
        const oldest = registered.keys().next();
        if (registered.size > REMEMBERED && !oldest.done) registered.delete(oldest.value);
        await outcome;
      }),
    );
    // OMP passes over a top-level key that it does not know; taking it out would change the model's own call in the history.
    return undefined;
  });

  omp.events?.on('task:subagent:lifecycle', ((happened: Lifecycle) => {
    if (happened.status !== 'started' || happened.sessionFile === undefined || own === undefined) return;
    started.set(happened.sessionFile, keyOf(own, `${happened.parentToolCallId}/${happened.index}`));
  }) as (event: never) => void);

  on('tool_result', async ({ toolName, toolCallId, input, content }: ToolResult, context) => {
    if (toolName !== TASK) return undefined;
    const on = await load();
    const parent = context.sessionManager.getSessionId();
    const items = itemsOf(input);
    const said = await Promise.all(
      items.map((item) => {
        const callId = `${toolCallId}/${item.index}`;
        const child = registered.get(keyOf(parent, callId))?.child;
        // One that runs in the background may begin later.
        if (child !== undefined) registered.delete(keyOf(parent, callId));
        return on.gist(parent, callId, child, whose(item, items));
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
    const from = registered.get(started.get(context.sessionManager.getSessionFile() ?? '') ?? '');
    if (from) from.child = child.id;
    const { ref, lost } = (await from?.outcome.catch(() => undefined)) ?? { ref: undefined, lost: false };
    const task = from?.task ?? (prompt.startsWith(PREFIX) ? prompt.slice(PREFIX.length) : prompt);
    const callId = from?.callId;
    await (await load()).claim(child, 'start', { task, agentType: child.agent, callId, told: { ref, lost } });
  }
}

function keyOf(session: string, callId: string): string {
  return JSON.stringify([session, callId]);
}

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

async function session({ sessionManager }: Context): Promise<Session> {
  const file = sessionManager.getSessionFile();
  const from = file === undefined ? undefined : registered.get(started.get(file) ?? '');
  const parent = from?.parent ?? parentOf(sessionManager.getHeader()?.parentSession);
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
