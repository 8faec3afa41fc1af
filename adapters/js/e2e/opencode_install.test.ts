// How the package gets into the real OpenCode: from a clone, as npm's package, and both at once; and whether it is
// still there after OpenCode has read its configuration anew.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after } from 'node:test';
import { blockWith } from './opencode_requests.js';
import { toolResults } from './model_server.js';
import { PACKAGE } from './project.js';
import { Scene, task } from './opencode_scene.js';

const bodies = { '11': 'The login form never autofills.' };

/** Copies what `npm publish` would publish, with its dependencies, to where OpenCode has its npm put a plugin. */
function install(home: string): void {
  const packages = join(home, '.cache', 'opencode', 'packages', 'memory-prefetch@latest', 'node_modules');
  const pack = ['pack', '--dry-run', '--json', '--ignore-scripts'];
  const listed = execFileSync('npm', pack, { cwd: PACKAGE, encoding: 'utf8' });
  const [{ files }] = JSON.parse(listed) as [{ files: { path: string }[] }];
  for (const { path } of files) {
    const target = join(packages, 'memory-prefetch', path);
    mkdirSync(dirname(target), { recursive: true });
    cpSync(join(PACKAGE, path), target);
  }
  cpSync(join(PACKAGE, 'node_modules', 'zod'), join(packages, 'zod'), { recursive: true });
}

const scene = await Scene.make({ plugin: [PACKAGE, 'memory-prefetch'] });
install(scene.home);
scene.remember(bodies);
after(() => scene.close());

async function works(): Promise<void> {
  const { children, requests } = await scene.play([task('Is it there?', { prefetch_ids: ['11'] })]);
  blockWith(children[0]!, ['11'], bodies);
  const [result] = toolResults(requests.at(-1)!);
  assert.equal(result!.split('[memory-prefetch] ').length - 1, 1, 'it is said once');
}

scene.test('named by its path and by npm, it runs once', works);

scene.test('it runs when OpenCode has read its configuration anew', async () => {
  await (await scene.server()).reload();
  await works();
});

scene.test("as npm's package alone", async () => {
  const other = await Scene.make({ plugin: ['memory-prefetch'] });
  try {
    install(other.home);
    other.remember(bodies);
    const { children } = await other.play([task('Is it there?', { prefetch_ids: ['11'] })]);
    await other.keepIfFailed(async () => void blockWith(children[0]!, ['11'], bodies));
  } finally {
    await other.close();
  }
});
