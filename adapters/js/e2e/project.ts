import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package, as a user installs it: this file runs from `dist-e2e` in it. */
export const PACKAGE = fileURLToPath(new URL('..', import.meta.url));

/** A directory that is a git repository with one commit, after which its project is named. */
export function makeProject(directory: string): void {
  mkdirSync(directory, { recursive: true });
  // The directory's name makes the commit another one than that of other projects.
  writeFileSync(join(directory, 'README.md'), `A project in ${directory}.\n`);
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=e2e', '-c', 'user.email=e2e@localhost', ...args], { cwd: directory });
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '--message', 'The first commit');
}
