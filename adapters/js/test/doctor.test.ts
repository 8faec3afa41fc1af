// `memory-prefetch-js doctor` as a user runs it, in homes with one thing wrong each, and without starting a harness.
// What it looks at must be as it was.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { configFile, defaultStore, readSettings } from '../dist/config.js';
import { find } from '../dist/doctor/start.js';
import { openService } from '../dist/open.js';
import { SqliteStore } from '../dist/sqlite/store.js';

const CLI = fileURLToPath(new URL('../dist/cli.js', import.meta.url));

interface Said {
  code: number;
  lines: string[];
}

class Home {
  readonly path = fs.mkdtempSync(join(tmpdir(), 'memory-prefetch-doctor-test-'));
  readonly env = { HOME: this.path, PATH: process.env['PATH'] ?? '' };
  readonly project = join(this.path, 'project');
  readonly store = defaultStore(this.env);

  constructor(context: TestContext) {
    context.after(() => fs.rmSync(this.path, { recursive: true, force: true }));
    mkdirSync(this.project);
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  configure(text: string): void {
    this.write(configFile(this.env), text);
  }

  async makeStore(): Promise<SqliteStore> {
    (await openService(readSettings(this.env))).close();
    return SqliteStore.open(this.store);
  }

  /** Digests of all files. */
  files(): Record<string, string> {
    const names = fs.readdirSync(this.path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    // Whoever reads a store that is open says so there.
    const paths = names.map((entry) => join(entry.parentPath, entry.name)).filter((path) => !path.endsWith('-shm'));
    const digest = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');
    return Object.fromEntries(paths.map((path) => [path, digest(path)]));
  }

  /** Runs it, and sees that it changed nothing. */
  async doctor(...args: string[]): Promise<Said> {
    const before = this.files();
    const said = await new Promise<Said>((done) => {
      execFile(process.execPath, [CLI, 'doctor', ...args], { cwd: this.project, env: this.env }, (error, stdout) => {
        done({ code: Number(error?.code ?? 0), lines: stdout.trimEnd().split('\n') });
      });
    });
    assert.deepEqual(this.files(), before);
    return said;
  }
}

/** The one line that begins so, and what is indented below it. */
function finding({ lines }: Said, start: string): string {
  const at = lines.findIndex((line) => line.startsWith(start));
  assert.ok(at >= 0, `no line ${JSON.stringify(start)} in:\n${lines.join('\n')}`);
  const next = lines.findIndex((line, index) => index > at && !line.startsWith('     '));
  return lines.slice(at, next < 0 ? undefined : next).join('\n');
}

test('a new home: nothing is wrong, the store is not made, and a delivery works', async (context) => {
  const home = new Home(context);
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 0, said.lines.join('\n'));
  const store = finding(said, 'note there is no store yet');
  assert.match(store, /the first delegation makes .*store\.sqlite\n {5}add memories/);
  assert.match(finding(said, 'ok   a delivery on a store of its own'), /the same \d+ bytes after a restart/);
  assert.match(finding(said, 'ok   project'), /dir:[0-9a-f]{12}/);
  assert.equal(said.lines.at(-1), 'Nothing that was tried is wrong; see the notes above.');
  assert.ok(!existsSync(dirname(home.store)));
});

test('a store with memories is looked at and not changed, also while it is open', async (context) => {
  const home = new Home(context);
  const store = await home.makeStore();
  store.addAgent('planner');
  const whose = { owner: 'planner', project: 'p', audience: 'agent', trusted: true } as const;
  store.addMemory({ id: '1', body: 'One.', category: '', priority: 0, ...whose }, 1n);
  assert.match(finding(await home.doctor('--no-run'), 'ok   store'), /: 1 memory, 0 in this project$/);
  store.close();
  assert.match(finding(await home.doctor('--no-run'), 'ok   store'), /: 1 memory, 0 in this project$/);
});

test('a configuration that cannot be used is shown with what is allowed', async (context) => {
  const home = new Home(context);
  home.configure('{"overflow": "cut"}');
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 1);
  assert.match(finding(said, 'FAIL the configuration cannot be used'), /config\.json: "overflow" is "cut"; allowed is/);
  finding(said, 'ok   a delivery');
  assert.equal(said.lines.at(-1), 'One thing is wrong: see FAIL above.');
});

test('a damaged store, one of another program, and one that nobody may write', async (context) => {
  const home = new Home(context);
  (await home.makeStore()).close();
  const whole = readFileSync(home.store);
  const cases: [Buffer, RegExp][] = [
    [whole.subarray(0, whole.length - 4096), /is damaged/],
    [Buffer.concat([whole.subarray(0, 4096), Buffer.alloc(whole.length - 4096, 7)]), /is damaged/],
    [Buffer.from('Not a database at all, but a text that somebody put there.'.repeat(20)), /is damaged/],
    [Buffer.concat([whole.subarray(0, 68), Buffer.from('none'), whole.subarray(72)]), /belongs to another program/],
  ];
  for (const [bytes, why] of cases) {
    writeFileSync(home.store, bytes);
    const said = await home.doctor('--no-run');
    assert.equal(said.code, 1);
    const found = finding(said, `FAIL `);
    assert.match(found, why);
    assert.ok(found.includes(home.store) && found.includes('\n     '), found);
  }
  writeFileSync(home.store, whole);
  chmodSync(home.store, 0o400);
  // Root may write all the same.
  if (process.getuid?.() !== 0) finding(await home.doctor('--no-run'), `FAIL the store ${home.store} may only be read`);
});

