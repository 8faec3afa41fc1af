// The extension of Pi. Pi's subagent tool starts a process for each child, whose only ties to its parent are the
// environment and its task text. So the parent says in the environment who it is, and the child claims by that and its
// text (R23); what it was given is put into each of its requests and is never part of Pi's own session.

import type { Adapter, Session } from './adapter.js';
import { findSelf, parse, tell } from './pi_children.js';
import type { Known, Told } from './pi_children.js';
import { guarded, itemsOf, log, offerMemory, putIn, registerTools, whose } from './pi_family.js';
import type { Api, Context, Message, ToolCall, ToolResult } from './pi_family.js';

const HARNESS = 'pi';

/** Names the session that starts children, for them. */
const PARENT = 'MEMORY_PREFETCH_PARENT';

/** What else children cannot know, for the calls that are going on (src/pi_children.ts). */
const CHILDREN = 'MEMORY_PREFETCH_CHILDREN';

/** What this process was told by its parent. Pi evaluates extensions again at /new, when both variables are its own. */
const INHERITED = Symbol.for('memory-prefetch.pi');
const inherited = ((globalThis as Record<symbol, unknown>)[INHERITED] ??= {
  parent: process.env[PARENT],
  children: process.env[CHILDREN],
}) as { parent?: string; children?: string };

/** How a child's prompt begins, before its task text. */
const PREFIX = 'Task: ';

export default function extension(pi: Api): void {
  const on = guarded(pi);
  let adapter: Promise<Adapter> | undefined;
  /** Tools that start children. */
  const starters = new Set<string>();
  /** What this process was told of itself, once it knows its task. */
  let self: Known | undefined;
  let claimed: Promise<void> | undefined;

  const load = (): Promise<Adapter> =>
    (adapter ??= import('./adapter.js').then((module) => new module.Adapter(HARNESS, process.cwd(), log)));

  async function session(context: Context): Promise<Session> {
    const parent = inherited.parent?.startsWith(`${HARNESS}/`) ? inherited.parent.slice(HARNESS.length + 1) : undefined;
    return {
      id: context.sessionManager.getSessionId(),
      agent: self?.agent ?? (await load()).agent,
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
    const parent = context.sessionManager.getSessionId();
    process.env[PARENT] = `${HARNESS}/${parent}`;
    const children = others(toolCallId);
    for (const { index, task, memory, agent } of itemsOf(input)) {
      const callId = `${toolCallId}/${index}`;
      const { told, as } = tell(toolCallId, task, agent);
      const named = { parent, callId, task: as, memory, agentType: undefined };
      const ref = await on.register({ ...named, session: () => session(context) });
      if (on.isLost(parent, callId)) told.lost = true;
      else if (memory === undefined) told.nothing = true;
      else if (ref !== undefined) told.ref = ref;
      children.push(told);
    }
    process.env[CHILDREN] = JSON.stringify(children);
  });

  on('tool_result', async ({ toolName, toolCallId, input, content }: ToolResult, context) => {
    if (!starters.has(toolName)) return undefined;
    process.env[CHILDREN] = JSON.stringify(others(toolCallId));
    const on = await load();
    const parent = await session(context);
    const items = itemsOf(input);
    const said = await Promise.all(
      items.map((item) => on.gistFromAfar(parent, `${toolCallId}/${item.index}`, whose(item, items))),
    );
    const lines = said.filter((line) => line !== undefined);
    return lines.length === 0 ? undefined : { content: [...content, { type: 'text', text: lines.join('\n') }] };
  });

  on('before_agent_start', async ({ prompt }: { prompt: string }, context) => {
    if (inherited.parent === undefined || claimed) return;
    self = findSelf(parse(inherited.children), prompt.startsWith(PREFIX) ? prompt.slice(PREFIX.length) : prompt);
    const { task, told } = self;
    claimed = session(context).then(async (child) =>
      (await load()).claim(child, 'start', { task, agentType: undefined, told }),
    );
    await claimed;
  });

  on('context', async ({ messages }: { messages: Message[] }, context) => {
    const on = await load();
    on.nextTurn(context.sessionManager.getSessionId());
    if (inherited.parent === undefined) return undefined;
    await claimed;
    return { messages: putIn(messages, await on.texts(await session(context))) };
  });
}

/** What is in the environment for the calls but this one. */
function others(call: string): Told[] {
  return parse(process.env[CHILDREN]).filter((told) => told.call !== call);
}
