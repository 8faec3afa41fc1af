// The extension of Pi. Pi's subagent tool starts a process for each child, whose only ties to its parent are the
// environment and its task text. So the parent says in the environment who it is, and the child claims by that and its
// text (R23); what it was given is put into each of its requests and is never part of Pi's own session.

import { createHash } from 'node:crypto';
import type { Adapter, Session } from './adapter.js';
import { itemsOf, offerMemory, putIn, registerTools } from './pi_family.js';
import type { Api, Context, Message, ToolCall, ToolResult } from './pi_family.js';

const HARNESS = 'pi';

/** Names the session that starts children, for them. */
const PARENT = 'MEMORY_PREFETCH_PARENT';

/** What else a child cannot know: JSON, by SHA-256 of the task text, for the calls that are going on. */
const CHILDREN = 'MEMORY_PREFETCH_CHILDREN';

interface Told {
  agent?: string;
  /** The delegation could not be registered. */
  lost?: true;
}

/** What this process was told by its parent. Pi evaluates extensions again at /new, when both variables are its own. */
const INHERITED = Symbol.for('memory-prefetch.pi');
const inherited = ((globalThis as Record<symbol, unknown>)[INHERITED] ??= {
  parent: process.env[PARENT],
  children: process.env[CHILDREN],
}) as { parent?: string; children?: string };

/** How a child's prompt begins, before its task text. */
const PREFIX = 'Task: ';

/** A text shorter than this says nothing of whose it is. */
const TELLING = 16;

export default function extension(pi: Api): void {
  let adapter: Promise<Adapter> | undefined;
  /** Tools that start children. */
  const starters = new Set<string>();
  /** By call id: digests of the tasks that are in the environment. */
  const running = new Map<string, string[]>();
  let task: string | undefined;
  let claimed: Promise<void> | undefined;

  const load = (): Promise<Adapter> =>
    (adapter ??= import('./adapter.js').then((module) => new module.Adapter(HARNESS, process.cwd(), log)));

  async function session(context: Context): Promise<Session> {
    const parent = inherited.parent?.startsWith(`${HARNESS}/`) ? inherited.parent.slice(HARNESS.length + 1) : undefined;
    return {
      id: context.sessionManager.getSessionId(),
      agent: told(task).agent ?? (await load()).agent,
      parent: parent === undefined ? undefined : { harness: HARNESS, id: parent },
    };
  }

  registerTools(pi, {}, load, session);

  on('session_start', async (_event, context) => {
    process.env[PARENT] = `${HARNESS}/${context.sessionManager.getSessionId()}`;
    for (const { name, parameters } of pi.getAllTools()) if (offerMemory(parameters)) starters.add(name);
    // So that it is ready when it is needed.
    await load();
  });

  on('tool_call', async ({ toolName, toolCallId, input }: ToolCall, context) => {
    if (!starters.has(toolName)) return;
    const on = await load();
    const parent = await session(context);
    process.env[PARENT] = `${HARNESS}/${parent.id}`;
    const digests: string[] = [];
    const children = environment();
    for (const { index, task, memory, agent } of itemsOf(input)) {
      const callId = `${toolCallId}/${index}`;
      await on.register(parent, { task: known(task), memory, callId, agentType: undefined, model: UNKNOWN });
      const digest = digestOf(task);
      children[digest] = { ...(agent !== undefined && { agent }), ...(on.isLost(callId) && { lost: true as const }) };
      digests.push(digest);
    }
    running.set(toolCallId, digests);
    process.env[CHILDREN] = JSON.stringify(children);
  });

  on('tool_result', async ({ toolName, toolCallId, input, content }: ToolResult, context) => {
    if (!starters.has(toolName)) return undefined;
    const children = environment();
    for (const digest of running.get(toolCallId) ?? []) delete children[digest];
    running.delete(toolCallId);
    process.env[CHILDREN] = JSON.stringify(children);
    const on = await load();
    const parent = await session(context);
    const said = await Promise.all(
      itemsOf(input).map(({ index }) => on.gistFromAfar(parent, `${toolCallId}/${index}`)),
    );
    const lines = said.filter((line) => line !== undefined);
    return lines.length === 0 ? undefined : { content: [...content, { type: 'text', text: lines.join('\n') }] };
  });

  on('before_agent_start', async ({ prompt }: { prompt: string }, context) => {
    if (inherited.parent === undefined || claimed) return;
    task = prompt.startsWith(PREFIX) ? prompt.slice(PREFIX.length) : prompt;
    const { lost } = told(task);
    claimed = session(context).then(async (child) =>
      (await load()).claim(child, 'start', { task: task!, agentType: undefined, ...(lost && { lost }) }),
    );
    await claimed;
  });

  on('context', async ({ messages }: { messages: Message[] }, context) => {
    if (inherited.parent === undefined) return undefined;
    await claimed;
    return { messages: putIn(messages, await (await load()).texts(await session(context))) };
  });

  /**
   * A handler that fails must not stop a task, and Pi would write its error over what the user reads. Only a field that the
   * model has to write anew is the model's business: then the call fails with these words.
   */
  function on<E>(event: string, handler: (event: E, context: Context) => Promise<unknown>): void {
    pi.on(event, (async (happened: E, context: Context) => {
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

/** R29: Pi takes the child's model from its agent file or the user's settings, never from the parent. */
const UNKNOWN = { name: undefined, context: undefined, output: undefined };

/** The part of a task text that is known before the child runs: in a chain, `{previous}` stands for what is not. */
function known(task: string): string {
  if (!task.includes('{previous}')) return task;
  const longest = task.split('{previous}').sort((a, b) => b.length - a.length)[0] ?? '';
  return longest.length < TELLING ? '' : longest;
}

function environment(): Record<string, Told> {
  return parsed(process.env[CHILDREN]);
}

/** What this process was told of its own task. */
function told(task: string | undefined): Told {
  return (task !== undefined && parsed(inherited.children)[digestOf(task)]) || {};
}

function parsed(text: string | undefined): Record<string, Told> {
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, Told>) : {};
  } catch {
    return {};
  }
}

function digestOf(task: string): string {
  return createHash('sha256').update(task).digest('hex');
}

/** Pi has no log; whoever looks for a fault names a file. */
function log(level: string, line: string): void {
  const file = process.env['MEMORY_PREFETCH_LOG'];
  if (file) void import('node:fs').then((fs) => fs.appendFileSync(file, `${level} ${line}\n`)).catch(() => {});
}
