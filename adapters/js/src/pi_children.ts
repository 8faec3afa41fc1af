// What Pi's children are told in the environment, which all children of a process share: a list, in which each finds
// itself by its task text. What stands there are digests and the ends of texts, never a whole one: an environment is small.

import { createHash } from 'node:crypto';

/** What a child cannot know by itself. */
export interface Told {
  /** The call that starts it. */
  call: string;
  /** SHA-256 of its task text, where that is known. */
  digest?: string;
  /** In a chain, what stands for the answer of the step before is not known: how the text begins and ends. */
  starts?: string;
  ends?: string;
  /** The text that it is registered under, where that is another one. */
  as?: string;
  /** Its agent's name. */
  agent?: string;
  /** The delegation could not be registered. */
  lost?: true;
  /** Its snapshot. */
  ref?: string;
  /** The delegation named no memory. */
  nothing?: true;
}

/** What a child makes of it. */
export interface Known {
  /** The text to claim with. */
  task: string;
  agent: string | undefined;
  /** What its call is known to have handed over, where it can only be one. */
  told: { ref: string | undefined; nothing: boolean; lost: boolean };
}

/** Stands in the task of a chain for what the step before answered. */
const PREVIOUS = '{previous}';

/** How much of a text is enough to know it by, in characters. */
const TELLING = 200;

/** What to tell a child with this task, and the text to register it under. */
export function tell(call: string, task: string, agent: string | undefined): { told: Told; as: string } {
  const named = { call, ...(agent !== undefined && { agent }) };
  const first = task.indexOf(PREVIOUS);
  if (first < 0) return { told: { ...named, digest: digestOf(task) }, as: task };
  const starts = task.slice(0, first).slice(0, TELLING);
  const ends = task.slice(task.lastIndexOf(PREVIOUS) + PREVIOUS.length).slice(-TELLING);
  // Never the text that the child gets: what an agent answered must not decide what the next one is given.
  const as = `a task with ${PREVIOUS}, SHA-256 ${digestOf(task)}`;
  return { told: { ...named, starts, ends, as }, as };
}

/** What a child with this text was told. Where two entries fit it and differ, it takes neither's agent, nor its memories. */
export function findSelf(list: readonly Told[], task: string): Known {
  const digest = digestOf(task);
  const exact = list.filter((told) => told.digest === digest);
  const fitting = exact.length > 0 ? exact : closest(list, task);
  const agents = new Set(fitting.map(({ agent }) => agent));
  const texts = new Set(fitting.map(({ as }) => as ?? task));
  const only = fitting.length === 1 ? fitting[0] : undefined;
  return {
    task: texts.size === 1 ? [...texts][0]! : task,
    agent: agents.size === 1 ? [...agents][0] : undefined,
    told: {
      ref: only?.ref,
      nothing: fitting.length > 0 && fitting.every(({ nothing }) => nothing),
      lost: texts.size > 1 || fitting.some(({ lost }) => lost),
    },
  };
}

/** Of those whose beginning and end it has, the ones that say most. */
function closest(list: readonly Told[], task: string): Told[] {
  const length = ({ starts = '', ends = '' }: Told) => starts.length + ends.length;
  const fitting = list.filter(
    (told) =>
      told.as !== undefined &&
      task.length >= length(told) &&
      task.startsWith(told.starts ?? '') &&
      task.endsWith(told.ends ?? ''),
  );
  const most = Math.max(...fitting.map(length));
  return fitting.filter((told) => length(told) === most);
}

/** The list from a variable of the environment; empty where it is none of ours. */
export function parse(variable: string | undefined): Told[] {
  try {
    const value: unknown = JSON.parse(variable ?? '[]');
    return Array.isArray(value) ? (value as Told[]).filter((told) => typeof told?.call === 'string') : [];
  } catch {
    return [];
  }
}

function digestOf(task: string): string {
  return createHash('sha256').update(task).digest('hex');
}
