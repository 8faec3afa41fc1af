// What the user's file, the environment and a project's own file may say, and how a wrong one is refused.

import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ConfigError, configFile, defaultStore, projectMemory, readSettings } from '../dist/config.js';

function home(config?: string): { HOME: string } {
  const HOME = mkdtempSync(join(tmpdir(), 'memory-prefetch-config-'));
  if (config !== undefined) {
    const file = configFile({ HOME });
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, config);
  }
  return { HOME };
}

test('without a file everything has a default, and the store is the one of the program', () => {
  const env = home();
  const settings = readSettings(env);
  assert.equal(settings.store, defaultStore(env));
  assert.equal(defaultStore(env, 'linux'), join(env.HOME, '.local/share/memory-prefetch/store.sqlite'));
  assert.equal(settings.isDefaultStore, true);
  assert.equal(settings.overflow, 'refuse');
  assert.equal(settings.memories, undefined);
  assert.equal(settings.memoriesTrusted, true);
});

test('the file is read, and the environment goes before it', () => {
  const env = home(
    '{"store": "sqlite:~/mine.db", "memories": "magic-context:/m.db", "overflow": "paginate", "budgetTokens": 5}',
  );
  const settings = readSettings(env);
  assert.equal(settings.store, join(env.HOME, 'mine.db'));
  assert.deepEqual(settings.memories, { kind: 'magic-context', path: '/m.db' });
  assert.equal(settings.overflow, 'paginate');
  assert.equal(settings.budgetTokens, 5);
  assert.equal(settings.isDefaultStore, false);
  assert.equal(readSettings({ ...env, MEMORY_PREFETCH_STORE: 'sqlite:/other.db' }).store, '/other.db');
});

test('relative XDG directories are passed over', () => {
  const env = { HOME: '/home/someone', XDG_DATA_HOME: 'relative', XDG_CONFIG_HOME: 'relative' };
  assert.equal(defaultStore(env, 'linux'), '/home/someone/.local/share/memory-prefetch/store.sqlite');
  assert.equal(configFile(env), '/home/someone/.config/memory-prefetch/config.json');
});

test('what cannot be meant is refused, with the file, the name and what is allowed', () => {
  const cases: [string, RegExp][] = [
    ['{"overflow": "cut"}', /config\.json: "overflow" is "cut"; allowed is "refuse", "trim-priority"/],
    ['{"budget": 1}', /there is no setting "budget"; known are store, memories/],
    ['{"budgetTokens": 0}', /"budgetTokens" is 0; allowed is a whole number from 1 to 4294967295/],
    ['{"busyTimeoutMs": 3000000000}', /allowed is a whole number from 1 to 600000/],
    ['{"store": "/a.db"}', /config\.json: "store" is "\/a\.db"; allowed is sqlite: and an absolute path/],
    ['{"memories": "spacebot:/x"}', /"memories" is "spacebot:\/x"; allowed is magic-context: and/],
    ['{"store": 1}', /"store" is 1; allowed is a text/],
    ['{"store": "sqlite:here.db"}', /absolute path/],
    ['[]', /is not a JSON object/],
    ['{', /cannot be read/],
  ];
  for (const [config, why] of cases) {
    assert.throws(
      () => readSettings(home(config)),
      (error) => error instanceof ConfigError && why.test(error.message),
    );
  }
});

test("a project's own file may switch memory off and nothing else", () => {
  const project = (content?: string) => {
    const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-project-'));
    if (content !== undefined) writeFileSync(join(directory, '.memory-prefetch.json'), content);
    return projectMemory(directory);
  };
  assert.deepEqual(project(), { on: true });
  assert.deepEqual(project('{}'), { on: true });
  assert.deepEqual(project('{"memory": "on"}'), { on: true });
  for (const off of ['{"memory": "off"}', '{"memory": "of"}', '{"store": "sqlite:/theirs.db"}', '{', 'null']) {
    const { on, why } = project(off);
    assert.equal(on, false, off);
    assert.match(why ?? '', /\.memory-prefetch\.json/, off);
  }
});

test('the file of a repository holds in its subdirectories, and not for what lies outside of it', () => {
  const outside = mkdtempSync(join(tmpdir(), 'memory-prefetch-project-'));
  writeFileSync(join(outside, '.memory-prefetch.json'), '{"memory": "off"}');
  const repository = join(outside, 'repository');
  mkdirSync(join(repository, 'a/b'), { recursive: true });
  assert.equal(projectMemory(join(repository, 'a/b')).on, true, 'no repository: the directory alone');
  mkdirSync(join(repository, '.git'));
  assert.equal(projectMemory(join(repository, 'a/b')).on, true, 'the file is above the repository');
  writeFileSync(join(repository, '.memory-prefetch.json'), '{"memory": "off"}');
  assert.equal(projectMemory(join(repository, 'a/b')).on, false);
  // Nothing below switches it on again, and a link into the repository leads there.
  writeFileSync(join(repository, 'a/.memory-prefetch.json'), '{"memory": "on"}');
  assert.equal(projectMemory(join(repository, 'a/b')).on, false);
  symlinkSync(join(repository, 'a/b'), join(outside, 'link'));
  assert.equal(projectMemory(join(outside, 'link')).on, false);
});

test('a file that cannot be read restricts, also a link to nowhere', () => {
  const directory = mkdtempSync(join(tmpdir(), 'memory-prefetch-project-'));
  symlinkSync(join(directory, 'nowhere'), join(directory, '.memory-prefetch.json'));
  assert.equal(projectMemory(directory).on, false);
});
