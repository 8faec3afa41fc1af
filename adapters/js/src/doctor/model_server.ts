// A model provider on loopback that says what a script tells it to, and keeps every request byte for byte. It speaks
// OpenAI's chat completions, streamed and whole, which every harness here can use. It depends on nothing.

import { createServer } from 'node:http';
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** What the model says next. `usage` is what a harness reads to decide whether its context is full. */
export type Reply = { readonly usage?: { readonly input: number; readonly output: number } } & (
  | { readonly text: string }
  | { readonly toolCalls: readonly ToolCall[] }
  | { readonly status: number; readonly error: string }
);

export interface ChatMessage {
  readonly role: 'system' | 'developer' | 'user' | 'assistant' | 'tool';
  readonly content: unknown;
  readonly tool_calls?: readonly {
    readonly id: string;
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
  readonly tool_call_id?: string;
}

export interface JsonSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly [key: string]: unknown;
}

export interface ToolDefinition {
  readonly type: 'function';
  readonly function: { readonly name: string; readonly description?: string; readonly parameters?: JsonSchema };
}

export interface ChatBody {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ToolDefinition[];
}

export interface ModelRequest {
  /** Its place among all requests since the server started or was cleared. */
  readonly number: number;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  /** The body as it came, before any parsing. */
  readonly raw: string;
  readonly body: ChatBody;
}

export type Script = (request: ModelRequest) => Reply | Promise<Reply>;

/** The texts of a message: one where its content is a string, else one for each part that is text. */
export function textsOf(message: ChatMessage): string[] {
  if (typeof message.content === 'string') return [message.content];
  if (!Array.isArray(message.content)) return [];
  const parts = message.content as readonly { readonly type?: string; readonly text?: string }[];
  return parts.flatMap((part) => (part.type === 'text' && part.text !== undefined ? [part.text] : []));
}

/** What the tools said that were called in this request's last step, in the order of the calls. */
export function toolResults(request: ModelRequest): string[] {
  const { messages } = request.body;
  const calls = messages.findLastIndex(({ role }) => role === 'assistant');
  return messages.slice(calls + 1).flatMap((message) => (message.role === 'tool' ? [textsOf(message).join('')] : []));
}

export class ModelServer {
  readonly requests: ModelRequest[] = [];
  /** What the script threw. A harness would only show that its provider failed. */
  readonly faults: unknown[] = [];
  #script: Script = () => ({ text: 'ok' });
  #calls = 0;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on('request', (request, response) => {
      this.#answer(request, response).catch((fault: unknown) => {
        this.faults.push(fault);
        response.destroy();
      });
    });
  }

  static async start(): Promise<ModelServer> {
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    return new ModelServer(server);
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  follow(script: Script): void {
    this.#script = script;
  }

  /** Forgets what came so far. */
  clear(): void {
    this.requests.length = 0;
    this.faults.length = 0;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const url = request.url ?? '';
    if (!url.endsWith('/chat/completions')) {
      response.writeHead(404).end();
      return;
    }
    const raw = Buffer.concat(chunks).toString('utf8');
    const number = this.requests.length;
    const asked: ModelRequest = { number, url, headers: request.headers, raw, body: JSON.parse(raw) as ChatBody };
    this.requests.push(asked);
    const reply = await this.#reply(asked);
    if ('error' in reply) {
      response.writeHead(reply.status, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: { message: reply.error, type: 'scripted' } }));
    } else {
      this.#say(reply, asked.body, response);
    }
  }

  async #reply(asked: ModelRequest): Promise<Reply> {
    try {
      return await this.#script(asked);
    } catch (fault) {
      this.faults.push(fault);
      return { status: 400, error: `the script failed: ${String(fault)}` };
    }
  }

  #say(reply: Exclude<Reply, { error: string }>, { model, stream }: ChatBody, response: ServerResponse): void {
    const finish_reason = 'text' in reply ? 'stop' : 'tool_calls';
    const message =
      'text' in reply ? { content: reply.text } : { content: null, tool_calls: this.#toolCalls(reply.toolCalls) };
    const { input, output } = reply.usage ?? { input: 100, output: 10 };
    const usage = { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
    const about = { id: 'scripted', created: 1, model };
    if (stream !== true) {
      const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...about, object: 'chat.completion', choices, usage }));
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (part: object) =>
      response.write(`data: ${JSON.stringify({ ...about, object: 'chat.completion.chunk', ...part })}\n\n`);
    send({ choices: [{ index: 0, delta: { role: 'assistant', ...message }, finish_reason: null }] });
    send({ choices: [{ index: 0, delta: {}, finish_reason }] });
    send({ choices: [], usage });
    response.end('data: [DONE]\n\n');
  }

  #toolCalls(calls: readonly ToolCall[]): object[] {
    return calls.map((call, index) => ({
      index,
      id: `call_${++this.#calls}`,
      type: 'function',
      function: { name: call.name, arguments: JSON.stringify(call.arguments) },
    }));
  }
}
