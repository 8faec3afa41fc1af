// Puts one memory where a harness will look for it: into a new store, or, where the user's memories are another
// program's, into a new database of that kind. Neither is the user's own.

import { closeSync, openSync } from 'node:fs';
import type { Settings } from '../config.js';
import { openService } from '../open.js';
import { choose, connect } from '../sqlite/driver.js';

/** The planted memory's id, which is one in either kind of file. */
const ID = '1';

const OWNER = 'doctor';

/** `settings` name files that may be made. Every agent of the project sees the memory. Answers its id. */
export async function plant(settings: Settings, project: string, body: string): Promise<string> {
  if (settings.memories) {
    plantInSource(settings.memories.path, project, body);
    return ID;
  }
  const service = await openService(settings);
  try {
    const { store } = service.prefetch;
    const session = { harness: 'doctor', id: 'owner' };
    store.ensureDirectory({ agent: OWNER, project, session, parent: undefined, memoryOn: true });
    const whose = { owner: OWNER, project, audience: 'project', trusted: true } as const;
    store.addMemory({ id: ID, body, category: '', priority: 0, ...whose }, BigInt(Date.now()));
  } finally {
    service.close();
  }
  return ID;
}

function plantInSource(path: string, project: string, body: string): void {
  closeSync(openSync(path, 'wx', 0o600));
  const connection = connect(choose(undefined), path);
  try {
    connection.exec(`CREATE TABLE memories (
      id INTEGER PRIMARY KEY, project_path TEXT, category TEXT, content TEXT, status TEXT,
      created_at INTEGER, updated_at INTEGER)`);
    connection.run(`INSERT INTO memories VALUES (:id, :project, 'decision', :body, 'active', :now, :now)`, {
      id: Number(ID),
      project,
      body,
      now: Date.now(),
    });
  } finally {
    connection.close();
  }
}
