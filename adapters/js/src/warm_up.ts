// The first calls of a process are slow: the engine compiles the component's code better the more often it has run. So the
// worker runs a delegation on a store that is thrown away, while nobody waits.

import { Prefetch } from './host.js';
import { Service } from './service.js';
import type { Caller } from './service.js';
import { SqliteStore } from './sqlite/store.js';

/** Rounds, after which more bring little. */
const ROUNDS = 12;

/** One round after the other, each some milliseconds; what is asked meanwhile goes before the next one. */
export function warmUp(): void {
  const service = new Service(new Prefetch(SqliteStore.inMemory()));
  const { store } = service.prefetch;
  const parent: Caller = { key: key('parent'), agent: 'a', project: 'p', parent: undefined, memoryOn: true };
  const ids = Array.from({ length: 8 }, (_, index) => `${index}`);
  service.recall(parent, '', undefined, 1);
  for (const id of ids) {
    const body = `${'some words of a memory, '.repeat(40)}${id}`;
    store.addMemory(
      { id, owner: 'a', project: 'p', audience: 'agent', category: '', priority: 0, trusted: true, body },
      0n,
    );
  }
  let round = 0;
  const next = (): void => {
    const task = `${round}`;
    const child: Caller = { ...parent, key: key(`child ${round}`), parent: parent.key };
    service.register(parent, {
      task,
      memory: JSON.stringify({ prefetch_ids: ids }),
      capacity: { budget: { tag: 'tokens', val: 100_000 }, model: undefined, overflow: 'refuse' },
      agentType: undefined,
      callId: task,
      ttlSeconds: undefined,
    });
    service.claim(child, 'start', { tag: 'parent-session', val: { task, agentType: undefined, registersAll: true } });
    round += 1;
    if (round < ROUNDS) setImmediate(next);
    else service.close();
  };
  next();
}

function key(id: string): { harness: string; id: string } {
  return { harness: 'warm-up', id };
}
