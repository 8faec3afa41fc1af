// `memory-prefetch-js doctor` with the real OpenCode and the real Pi: with the package installed as a user would, and
// without it.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { OpenCode, findOpenCode } from './opencode.js';
import { PACKAGE, makeProject } from './project.js';
import { Pi, findPi } from './pi.js';

const NOWHERE = 'http://127.0.0.1:1/v1';
const TEST_MS = 240_000;

/** What was found of the harness, without what was found before it is started. */
interface Said {
  code: number;
  findings: string[];
}

class Place {
  readonly root = mkdtempSync(join(tmpdir(), 'memory-prefetch-e2e-'));
  readonly home = join(this.root, 'home');
  readonly project = join(this.root, 'project');

  constructor() {
    makeProject(this.project);
  }

  /** `variable` names the program. */
  async doctor(harness: string, variable: string, program: string): Promise<Said> {
    const env = { PATH: process.env['PATH'], LANG: 'C.UTF-8', HOME: this.home, TMPDIR: this.root, [variable]: program };
    const { code, lines } = await new Promise<{ code: number; lines: string[] }>((done) => {
      const args = [join(PACKAGE, 'dist', 'cli.js'), 'doctor', harness];
      const options = { cwd: this.project, env, timeout: TEST_MS };
      execFile(process.execPath, args, options, (error, stdout, stderr) => {
        done({ code: Number(error?.code ?? 0), lines: `${stdout}${stderr}`.trimEnd().split('\n') });
      });
    });
    const from = lines.findIndex((line) => line.startsWith('ok   a delivery'));
    assert.ok(from >= 0, lines.join('\n'));
    // What it made is gone, and what the harness made with it.
    assert.deepEqual(
      readdirSync(this.root).filter((name) => name.includes('doctor')),
      [],
    );
    assert.ok(!existsSync(join(this.home, '.local')), 'the user has no data of this');
    return { code, findings: lines.slice(from + 1) };
  }

  close(): void {
    rmSync(this.root, { recursive: true, force: true, maxRetries: 3 });
  }
}

function assertFine({ code, findings }: Said, title: string): void {
  const whole = findings.join('\n');
  assert.equal(code, 0, whole);
  assert.deepEqual(
    findings.filter((line) => !line.startsWith('ok ')),
    // A note says that there is no store yet.
    ['Nothing that was tried is wrong; see the notes above.'],
  );
  for (const part of [
    `${title} offers its model the field \`memory\``,
    `${title}'s agent had the memory in its first request, byte for byte and once`,
    `${title}'s parent was told so: [memory-prefetch] Delivered to the agent: "1"`,
    `${title} keeps nothing of the memory in its own files`,
    `${title} ended as it should`,
  ]) {
    assert.ok(whole.includes(part), `${part} is not in:\n${whole}`);
  }
}

function assertNotLoaded({ code, findings }: Said, title: string, hint: RegExp): void {
  const whole = findings.join('\n');
  assert.equal(code, 1, whole);
  assert.equal(findings[0], `FAIL ${title} ran, and the plugin was not loaded: its model has no tool of ours`);
  assert.match(whole, hint);
  assert.equal(findings.at(-1), 'One thing is wrong: see FAIL above.');
}

const openCode = findOpenCode();
const withoutOpenCode = openCode ? false : 'OpenCode is not there: npm ci in e2e, or set MEMORY_PREFETCH_OPENCODE';

test('OpenCode, with the plugin and without it', { skip: withoutOpenCode, timeout: TEST_MS }, async () => {
  const place = new Place();
  try {
    const options = { home: place.home, baseUrl: NOWHERE };
    // Agents of the user's that run on other models must not be asked, and the user's providers may be limited.
    const config = { enabled_providers: ['scripted'], agent: { general: { model: 'scripted/tiny' } } };
    new OpenCode(openCode as string, { ...options, config, plugin: [PACKAGE] });
    assertFine(await place.doctor('opencode', 'MEMORY_PREFETCH_OPENCODE', openCode as string), 'OpenCode');
    new OpenCode(openCode as string, { ...options, plugin: [] });
    const without = await place.doctor('opencode', 'MEMORY_PREFETCH_OPENCODE', openCode as string);
    assertNotLoaded(without, 'OpenCode', /is the line "plugin": \[.*\] in ~\/\.config\/opencode\/opencode\.json/);
  } finally {
    place.close();
  }
});

const piProgram = findPi();
const withoutPi = piProgram ? false : 'Pi is not there: npm ci in e2e, or set MEMORY_PREFETCH_PI';

test('Pi, with the extension and without it', { skip: withoutPi, timeout: TEST_MS }, async () => {
  const place = new Place();
  try {
    const pi = await Pi.install(piProgram as string, place.home, NOWHERE);
    const ask = () => place.doctor('pi', 'MEMORY_PREFETCH_PI', piProgram as string);
    assertFine(await ask(), 'Pi');
    const subagent = join(place.home, '.pi', 'agent', 'extensions', 'subagent');
    cpSync(subagent, join(place.root, 'subagent'), { recursive: true, verbatimSymlinks: true });
    rmSync(subagent, { recursive: true });
    const alone = await ask();
    assert.equal(alone.code, 0);
    assert.equal(alone.findings[0], 'note Pi has the plugin, and no tool that starts agents');
    cpSync(join(place.root, 'subagent'), subagent, { recursive: true, verbatimSymlinks: true });
    const removed = await pi.command(['remove', PACKAGE]);
    assert.equal(removed.code, 0, removed.stderr);
    assertNotLoaded(await ask(), 'Pi', /`pi install \/.*\/adapters\/js` installs it/);
  } finally {
    place.close();
  }
});
