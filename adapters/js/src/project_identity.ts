// Which project a directory belongs to, by a name that is the same in every worktree, clone and subdirectory of it:
// `git:` and its root commit. A directory outside of any repository is named after its path. These are the names that
// magic-context gives its projects, so that both mean the same; where it falls back to the path since git cannot answer,
// this is an error, since the memories that are meant would silently be others.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { realpath, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

/** Variables by which a hook or a script makes git look at another repository than the one of the directory. */
const REDIRECTING = [
  'GIT_DIR',
  'GIT_WORK_TREE',
  'GIT_COMMON_DIR',
  'GIT_INDEX_FILE',
  'GIT_OBJECT_DIRECTORY',
  'GIT_ALTERNATE_OBJECT_DIRECTORIES',
  'GIT_NAMESPACE',
  'GIT_PREFIX',
  'GIT_CEILING_DIRECTORIES',
  'GIT_DISCOVERY_ACROSS_FILESYSTEM',
  'GIT_GRAFT_FILE',
  'GIT_SHALLOW_FILE',
  'GIT_REPLACE_REF_BASE',
  'GIT_NO_REPLACE_OBJECTS',
];

/** How long git may take, all in all. */
const TIME_MS = 20_000;

/** Why a directory's project cannot be named. The message says what to do. */
export class ProjectIdentityError extends Error {
  constructor(
    readonly kind:
      /** The directory is not there, or may not be looked at. */
      | 'unreadable'
      | 'not-a-directory'
      /** There is a repository, and no git to ask. */
      | 'no-git'
      /** The repository belongs to another user. */
      | 'refused'
      /** The repository is empty. */
      | 'no-commit'
      /** The first commit is not there. */
      | 'shallow'
      /** Git took too long. */
      | 'timeout'
      /** Git failed in another way. */
      | 'git',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'ProjectIdentityError';
  }
}

/**
 * The project of a directory: `git:` and its repository's root commit, the first in alphabetical order if it has
 * several; outside of any repository `dir:` and 12 hex digits of the MD5 of its absolute path.
 *
 * The absolute path is made as magic-context makes it: of the text alone. A symbolic link in it is not followed, so one
 * directory has another name by way of a link than without. Throws `ProjectIdentityError`.
 */
export async function projectIdentity(directory: string, timeMs = TIME_MS): Promise<string> {
  const path = resolve(directory);
  const unreadable = (error: unknown) =>
    new ProjectIdentityError('unreadable', `${path} cannot be looked at: ${(error as Error).message}`, {
      cause: error,
    });
  if (directory === '') throw new ProjectIdentityError('unreadable', 'an empty text names no directory');
  if (!(await stat(path).catch((error) => Promise.reject(unreadable(error)))).isDirectory()) {
    const why = `${path} is not a directory: name the directory of the project`;
    throw new ProjectIdentityError('not-a-directory', why);
  }
  // Git looks where the directory lies, whatever leads to it.
  const root = await rootOf(await realpath(path).catch((error) => Promise.reject(unreadable(error))));
  if (root === undefined) return `dir:${createHash('md5').update(path).digest('hex').slice(0, 12)}`;

  const until = Date.now() + timeMs;
  const shallow = await git(path, ['rev-parse', '--is-shallow-repository'], until);
  if (shallow.code !== 0) {
    if (!shallow.why.includes('dubious ownership')) throw failed(path, shallow.why);
    const why =
      `git refuses to read the repository of ${path}, since it belongs to another user. If you trust it: ` +
      `git config --global --add safe.directory ${quoted(root)}`;
    throw new ProjectIdentityError('refused', why);
  }
  if (shallow.out.startsWith('true')) {
    const why =
      `the git repository of ${path} is a shallow clone, without the first commit that the project is named after: ` +
      'run `git fetch --unshallow` in it';
    throw new ProjectIdentityError('shallow', why);
  }
  // The two dashes: a file may be called HEAD.
  const roots = await git(path, ['rev-list', '--max-parents=0', 'HEAD', '--'], until);
  if (roots.code !== 0) {
    const head = await git(path, ['rev-parse', '--verify', '--quiet', 'HEAD'], until);
    if (head.code !== 1) throw failed(path, roots.why);
    const why =
      `the git repository of ${path} has no commit on its current branch yet, and a project is named after its first ` +
      'one: commit something';
    throw new ProjectIdentityError('no-commit', why);
  }
  const commits = roots.out.split('\n').map((line) => line.trim());
  const first = commits.filter((line) => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/i.test(line)).sort()[0];
  if (first === undefined) throw failed(path, 'it lists no root commit');
  return `git:${first}`;
}

function failed(path: string, why: string): ProjectIdentityError {
  return new ProjectIdentityError('git', `git cannot name the first commit of the repository of ${path}: ${why}`);
}

/** The nearest directory from this one upwards that is a repository or has one in it. */
async function rootOf(real: string): Promise<string | undefined> {
  for (let above = real; ; above = dirname(above)) {
    if ((await isThere(join(above, '.git'))) || (await isBare(above))) return above;
    if (dirname(above) === above) return undefined;
  }
}

async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/** Whether this is a repository without a working tree beside it. */
async function isBare(directory: string): Promise<boolean> {
  const find = (name: string) => stat(join(directory, name)).catch(() => undefined);
  const [head, objects, refs] = await Promise.all(['HEAD', 'objects', 'refs'].map(find));
  return Boolean(head?.isFile() && objects?.isDirectory() && refs?.isDirectory());
}

interface Output {
  /** The exit code; undefined: a signal ended it. */
  code: number | undefined;
  out: string;
  /** What it says of its failure. */
  why: string;
}

function git(directory: string, args: string[], until: number): Promise<Output> {
  const env: NodeJS.ProcessEnv = { ...process.env, LC_ALL: 'C' };
  for (const name of REDIRECTING) delete env[name];
  return new Promise((done, fail) => {
    const child = execFile('git', args, { cwd: directory, env, windowsHide: true }, (error, out, said) => {
      clearTimeout(timer);
      if (typeof error?.code === 'string') {
        if (error.code.startsWith('ERR_')) return fail(failed(directory, error.message));
        const why =
          `${directory} is in a git repository, and git cannot be run (${error.message}): install git, or put it ` +
          'into PATH';
        return fail(new ProjectIdentityError('no-git', why, { cause: error }));
      }
      const code = error ? (error.code ?? undefined) : 0;
      done({ code, out, why: said.trim() || (error?.signal ? `signal ${error.signal}` : `exit status ${code}`) });
    });
    // Not execFile's own: it waits for whatever git has started as well.
    const timer = setTimeout(
      () => {
        const why = `git did not name the first commit of the repository of ${directory} in time: try \`git ${args.join(' ')}\``;
        fail(new ProjectIdentityError('timeout', `${why} there`));
        child.kill('SIGKILL');
        child.stdout?.destroy();
        child.stderr?.destroy();
      },
      Math.max(0, until - Date.now()),
    );
    child.stdin?.end();
  });
}

/** One word of a shell's, whatever is in the name. */
function quoted(path: string): string {
  return `'${path.replaceAll("'", "'\\''")}'`;
}
