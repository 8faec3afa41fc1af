// Opens what the settings name: the store, the source of memories, and the component over both.

import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Settings } from './config.js';
import { Prefetch } from './host.js';
import type { Log } from './imports.js';
import { Service } from './service.js';
import { MagicContext } from './sources/magic_context.js';
import { onceThere } from './sources/source.js';
import { SqliteStore } from './sqlite/store.js';
import { StoreFailure } from './store.js';

/**
 * Throws `StoreFailure`. A store that is not there is made; its directory only where the default is. Another program's
 * memories need not be there yet.
 */
export async function openService(settings: Settings, log?: Log): Promise<Service> {
  if (settings.isDefaultStore) makeDirectory(dirname(settings.store));
  const store = await SqliteStore.open(settings.store, { busyTimeoutMs: settings.busyTimeoutMs, create: true });
  const { memories, busyTimeoutMs, memoriesTrusted: trusted } = settings;
  const warn = (line: string) => log?.('warn', line);
  const source = memories && onceThere(() => MagicContext.open(memories.path, { busyTimeoutMs, trusted, warn }), warn);
  return new Service(new Prefetch(store, { memories: source, ...(log && { log }) }));
}

function makeDirectory(directory: string): void {
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StoreFailure('absent', `${directory} cannot be made: ${error instanceof Error ? error.message : error}`);
  }
}
