// What the plugin adds before a child's first request, in the real OpenCode: from the end of the answer in which the parent
// model delegates to the arrival of the child's request, with the plugin and 20 memories of 1 KB, against OpenCode without
// it. Runs of both kinds take turns. `npm run speed` in this folder.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ModelServer } from './model_server.js';
import { OpenCode, findOpenCode } from './opencode.js';
import { SeededStore } from './pi_store.js';
import { PACKAGE } from './project.js';

const MEMORIES = 20;
const BYTES = 1_000;
/** Delegations in one process, of which the first is the first use. */
const DELEGATIONS = 20;
const ROUNDS = Number(process.argv[2] ?? 5);

const program = findOpenCode();
if (!program) throw new Error('OpenCode is not installed: run `npm ci` in this folder');

/** Milliseconds from the parent's answer to the child's request, for each delegation of one process. */
async function run(withPlugin: boolean, store: SeededStore): Promise<number[]> {
  const home = mkdtempSync(join(tmpdir(), 'memory-prefetch-speed-'));
  const model = await ModelServer.start();
  const plugin = withPlugin ? [join(PACKAGE, 'dist', 'opencode.js')] : [];
  const opencode = new OpenCode(program!, { home, baseUrl: model.baseUrl, plugin });
  const took: number[] = [];
  let answered = 0;
  let delegations = 0;
  model.follow(({ body, headers }) => {
    if (headers['x-parent-session-id'] !== undefined) {
      took.push(performance.now() - answered);
      return { text: 'done' };
    }
    const canDelegate = body.tools?.some((tool) => tool.function.name === 'task');
    if (!canDelegate || delegations === DELEGATIONS) return { text: 'done' };
    delegations += 1;
    answered = performance.now();
    const prefetch_ids = Array.from({ length: MEMORIES }, (_, index) => `m${index}`);
    const call = { description: 'a task', prompt: `Task ${delegations} of ${home}`, subagent_type: 'general' };
    return { toolCalls: [{ name: 'task', arguments: withPlugin ? { ...call, memory: { prefetch_ids } } : call }] };
  });
  try {
    const { directory, env } = store;
    const { code, stderr } = await opencode.run('Delegate.', { directory, env, timeoutMs: 120_000 });
    const delivered = model.requests.filter(({ raw }) => raw.includes('[end of memory-prefetch')).length;
    if (code !== 0 || took.length !== DELEGATIONS) throw new Error(`OpenCode failed (${code}): ${stderr}`);
    if (withPlugin && delivered < DELEGATIONS)
      throw new Error(`only ${delivered} of ${DELEGATIONS} children had their memories`);
    return took;
  } finally {
    opencode.close();
    await model.close();
    rmSync(home, { recursive: true, force: true });
  }
}

function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

const home = mkdtempSync(join(tmpdir(), 'memory-prefetch-speed-'));
try {
  const bodies = Array.from({ length: MEMORIES }, (_, index) => [
    `m${index}`,
    `${index} `.padEnd(BYTES, 'words of a memory '),
  ]);
  const store = new SeededStore(home, Object.fromEntries(bodies) as Record<string, string>);
  const first = { with: [] as number[], without: [] as number[] };
  const later = { with: [] as number[], without: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const kind of ['without', 'with'] as const) {
      const [one, ...others] = await run(kind === 'with', store);
      if (one !== undefined) first[kind].push(one);
      later[kind].push(...others);
    }
    process.stderr.write(`round ${round + 1} of ${ROUNDS}\n`);
  }
  for (const [what, { with: w, without }] of Object.entries({
    'first delegation of a process': first,
    'later ones': later,
  })) {
    const added = (part: number) => (quantile(w, part) - quantile(without, part)).toFixed(1);
    const at = (values: number[]) => `${quantile(values, 0.5).toFixed(1)} ms`;
    process.stdout.write(
      `${what}: added at p50 ${added(0.5)} ms, p90 ${added(0.9)} ms (p50 ${at(w)} with, ${at(without)} without; ${w.length} each)\n`,
    );
  }
} finally {
  rmSync(home, { recursive: true, force: true });
}
