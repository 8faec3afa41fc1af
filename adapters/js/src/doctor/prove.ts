// The proof: the real harness, as the user has set it up, beside a scripted model, and a look at what the agent's first
// request contains. Hooks have been known to report success and deliver nothing, so what counts is what arrives. The
// user's sessions, data and memories are not touched: what the harness writes goes into a temporary directory, as does
// the store with the one memory that is handed over.

import { lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import type { Settings } from '../config.js';
import { projectIdentity } from '../project_identity.js';
import { Conversation, WORD, word } from './conversation.js';
import type { Speech } from './conversation.js';
import type { Known } from './doctor.js';
import { Wrong, attempt } from './finding.js';
import type { Report } from './finding.js';
import { ModelServer, textsOf } from './model_server.js';
import type { ModelRequest } from './model_server.js';
import { plant } from './plant.js';
import { runToEnd } from './start.js';
import type { Ended } from './start.js';

/** A harness, as the doctor starts it. */
export interface Subject extends Speech {
  /** What it is called on the command line; and its program. */
  name: string;
  title: string;
  /** Names its program, where that is not on PATH. */
  variable: string;
  /** How the program is installed. */
  install: string;
  /** How our plugin is installed. */
  plugin: string;
  /** What to say where the parent has no tool that starts agents. */
  withoutStarter: string;
  /** How to start it. Makes in `scene.own` what it is to find there. */
  prepare(scene: Scene): Start;
}

export interface Scene {
  /** For what the harness writes. */
  own: string;
  baseUrl: string;
  /** The user's environment, which says where the harness is set up. */
  env: Readonly<Record<string, string | undefined>>;
  prompt: string;
}

export interface Start {
  args: string[];
  /** Beside the user's environment; undefined takes a variable away. */
  env: Record<string, string | undefined>;
}

/** The provider and the model that the harness is told of. */
export const PROVIDER = 'memory-prefetch-doctor';
export const MODEL = 'scripted';

/** What the model says that it can hold, in tokens. */
export const WINDOW = 200_000;
export const OUTPUT = 4_000;

const LIMIT_MS = 90_000;

/** Proves a delivery in a harness. `program`: the path of its program. */
export async function prove(
  subject: Subject,
  program: string,
  known: Known,
  signal: AbortSignal,
  say: Report,
): Promise<void> {
  const { title } = subject;
  const { settings } = known;
  if (!settings) {
    say({ state: 'note', what: `${title} was not started: the configuration has to be put right first` });
    return;
  }
  if (settings.memories && !settings.memoriesTrusted) {
    say({ state: 'note', what: `${title} was not started: you do not trust your memories, so none is handed over` });
    return;
  }
  const temporary = realpathSync(mkdtempSync(join(tmpdir(), 'memory-prefetch-doctor-')));
  const server = await ModelServer.start();
  try {
    await attempt(say, `${title} cannot be tried`, async () => {
      const body = `The memory of a check, ${word()}: 字 and "quotes".`;
      const place = await placeFor(known, temporary);
      if (place.directory !== known.directory) {
        say({ state: 'note', what: `${title} is tried in an empty directory: here, nothing could be delivered` });
      }
      const planted = {
        ...settings,
        store: join(temporary, 'store', 'store.sqlite'),
        isDefaultStore: false,
        memories: settings.memories && { ...settings.memories, path: join(temporary, 'store', 'memories.db') },
      };
      mkdirSync(dirname(planted.store));
      const conversation = new Conversation(subject, await plant(planted, place.project, body));
      server.follow((request) => conversation.answer(request));
      const own = join(temporary, 'own');
      mkdirSync(own);
      const env = { ...environment(program, place.directory), ...stores(planted) };
      const start = subject.prepare({ own, baseUrl: server.baseUrl, env, prompt: conversation.prompt });
      const began = performance.now();
      const ended = await runToEnd({
        program,
        args: start.args,
        env: { ...env, ...start.env },
        directory: place.directory,
        limitMs: LIMIT_MS,
        signal,
      });
      const seconds = ((performance.now() - began) / 1_000).toFixed(1);
      judge(subject, { program, ended, conversation, body, seconds, own }, say);
    });
  } finally {
    await server.close();
    rmSync(temporary, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Where the harness works: where the user is, so that what is set up there counts, too; not where memory is off. */
async function placeFor(
  { directory: here, project, memoryOn }: Known,
  temporary: string,
): Promise<{ directory: string; project: string }> {
  if (project !== undefined && memoryOn) return { directory: here, project };
  const directory = join(temporary, 'project');
  mkdirSync(directory);
  return { directory, project: await projectIdentity(directory) };
}

function environment(program: string, directory: string): Record<string, string | undefined> {
  const { PATH, NO_PROXY, no_proxy } = process.env;
  const local = [NO_PROXY ?? no_proxy, '127.0.0.1', 'localhost'].filter(Boolean).join(',');
  return {
    ...process.env,
    // What it runs on may be beside it, as Bun is beside an OMP that npm installed.
    PATH: [PATH, dirname(program)].filter(Boolean).join(delimiter),
    PWD: directory,
    NO_PROXY: local,
    no_proxy: local,
    // This may run in a shell of Pi's.
    MEMORY_PREFETCH_PARENT: undefined,
    MEMORY_PREFETCH_CHILDREN: undefined,
  };
}

function stores({ store, memories }: Settings): Record<string, string> {
  return {
    MEMORY_PREFETCH_STORE: `sqlite:${store}`,
    ...(memories && { MEMORY_PREFETCH_MEMORIES: `${memories.kind}:${memories.path}` }),
  };
}

interface Run {
  program: string;
  ended: Ended;
  conversation: Conversation;
  /** The memory's text. */
  body: string;
  seconds: string;
  /** Where the harness's own files are. */
  own: string;
}

function judge(subject: Subject, run: Run, say: Report): void {
  const { title } = subject;
  const { ended, conversation, seconds } = run;
  if (ended.stopped === 'interrupted') throw new Wrong(`${title} was stopped before it had ended, since you said so`);
  if (conversation.parent.length === 0) {
    throw new Wrong(`${title} ${how(ended)} without a request to its model`, printed(run));
  }
  const starter = conversation.starter?.function.name;
  if (starter === undefined || !conversation.isOffered) {
    if (!hasTools(conversation.parent[0])) {
      throw new Wrong(`${title} ran, and the plugin was not loaded: its model has no tool of ours`, subject.plugin);
    }
    if (starter === undefined) {
      const what = `${title} has the plugin, and no tool that starts agents`;
      say({ state: 'note', what, hint: subject.withoutStarter });
      return;
    }
    throw new Wrong(
      `${title} has the plugin, and its tool \`${starter}\` does not offer the field \`memory\``,
      'this version may be one that the plugin does not know: docs/harnesses.md says which it was tried with',
    );
  }
  say({ state: 'ok', what: `${title} offers its model the field \`memory\` in the tool \`${starter}\`` });
  if (delivered(subject, run, say)) told(subject, run, say);
  kept(subject, run, say);
  if (ended.stopped !== undefined || ended.code !== 0) {
    say({ state: 'wrong', what: `${title} ${how(ended)}`, hint: printed(run) });
  } else {
    say({ state: 'ok', what: `${title} ended as it should, after ${seconds} s (${run.program})` });
  }
}

/** Whether the agent has its memory, and once. Answers whether there was one. */
function delivered({ title }: Subject, run: Run, say: Report): boolean {
  const { conversation, body, ended } = run;
  const first = conversation.child[0];
  if (!first) {
    const said = conversation.result?.trim();
    const hint = said ? `its tool said: ${shortened(said)}` : printed(run);
    say({ state: 'wrong', what: `${title} started no agent${ended.stopped ? ' in time' : ''}`, hint });
    return false;
  }
  const times = textsIn(first).reduce((sum, text) => sum + text.split(body).length - 1, 0);
  if (times === 1) {
    say({ state: 'ok', what: `${title}'s agent had the memory in its first request, byte for byte and once` });
  } else if (times > 1) {
    const hint = 'is the plugin installed twice, by hand and from the package?';
    say({ state: 'wrong', what: `${title}'s agent had the memory ${times} times in its first request`, hint });
  } else {
    const ours = textsIn(first).find((text) => text.startsWith(HEAD));
    const hint = ours ? `it was told: ${shortened(ours)}` : 'it was told nothing either; the line below may say why';
    say({ state: 'wrong', what: `${title}'s agent made its first request without the memory`, hint });
  }
  return true;
}

/** Whether the parent knows what its agent was given. */
function told({ title }: Subject, { conversation }: Run, say: Report): void {
  const { result } = conversation;
  const gist = result?.split('\n').find((line) => line.startsWith(HEAD));
  if (gist?.startsWith(`${HEAD} Delivered to the agent: `)) {
    say({ state: 'ok', what: `${title}'s parent was told so: ${gist}` });
  } else if (gist !== undefined) {
    say({ state: 'wrong', what: `${title}'s parent was told: ${shortened(gist)}` });
  } else {
    const hint = result === undefined ? undefined : `the tool's answer was: ${shortened(result)}`;
    say({ state: 'wrong', what: `${title}'s parent was told nothing of what its agent got`, hint });
  }
}

/** Whether the harness has the memory in its own files, which are those that have what the user asked. */
function kept({ title }: Subject, { own, body, conversation }: Run, say: Report): void {
  const left = filesWith(own, body);
  if (left.length > 0) {
    const what = `${title} keeps the memory's text in its own files, where an erasure does not reach it`;
    say({ state: 'wrong', what, hint: left.slice(0, 3).join('\n') });
  } else if (filesWith(own, conversation.prompt).length === 0) {
    say({ state: 'note', what: `${title} has put its session elsewhere, so it was not searched for the memory` });
  } else {
    say({ state: 'ok', what: `${title} keeps nothing of the memory in its own files` });
  }
}

/** How everything of ours begins. */
const HEAD = '[memory-prefetch]';

function hasTools(request: ModelRequest | undefined): boolean {
  return request?.body.tools?.some((tool) => tool.function.name === 'memory_recall') ?? false;
}

function textsIn({ body }: ModelRequest): string[] {
  return body.messages.flatMap(textsOf);
}

function how({ stopped, code }: Ended): string {
  if (stopped === 'late') return `did not end within ${LIMIT_MS / 1_000} s and was stopped`;
  return code === null ? 'was ended by a signal' : `ended with exit code ${code}`;
}

/** The end of what a program printed, which says why it failed. */
function printed({ program, ended: { stdout, stderr } }: Run): string {
  const lines = `${stdout}\n${stderr}`.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').split('\n');
  const last = lines.filter((line) => line.trim() !== '').slice(-6);
  return last.length === 0 ? `${program} printed nothing` : `${program} printed:\n${last.join('\n')}`;
}

function shortened(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500)}…`;
}

/**
 * Files below a directory that have a text in them, by the one word that stands nowhere else: a file may write the
 * others in its own way. What is linked there is the user's.
 */
function filesWith(directory: string, text: string): string[] {
  const rare = WORD.exec(text)?.[0] ?? text;
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => {
    const file = join(directory, name);
    try {
      return lstatSync(file).isFile() && readFileSync(file).includes(rare);
    } catch {
      // A program that just ended may still have taken it away.
      return false;
    }
  });
}
