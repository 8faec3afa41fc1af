// Loading the component: another contract is refused in words, and instances are cheap on runtimes without
// `WebAssembly.promising` too.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OtherWorld, checkWorld, digest, instantiate } from '../dist/component.js';
import type { Imports } from '../dist/component.js';
import world from '../generated/world.js';

test('the component that was built fits, and is known by its digest', () => {
  checkWorld(world.imports, world.exports);
  assert.match(digest, /^[0-9a-f]{64}$/);
});

test('a later version of the same series fits', () => {
  const later = (names: string[]) => names.map((name) => name.replace('@0.1.0', '@0.1.7'));
  checkWorld(later(world.imports), later(world.exports));
});

test('another series, an unknown import and a missing export are refused, and said', () => {
  const cases: [string[], string[], RegExp][] = [
    [
      world.imports.map((name) => name.replace('@0.1.0', '@0.2.0')),
      world.exports,
      /types@0\.2\.0 is of another series/,
    ],
    [
      world.imports,
      world.exports.map((name) => name.replace('@0.1.0', '@1.0.0')),
      /orchestrator@1\.0\.0 is of another series/,
    ],
    [[...world.imports, 'wasi:clocks/wall-clock@0.2.0'], world.exports, /no import is named wasi:clocks/],
    [world.imports, world.exports.filter((name) => !name.includes('/child@')), /it has no child/],
    [['agent-memory:prefetch/memories'], world.exports, /memories is of another series/],
  ];
  for (const [imports, exports, why] of cases) {
    assert.throws(
      () => checkWorld(imports, exports),
      (error) =>
        error instanceof OtherWorld && why.test(error.message) && /This host offers .* 0\.1\.x/.test(error.message),
    );
  }
});

test('an instance leaves the global WebAssembly as it was', () => {
  const before = Object.getOwnPropertyNames(WebAssembly).sort();
  // `describe` calls no import, so none has to do anything.
  const nothing = new Proxy({}, { get: () => () => assert.fail('no import is called') });
  const imports = new Proxy({}, { get: () => nothing }) as Imports;
  const info = instantiate(imports).exports.about.describe();
  assert.equal(info.contract, '0.1.0');
  assert.deepEqual(Object.getOwnPropertyNames(WebAssembly).sort(), before);
});

test('what one call had is not there any more in the next one, whatever came of it', (context) => {
  const memories: WebAssembly.Memory[] = [];
  const { Instance } = WebAssembly;
  context.mock.method(WebAssembly, 'Instance', function (module: WebAssembly.Module, given: WebAssembly.Imports) {
    const made = new Instance(module, given);
    const { memory } = made.exports;
    if (memory instanceof WebAssembly.Memory) memories.push(memory);
    return made;
  } as never);
  const imports = new Proxy({}, { get: () => new Proxy({}, { get: () => () => assert.fail('none is called') }) });
  const { exports, renew } = instantiate(imports as Imports);
  const [memory] = memories;
  assert.ok(memory);
  const holds = (text: string) => Buffer.from(memory.buffer).includes(text);
  const decode = (task: string) => exports.wire.decode(JSON.stringify({ task }));

  assert.equal(decode('a secret of one').task, 'a secret of one');
  assert.ok(holds('a secret of one'));
  assert.ok(renew());
  assert.ok(!holds('a secret of one'));
  assert.throws(() => exports.wire.decode(`{"${'-'.repeat(200)}another secret"`));
  assert.ok(holds('another secret'));
  assert.ok(renew());
  assert.ok(!holds('another secret'));
  const { byteLength } = memory.buffer;
  assert.equal(decode('the next').task, 'the next');
  assert.equal(memory.buffer.byteLength, byteLength, 'it goes on with the room that it has');

  // What needs more memory than there is: its instance is not used again.
  assert.equal(decode('x'.repeat(1_000_000)).task.length, 1_000_000);
  assert.ok(memory.buffer.byteLength > byteLength);
  assert.equal(renew(), false);
});
