// Waiting for what another process does.

import assert from 'node:assert/strict';

const TRIES = 300;
const PAUSE_MS = 100;

export async function until(holds: () => boolean): Promise<void> {
  for (let tries = 0; !holds(); tries++) {
    assert.ok(tries < TRIES, `it does not come about: ${holds.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
