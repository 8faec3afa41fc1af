// The plugin of OpenCode 1.18. A delegation is registered in `tool.execute.before` of the `task` tool; the child claims in
// its `chat.message`; what it was given is put into each of its requests by `messages.transform`, and is never part of
// OpenCode's own transcript, where an erasure could not reach it (R17).

import type { Hooks, Plugin, PluginModule, ToolDefinition } from '@opencode-ai/plugin';
import { z } from 'zod';
import { Adapter, WrongField } from './adapter.js';
import type { ChildModel, Session } from './adapter.js';
import { memoryField, tools } from './field.js';

/** The tool that starts a child. */
const TASK = 'task';

const NO_SCHEMA = 'memory-prefetch: the tool `task` has no schema to add the field `memory` to, so it is not offered';

/** Directories that have a plugin of ours. OpenCode runs one twice that is named by a path in one list and by npm in another. */
const RUNNING = Symbol.for('memory-prefetch.opencode');
const running = ((globalThis as Record<symbol, unknown>)[RUNNING] ??= new Set<string>()) as Set<string>;

const server: Plugin = async ({ client, directory }) => {
  if (running.has(directory)) return {};
  running.add(directory);
  const adapter = new Adapter('opencode', directory, (level, message) => {
    // Nobody waits for the log, and a log that fails must not stop a task.
    void client.app.log({ body: { service: 'memory-prefetch', level, message } }).catch(() => {});
  });

  /** What is known of sessions: from events, from their messages, else from OpenCode. */
  const agents = new Map<string, string>();
  const parents = new Map<string, string | undefined>();

  async function session(id: string, agent = agents.get(id)): Promise<Session> {
    if (!parents.has(id)) {
      const { data, error } = await client.session.get({ path: { id } });
      if (!data) throw new Error(`OpenCode does not say what session ${id} is: ${JSON.stringify(error)}`);
      parents.set(id, data.parentID);
    }
    const parent = parents.get(id);
    return {
      id,
      agent: agent ?? (await lastAgent(id)),
      parent: parent === undefined ? undefined : adapter.key(parent),
    };
  }

  async function lastAgent(id: string): Promise<string> {
    const { data } = await client.session.messages({ path: { id } });
    const infos = (data ?? []).map(({ info }) => info);
    const user = infos.reverse().find((info) => info.role === 'user');
    return user?.role === 'user' ? user.agent : 'build';
  }

  /** What OpenCode is configured with, which it reads once. Asked for early, since the answer takes a while. */
  let configured: ReturnType<typeof askConfiguration> | undefined;
  async function askConfiguration() {
    try {
      const [agents, providers] = await Promise.all([client.app.agents(), client.config.providers()]);
      return { agents: agents.data ?? [], providers: providers.data?.providers ?? [] };
    } catch {
      configured = undefined;
      return { agents: [], providers: [] };
    }
  }

  /** R29: the model that an agent of this kind runs on, when this session starts it. */
  async function childModel(kind: string, parent: string): Promise<ChildModel> {
    const { agents: kinds, providers } = await (configured ??= askConfiguration());
    const model = kinds.find(({ name }) => name === kind)?.model ?? models.get(parent);
    const found = model && providers.find(({ id }) => id === model.providerID)?.models[model.modelID];
    return { name: model?.modelID, context: found?.limit.context, output: found?.limit.output };
  }

  let isToldOfSchema = false;

  const models = new Map<string, { providerID: string; modelID: string }>();

  const hooks: Hooks = {
    async dispose() {
      running.delete(directory);
    },

    async event({ event }) {
      if (event.type === 'session.created' || event.type === 'session.updated') {
        const { id, parentID } = event.properties.info;
        parents.set(id, parentID);
      } else if (event.type === 'session.deleted') {
        await adapter.ended(event.properties.info.id);
      }
    },

    async 'tool.definition'({ toolID }, output) {
      if (toolID !== TASK) return;
      // Not in the package's types; what stands there is what the model sees.
      const seen = output as { jsonSchema?: { properties?: Record<string, unknown> } };
      // With background agents, an experiment of OpenCode 1.18, there is none, and what was made of it would be the whole.
      if (!seen.jsonSchema) {
        if (isToldOfSchema) return;
        isToldOfSchema = true;
        void client.app
          .log({ body: { service: 'memory-prefetch', level: 'warn', message: NO_SCHEMA } })
          .catch(() => {});
        return;
      }
      seen.jsonSchema = { ...seen.jsonSchema, properties: { ...seen.jsonSchema?.properties, memory: memoryField } };
    },

    async 'chat.message'(input, { message, parts }) {
      agents.set(input.sessionID, message.agent);
      models.set(input.sessionID, message.model);
      configured ??= askConfiguration();
      const child = await session(input.sessionID, message.agent);
      const task = parts.flatMap((part) => (part.type === 'text' && !part.synthetic ? [part.text] : [])).join('\n');
      // Its request comes later, and waits for this.
      void adapter.claim(child, message.id, { task, agentType: message.agent }).catch(() => {});
    },

    async 'tool.execute.before'({ tool, sessionID, callID }, { args }) {
      if (tool !== TASK) return;
      const { prompt, subagent_type: kind, memory } = args as Record<string, unknown>;
      await adapter.registerMeanwhile({
        parent: sessionID,
        session: () => session(sessionID),
        callId: callID,
        task: String(prompt),
        memory,
        agentType: String(kind),
        model: () => childModel(String(kind), sessionID),
      });
    },

    async 'tool.execute.after'({ tool, sessionID, callID }, output) {
      if (tool !== TASK) return;
      // There is none where a command's child failed.
      const { metadata } = (output ?? {}) as { metadata?: { sessionId?: string } };
      const said = await adapter.gist(sessionID, callID, metadata?.sessionId);
      if (said && output) output.output = `${output.output}\n\n${said}`;
    },

    async 'experimental.chat.messages.transform'(_, { messages }) {
      const first = messages[0];
      if (!first) return;
      adapter.nextTurn(first.info.sessionID);
      const texts = await adapter.texts(await session(first.info.sessionID));
      for (const { text, occasion } of texts) {
        const there = messages.some(({ parts }) =>
          parts.some((part) => part.type === 'text' && part.text.includes(text)),
        );
        if (there) continue;
        const users = messages.filter(({ info }) => info.role === 'user');
        const place = users.find(({ info }) => info.id === occasion) ?? users[0] ?? first;
        const { id: messageID, sessionID } = place.info;
        place.parts = [
          { id: `prt_memory_prefetch_${messageID}`, sessionID, messageID, type: 'text', text, synthetic: true },
          ...place.parts,
        ];
      }
    },

    tool: {
      memory_recall: define('memory_recall', async (args, id) => adapter.recall(await session(id), args)),
      memory_get: define('memory_get', async (args, id) => adapter.get(await session(id), args)),
      memory_page: define('memory_page', async ({ snapshot_ref: ref, page, part }, id) =>
        adapter.page(await session(id), { ref, page, part }),
      ),
    },
  };
  return Object.fromEntries(
    Object.entries(hooks).map(([name, hook]) => [name, typeof hook === 'function' ? guarded(name, hook) : hook]),
  );

  /** A hook that fails must not stop a task; only a field that the model has to write anew is its business. */
  function guarded(name: string, hook: (...args: never[]) => Promise<unknown>) {
    return async (...args: never[]) => {
      try {
        return await hook(...args);
      } catch (error) {
        if (error instanceof WrongField) throw error;
        void client.app
          .log({ body: { service: 'memory-prefetch', level: 'error', message: `${name}: ${String(error)}` } })
          .catch(() => {});
        return undefined;
      }
    };
  }
};

const part = z.number().int().min(1).optional().describe(tools.memory_page.parameters.part.description);

const shapes = {
  memory_recall: {
    query: z.string().describe(tools.memory_recall.parameters.query.description),
    agent: z.string().optional().describe(tools.memory_recall.parameters.agent.description),
    limit: z.number().int().min(1).max(100).optional().describe(tools.memory_recall.parameters.limit.description),
    part,
  },
  memory_get: { ids: z.array(z.string()).describe(tools.memory_get.parameters.ids.description), part },
  memory_page: {
    snapshot_ref: z.string().describe(tools.memory_page.parameters.snapshot_ref.description),
    page: z.number().int().min(1).describe(tools.memory_page.parameters.page.description),
    part,
  },
};

/** A tool whose session is OpenCode's word and not the model's. */
function define<Name extends keyof typeof shapes>(
  name: Name,
  run: (args: z.infer<z.ZodObject<(typeof shapes)[Name]>>, session: string) => Promise<string>,
): ToolDefinition {
  return {
    description: tools[name].description,
    args: shapes[name],
    execute: (args, context) => run(args as never, context.sessionID),
  };
}

export default { id: 'memory-prefetch', server } satisfies PluginModule;
