// The verb `doctor`: which checks are made, in which order, and what is said of them.

import { doctor } from './doctor.js';
import type { Finding, Report } from './finding.js';
import { prove } from './prove.js';
import { omp } from './prove_omp.js';
import { opencode } from './prove_opencode.js';
import { pi } from './prove_pi.js';
import { find, isProgram } from './start.js';

/** The harnesses that can be named. */
export const SUBJECTS = [opencode, pi, omp];

/** How many findings of each kind there were. */
export type Tally = Record<Finding['state'], number>;

export interface Asked {
  /** Names of harnesses; none: all whose programs are there. */
  names: string[];
  /** Whether to start them. */
  run: boolean;
}

/** Answers what was found, counted. `names` are known ones. */
export async function examine({ names, run }: Asked, signal: AbortSignal, report: Report): Promise<Tally> {
  const tally: Tally = { ok: 0, note: 0, wrong: 0 };
  const say = (finding: Finding) => {
    tally[finding.state] += 1;
    report(finding);
  };
  const known = await doctor(process.cwd(), say);
  const asked = names.length > 0 ? SUBJECTS.filter(({ name }) => names.includes(name)) : SUBJECTS;
  const found = asked.map((subject) => ({ subject, program: find(subject.name, subject.variable) }));
  for (const { subject, program } of found) {
    if (signal.aborted) {
      say({ state: 'wrong', what: `${subject.title} was not tried, since you said so` });
    } else if (program !== undefined && !isProgram(program)) {
      const what = `there is no program ${program}, which ${subject.variable} names`;
      say({ state: 'wrong', what, hint: subject.install });
    } else if (program !== undefined) {
      if (run) await prove(subject, program, known, signal, say);
      else say({ state: 'note', what: `${subject.title} was not started: ${program}` });
    } else if (names.length > 0) {
      say({ state: 'wrong', what: `there is no program \`${subject.name}\` on PATH`, hint: subject.install });
    }
  }
  if (found.every(({ program }) => program === undefined) && names.length === 0) {
    const programs = SUBJECTS.map(({ name }) => name).join(', ');
    say({ state: 'note', what: `no harness is on PATH, so none was tried: ${programs}` });
  }
  return tally;
}

/** The last line. */
export function verdict({ wrong, note }: Tally): string {
  if (wrong === 0) return note === 0 ? 'Nothing is wrong.' : 'Nothing that was tried is wrong; see the notes above.';
  return wrong === 1 ? 'One thing is wrong: see FAIL above.' : `${wrong} things are wrong: see FAIL above.`;
}
