// What a directory's project is called, against real repositories. Git must be installed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ProjectIdentityError, projectIdentity } from '../dist/project_identity.js';

const place = () => realpathSync(mkdtempSync(join(tmpdir(), 'project-')));

function directory(...path: string[]): string {
  const made = join(...path);
  mkdirSync(made, { recursive: true });
  return made;
}

/** Git as on a new machine. */
function git(dir: string, ...args: string[]): string {
  const config = ['user.name=n', 'user.email=e', 'init.defaultBranch=main', 'protocol.file.allow=always'];
  return execFileSync('git', [...config.flatMap((value) => ['-c', value]), ...args], {
    cwd: dir,
    env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' },
    encoding: 'utf8',
  }).trim();
}

/** A repository with two commits, and the first one's name. */
function repository(dir: string, message = 'first'): string {
  git(dir, 'init', '-q');
  git(dir, 'commit', '-q', '--allow-empty', '-m', message);
  const first = git(dir, 'rev-parse', 'HEAD');
  git(dir, 'commit', '-q', '--allow-empty', '-m', 'second');
  return `git:${first}`;
}

const dirName = (path: string) => `dir:${createHash('md5').update(path).digest('hex').slice(0, 12)}`;

/** With these variables in the environment. */
async function under<T>(variables: Record<string, string>, run: () => Promise<T>): Promise<T> {
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    return await run();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

async function refusal(dir: string, variables: Record<string, string> = {}): Promise<[string, string]> {
  try {
    await under(variables, () => projectIdentity(dir));
  } catch (error) {
    assert.ok(error instanceof ProjectIdentityError, String(error));
    return [error.kind, error.message];
  }
  assert.fail('it was named');
}

test('the root commit, wherever one stands in the repository', async () => {
  const dir = place();
  const main = directory(dir, 'main');
  const expected = repository(main);
  git(main, 'worktree', 'add', '-q', '-b', 'side', '../side');
  git(dir, 'clone', '-q', 'main', 'clone');
  directory(main, 'a/b');
  writeFileSync(join(main, 'HEAD'), 'a file that is called like a revision');
  for (const inside of ['main', 'main/', 'main/a/b', 'main/a/../a/./b', 'side', 'clone']) {
    assert.equal(await projectIdentity(`${dir}/${inside}`), expected, inside);
  }
});

test('of several roots the first in alphabetical order', async () => {
  const dir = place();
  const roots = [repository(dir)];
  for (const branch of ['b1', 'b2', 'b3']) {
    git(dir, 'checkout', '-q', '--orphan', branch);
    git(dir, 'commit', '-q', '--allow-empty', '-m', branch);
    roots.push(`git:${git(dir, 'rev-parse', 'HEAD')}`);
    git(dir, 'checkout', '-q', 'main');
    git(dir, 'merge', '-q', '--allow-unrelated-histories', '-m', 'merge', branch);
  }
  assert.equal(await projectIdentity(dir), roots.sort()[0]);
});

test('outside of git the path, as it is written', async () => {
  const dir = place();
  const inner = directory(dir, 'in ner/ü');
  for (const path of [inner, `${inner}/`, `${inner}/../ü/.`]) {
    assert.equal(await projectIdentity(path), dirName(inner), path);
  }
  assert.notEqual(await projectIdentity(dir), dirName(inner));
  // No git is needed.
  assert.equal(await under({ PATH: '' }, () => projectIdentity(inner)), dirName(inner));
  const link = join(dir, 'link');
  symlinkSync(inner, link);
  assert.equal(await projectIdentity(link), dirName(link));
  // As `md5sum` says of the path.
  assert.equal(await projectIdentity('/'), 'dir:6666cd76f969');
});

test('links lead into a repository and out of it', async () => {
  const dir = place();
  const inside = directory(dir, 'repository/sub');
  const outside = directory(dir, 'outside');
  const first = repository(join(dir, 'repository'));
  symlinkSync(inside, join(outside, 'in'));
  symlinkSync(outside, join(inside, 'out'));
  assert.equal(await projectIdentity(join(outside, 'in')), first);
  assert.equal(await projectIdentity(join(inside, 'out')), dirName(join(inside, 'out')));
});

test('a directory that is not there, a file, and no name', async () => {
  const dir = place();
  writeFileSync(join(dir, 'file'), '');
  assert.equal((await refusal(join(dir, 'missing')))[0], 'unreadable');
  assert.equal((await refusal(join(dir, 'file')))[0], 'not-a-directory');
  assert.equal((await refusal(''))[0], 'unreadable');
});

test('a repository and no git', async () => {
  const dir = place();
  repository(dir);
  const [kind, why] = await refusal(dir, { PATH: directory(dir, 'empty') });
  assert.ok(kind === 'no-git' && why.includes('install git'), `${kind}: ${why}`);
});

test('a git that does not end, nor what it has started', async () => {
  const dir = place();
  repository(dir);
  const bin = directory(dir, 'bin');
  writeFileSync(join(bin, 'git'), '#!/bin/sh\n/bin/sleep 20 &\n/bin/sleep 20\n');
  chmodSync(join(bin, 'git'), 0o755);
  const began = performance.now();
  await assert.rejects(
    under({ PATH: bin }, () => projectIdentity(dir, 300)),
    (error) => error instanceof ProjectIdentityError && error.kind === 'timeout' && error.message.includes('in time'),
  );
  assert.ok(performance.now() - began < 5_000, 'it waited for it');
});

test('a repository of another user', async () => {
  const dir = place();
  const expected = repository(dir);
  const sub = directory(dir, 'sub');
  // Git's own switch for its own tests of this refusal.
  const another = { GIT_TEST_ASSUME_DIFFERENT_OWNER: '1', GIT_CONFIG_GLOBAL: '/dev/null' };
  const [kind, why] = await refusal(sub, another);
  assert.ok(kind === 'refused' && why.endsWith(`git config --global --add safe.directory '${dir}'`), `${kind}: ${why}`);
  // The advice helps.
  const config = join(dir, 'gitconfig');
  writeFileSync(config, `[safe]\n\tdirectory = ${dir}\n`);
  assert.equal(await under({ ...another, GIT_CONFIG_GLOBAL: config }, () => projectIdentity(sub)), expected);
});

test('repositories without their first commit', async () => {
  const dir = place();
  const main = directory(dir, 'main');
  repository(main);
  git(directory(dir, 'unborn'), 'init', '-q');
  assert.equal((await refusal(join(dir, 'unborn')))[0], 'no-commit');
  git(dir, 'clone', '-q', '--depth', '1', `file://${main}`, 'shallow');
  const [kind, why] = await refusal(join(dir, 'shallow'));
  assert.ok(kind === 'shallow' && why.includes('git fetch --unshallow'), `${kind}: ${why}`);
  git(join(dir, 'shallow'), 'fetch', '-q', '--unshallow');
  assert.equal(await projectIdentity(join(dir, 'shallow')), await projectIdentity(main));
});

test('what looks like a repository and is none', async () => {
  const dir = place();
  writeFileSync(join(dir, '.git'), 'gitdir: /no/such/place\n');
  const [kind, why] = await refusal(dir, { LC_ALL: 'de_DE.UTF-8', LANGUAGE: 'de' });
  assert.ok(kind === 'git' && why.includes('not a git repository'), `${kind}: ${why}`);
});

test('the variables of a hook, which has another repository, do not count', async () => {
  const dir = place();
  const other = place();
  const expected = repository(dir);
  repository(other, 'another first');
  const sub = directory(dir, 'sub');
  const variables = {
    GIT_DIR: join(other, '.git'),
    GIT_WORK_TREE: other,
    GIT_COMMON_DIR: join(other, '.git'),
    GIT_OBJECT_DIRECTORY: join(other, '.git/objects'),
    GIT_CEILING_DIRECTORIES: dir,
    GIT_NAMESPACE: 'x',
    GIT_PREFIX: 'x/',
  };
  assert.equal(await under(variables, () => projectIdentity(sub)), expected);
});

test('a repository without a working tree', async () => {
  const dir = place();
  const first = repository(directory(dir, 'repository'));
  git(dir, 'clone', '-q', '--bare', 'repository', 'bare.git');
  assert.equal(await projectIdentity(join(dir, 'bare.git')), first);
  assert.equal(await projectIdentity(join(dir, 'bare.git/objects')), first);
});
