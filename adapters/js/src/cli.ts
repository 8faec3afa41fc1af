#!/usr/bin/env node
// The program `memory-prefetch-js`: finds the verb, runs it, and says how it ended. What a verb does is elsewhere.

import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';

/** One verb. Answers the exit code. */
interface Verb {
  /** One line. */
  about: string;
  /** What `--help` prints, from the usage on. */
  help: string;
  run(args: string[]): Promise<number>;
}

/** The command line cannot be understood: exit code 2. */
class Misuse extends Error {}

const VERBS: Readonly<Record<string, Verb>> = {
  conformance: {
    about: 'run scenario files against the component and the store',
    help: `Usage: memory-prefetch-js conformance PATH...

Runs scenario files, or all of a folder, against the component and the store of this package.

A line for each scenario: PASS name, or FAIL name: why. The last line says how many. Each scenario has a new, empty
store of its own; yours is not touched. Exits with 1 if any fails, with 2 if there is nothing to run.

Example, in a clone of the repository:
  memory-prefetch-js conformance tests/scenarios`,
    async run(args) {
      const paths = positionals(args);
      if (paths.length === 0) throw new Misuse('name files, or folders of files');
      const { files, run } = await import('./conformance.js');
      try {
        files(paths);
      } catch (error) {
        throw new Misuse(error instanceof Error ? error.message : String(error));
      }
      const { passed, failed } = await run(paths, ({ name, failure }) =>
        print(failure === undefined ? `PASS ${name}` : `FAIL ${name}: ${failure}`),
      );
      print(`${passed} passed, ${failed} failed`);
      return failed === 0 ? 0 : 1;
    },
  },
  doctor: {
    about: 'look at the set-up, and prove a delivery in each harness',
    help: `Usage: memory-prefetch-js doctor [--no-run] [opencode|pi|omp]...

Looks at what a delivery needs: SQLite, the configuration, the project that you are in, the store, the memories. Then it
starts the real harness as you have set it up, beside a model of its own that follows a script: a parent delegates and
names a memory, and what the agent's first request contains is looked at, byte for byte. Some seconds each.

  opencode, pi, omp  which harnesses to start; without a name, all whose programs are on PATH
  --no-run           start none

Your store, your sessions and your memories are not touched, and no model is asked but the scripted one: what is made
is made in a temporary directory. Run it in the project that you want to know about: what is set up there counts, too.

Each line is a finding: "ok", "note" for what you may want to know, "FAIL" for what is wrong, with what to do about it.
Exits with 1 if anything is wrong.

Examples:
  memory-prefetch-js doctor
  memory-prefetch-js doctor opencode
  MEMORY_PREFETCH_PI=~/pi/node_modules/.bin/pi memory-prefetch-js doctor pi`,
    async run(args) {
      const { values, positionals: names } = parsed(args, { 'no-run': { type: 'boolean' } });
      const { SUBJECTS, examine, verdict } = await import('./doctor/command.js');
      const { shown } = await import('./doctor/finding.js');
      const known = SUBJECTS.map(({ name }) => name);
      const unknown = names.find((name) => !known.includes(name));
      if (unknown !== undefined) throw new Misuse(`there is no harness ${unknown}; known are ${known.join(', ')}`);
      const stop = new AbortController();
      // What was started and made is ended and removed first.
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
      process.stdout.on('error', () => stop.abort());
      const say = (line: string) => {
        try {
          print(line);
        } catch {
          // Nobody reads it. Bun throws, where Node has the event.
          stop.abort();
        }
      };
      const tally = await examine({ names, run: !values['no-run'] }, stop.signal, (finding) => say(shown(finding)));
      say(verdict(tally));
      return tally.wrong === 0 ? 0 : 1;
    },
  },
};

function positionals(args: string[]): string[] {
  return parsed(args, {}).positionals;
}

function parsed(args: string[], options: Record<string, { type: 'boolean' }>) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    // Node's own words go on about what a value with a dash would need.
    throw new Misuse(error instanceof Error ? error.message.replace(/\. To specify.*$/s, '') : String(error));
  }
}

const HELP = `Usage: memory-prefetch-js VERB [ARGUMENTS]

${Object.entries(VERBS)
  .map(([name, { about }]) => `  ${name.padEnd(12)} ${about}`)
  .join('\n')}

'memory-prefetch-js VERB --help' says more about one.`;

/** Run this command line. Answers the exit code. */
async function main([name, ...args]: string[]): Promise<number> {
  if (name === undefined) throw new Misuse(`name a verb\n\n${HELP}`);
  if (name === '--help' || name === '-h' || name === 'help') {
    print(HELP);
    return 0;
  }
  if (name === '--version' || name === '-V') {
    const { version } = createRequire(import.meta.url)('../package.json') as { version: string };
    print(`memory-prefetch-js ${version}`);
    return 0;
  }
  const verb = Object.hasOwn(VERBS, name) ? VERBS[name] : undefined;
  if (verb === undefined) throw new Misuse(`there is no verb ${name}; known are ${Object.keys(VERBS).join(', ')}`);
  if (args.includes('--help') || args.includes('-h')) {
    print(verb.help);
    return 0;
  }
  return verb.run(args);
}

/** A line, without what a terminal would obey and not show. Line breaks and tabs stay. */
function print(line: string): void {
  const visible = line.replace(
    /(?![\n\t])[\p{Cc}\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
  process.stdout.write(`${visible}\n`);
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  const { code } = error as NodeJS.ErrnoException;
  const hint = code === 'ERR_MODULE_NOT_FOUND' ? '\nThe package is not built: run `npm ci && npm run build` in it' : '';
  process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}${hint}\n`);
  process.exitCode = error instanceof Misuse ? 2 : 1;
}
