// One OpenCode process that serves many sessions, as its web and desktop programs use it: a delegation takes a second
// there, and three to six in a process of its own.

import { stop } from './opencode.js';
import type { OpenCode, Running } from './opencode.js';

const START_MS = 60_000;
const ASK_MS = 60_000;

export class OpenCodeServer {
  readonly #running: Running;
  readonly #url: string;
  readonly #directory: string;

  private constructor(running: Running, url: string, directory: string) {
    this.#running = running;
    this.#url = url;
    this.#directory = directory;
  }

  /** `directory`: the project of whatever does not name another one. */
  static async start(opencode: OpenCode, directory: string): Promise<OpenCodeServer> {
    const running = opencode.start(['serve', '--hostname', '127.0.0.1', '--port', '0'], { directory });
    const until = Date.now() + START_MS;
    for (;;) {
      const url = /listening on (http:\/\/\S+)/.exec(running.printed.stdout)?.[1];
      if (url) return new OpenCodeServer(running, url, directory);
      if (running.process.exitCode !== null || Date.now() > until) {
        stop(running.process);
        throw new Error(`OpenCode did not start: ${JSON.stringify(running.printed)}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async createSession(options: { parentID?: string } = {}, directory?: string): Promise<string> {
    return (await this.#ask<{ id: string }>('POST', '/session', options, directory)).id;
  }

  /** Answers when the agent has nothing more to do. */
  async prompt(session: string, text: string, agent?: string, directory?: string): Promise<void> {
    const body = { parts: [{ type: 'text', text }], ...(agent === undefined ? {} : { agent }) };
    await this.#ask('POST', `/session/${session}/message`, body, directory);
  }

  /** Runs one of the user's own commands, and answers when there is nothing more to do. */
  async command(session: string, command: string, given: string): Promise<void> {
    await this.#ask('POST', `/session/${session}/command`, { command, arguments: given });
  }

  async deleteSession(session: string): Promise<void> {
    await this.#ask('DELETE', `/session/${session}`);
  }

  /** Has it forget what it has read of its configuration, with all plugins: the next call reads all of it. */
  async reload(): Promise<void> {
    await this.#ask('POST', '/instance/dispose');
  }

  /** Ends the process at once. */
  async kill(): Promise<void> {
    stop(this.#running.process);
    await this.#running.finished;
  }

  async #ask<T>(method: string, path: string, body?: object, directory = this.#directory): Promise<T> {
    const response = await fetch(`${this.#url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', 'x-opencode-directory': encodeURIComponent(directory) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(ASK_MS),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }
}
