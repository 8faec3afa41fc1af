// What the doctor says: one line for each thing that it looked at, with a hint where there is something to do. A check
// that throws has found that something is wrong.

import { fileURLToPath } from 'node:url';

/** What was looked at, and what came of it. */
export interface Finding {
  /** `note`: nothing is wrong, and the user may want to know. */
  state: 'ok' | 'note' | 'wrong';
  what: string;
  /** What to do about it. */
  hint?: string | undefined;
}

/** This package's directory, where the user has it. */
export const PACKAGE = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '');

export type Report = (finding: Finding) => void;

/** Something is wrong, and this is known of it. */
export class Wrong extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = 'Wrong';
  }
}

/** Runs a check. `what` stands before the words of an error; undefined is answered then. */
export async function attempt<T>(say: Report, what: string, run: () => T | Promise<T>): Promise<T | undefined> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof Wrong) say({ state: 'wrong', what: error.message, hint: error.hint });
    else say({ state: 'wrong', what: `${what}: ${error instanceof Error ? error.message : String(error)}` });
    return undefined;
  }
}

/** A finding as lines of text. */
export function shown({ state, what, hint }: Finding): string {
  const line = `${MARKS[state]} ${indented(what)}`;
  return hint === undefined ? line : `${line}\n     ${indented(hint)}`;
}

const MARKS = { ok: 'ok  ', note: 'note', wrong: 'FAIL' };

function indented(text: string): string {
  return text.trimEnd().replaceAll('\n', '\n     ');
}