test('a store in a directory that is not there', async (context) => {
  const home = new Home(context);
  const directory = join(home.path, 'none');
  home.configure(JSON.stringify({ store: `sqlite:${directory}/store.sqlite` }));
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 1);
  assert.match(finding(said, 'FAIL the store cannot be made'), new RegExp(`mkdir -p ${directory}$`));
});

test('a file of the project that cannot be understood is wrong, not a wish', async (context) => {
  const home = new Home(context);
  home.write(join(home.project, '.memory-prefetch.json'), '{"memory": "of"}');
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 1);
  assert.match(finding(said, 'FAIL memory is off here'), /"of"; allowed is "on" or "off"/);
});

test('a store that only the configuration names: the program has to be told of it', async (context) => {
  const home = new Home(context);
  const file = join(home.path, 'elsewhere.sqlite');
  home.configure(JSON.stringify({ store: `sqlite:${file}` }));
  const said = await home.doctor('--no-run');
  assert.ok(
    finding(said, 'note there is no store yet').includes(`memory-prefetch --store "sqlite:${file}" memory add`),
  );
});

test("memory that is off is a note: by the project's own file, and by the store", async (context) => {
  const home = new Home(context);
  home.write(join(home.project, '.memory-prefetch.json'), '{"memory": "off"}');
  const project = finding(await home.doctor('--no-run'), 'ok   project')
    .split(' ')
    .at(-1) as string;
  const store = await home.makeStore();
  store.putProject({ id: project, workspace: undefined, memoryOn: false, trusted: false, attributes: [] });
  store.close();
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 0);
  assert.match(finding(said, 'note this project is not trusted'), new RegExp(`project set ${project} --trust trusted`));
  assert.match(finding(said, 'note memory is off here'), /\.memory-prefetch\.json says so\n {5}agents in this project/);
  assert.match(finding(said, 'note memory is off for this project'), new RegExp(`project set ${project} --memory on`));
});

test('memories of another program that are not there, or not trusted', async (context) => {
  const home = new Home(context);
  const path = join(home.path, 'context.db');
  home.configure(JSON.stringify({ memories: `magic-context:${path}`, memoriesTrust: 'untrusted' }));
  const said = await home.doctor('--no-run');
  assert.equal(said.code, 1);
  assert.match(finding(said, 'FAIL the memories of magic-context cannot be read'), /is the path right\?$/);
});

test('a harness that is not there is wrong only if it was named; a name that is none is a misuse', async (context) => {
  const home = new Home(context);
  home.env.PATH = join(home.path, 'bin');
  const unnamed = await home.doctor();
  assert.equal(unnamed.code, 0, unnamed.lines.join('\n'));
  finding(unnamed, 'note no harness is on PATH');
  const named = await home.doctor('pi', 'omp');
  assert.equal(named.code, 1);
  assert.match(finding(named, 'FAIL there is no program `pi` on PATH'), /npm install -g @mariozechner\/pi/);
  finding(named, 'FAIL there is no program `omp` on PATH');
  assert.equal((await home.doctor('claude')).code, 2);
});

test('a program that is none of the harness: what it printed is shown', async (context) => {
  const home = new Home(context);
  const program = join(home.path, 'bin', 'pi');
  home.write(program, '#!/bin/sh\necho 3.14159\nexit 3\n');
  chmodSync(program, 0o755);
  home.env.PATH = `${dirname(program)}:${home.env.PATH}`;
  const said = await home.doctor('pi');
  assert.equal(said.code, 1);
  const found = finding(said, 'FAIL Pi ended with exit code 3 without a request to its model');
  assert.match(found, /bin\/pi printed:\n {5}3\.14159$/);
});

test('a program is found as the shell finds it, or where the variable says', (context) => {
  const home = new Home(context);
  const before = { ...process.env };
  context.after(() => Object.assign(process.env, { PATH: before['PATH'] }));
  home.write(join(home.path, 'a', 'tool'), '');
  home.write(join(home.path, 'b', 'tool'), '');
  chmodSync(join(home.path, 'b', 'tool'), 0o755);
  process.env['PATH'] = `${home.path}/a:${home.path}/b`;
  // What may not be run is none.
  assert.equal(find('tool', 'MEMORY_PREFETCH_TEST_TOOL'), join(home.path, 'b', 'tool'));
  assert.equal(find('other', 'MEMORY_PREFETCH_TEST_TOOL'), undefined);
  process.env['MEMORY_PREFETCH_TEST_TOOL'] = '/elsewhere/tool';
  context.after(() => delete process.env['MEMORY_PREFETCH_TEST_TOOL']);
  assert.equal(find('tool', 'MEMORY_PREFETCH_TEST_TOOL'), '/elsewhere/tool');
});
