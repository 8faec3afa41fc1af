// The directory as it is seen where memories lie in a source of their own: a source that keeps workspaces (R10) says
// where its projects stand; everything else stays what the user's directory says.

import type { Project, Session, SessionKey } from './contract.js';
import { StoreFailure } from './store.js';
import type { Memories, Place, Store } from './store.js';

/** Is told what a person should know. */
type Warn = (line: string) => void;

/** `directory.projects` */
export function projects(
  store: Store,
  source: Memories | undefined,
  ids: string[],
  warn: Warn,
): (Project | undefined)[] {
  const known = store.projects(ids);
  if (source?.places === undefined) return known;
  const places = placesOf(source, ids, warn);
  return ids.map((id, index) => placed(known[index], places[index], id));
}

/** `directory.sessions` */
export function sessions(
  store: Store,
  source: Memories | undefined,
  keys: SessionKey[],
  warn: Warn,
): (Session | undefined)[] {
  const known = store.sessions(keys);
  if (source?.places === undefined) return known;
  const ids = known.flatMap((session) => (session?.project ? [session.project.id] : []));
  const places = placesOf(source, ids, warn);
  let next = 0;
  return known.map((session) => {
    if (!session?.project) return session;
    return { ...session, project: placed(session.project, places[next++], session.project.id) };
  });
}

/** `directory.workspace-projects` */
export function workspaceProjects(
  store: Store,
  source: Memories | undefined,
  workspace: string,
  warn: Warn,
): Project[] {
  const inside = store.workspaceProjects(workspace);
  if (source?.places === undefined) return inside;
  const members = orNothing(() => source.members?.(workspace), warn) ?? [];
  const ids = [...new Set([...inside.map((project) => project.id), ...members])].sort();
  return projects(store, source, ids, warn).filter((project) => project?.workspace === workspace) as Project[];
}

function placesOf(source: Memories, ids: string[], warn: Warn): (Place | undefined)[] {
  const places = orNothing(() => source.places?.(ids), warn) ?? ids.map(() => undefined);
  if (places.length === ids.length) return places;
  throw new StoreFailure(
    'damaged',
    'the source of memories answered for another number of projects than was asked for',
  );
}

/** What a source that is gone knows is nothing: what was frozen goes on without it, by what the user's directory says. */
function orNothing<T>(ask: () => T, warn: Warn): T | undefined {
  try {
    return ask();
  } catch (error) {
    if (!(error instanceof StoreFailure && error.kind === 'absent')) throw error;
    warn(`the source of memories is not there: ${error.why}`);
    return undefined;
  }
}

function placed(project: Project | undefined, place: Place | undefined, id: string): Project | undefined {
  if (place === undefined) return project;
  const { workspace } = place;
  if (project !== undefined) return { ...project, workspace };
  return { id, workspace, memoryOn: true, trusted: true, attributes: [] };
}
