// Which exported function may do what: whether its unit of work reads or writes, and which imports it may call. A
// component that calls another one is stopped, whatever its policy says. The same table is in docs/hosts.md.

import type { Access } from './store.js';

/** What an export's unit of work does; undefined: it needs no store. */
export const ACCESS = {
  'orchestrator.estimate': 'read',
  'orchestrator.delegate': 'write',
  'orchestrator.revalidate': 'read',
  'orchestrator.revoke': 'write',
  'child.deliver': 'write',
  'child.replay': 'read',
  'child.page': 'read',
  'tools.get': 'read',
  'tools.recall': 'relaxed',
  'upkeep.evictable': 'read',
  'upkeep.sweep': 'write',
  'upkeep.session-ended': 'write',
  'upkeep.forget': 'write',
  'wire.encode': undefined,
  'wire.decode': undefined,
  'wire.parse-markers': undefined,
  'about.describe': undefined,
} as const satisfies Record<string, Access | undefined>;

/** An exported function, `interface.function` as in wit/. */
export type ExportName = keyof typeof ACCESS;

/** An imported function, as far as it matters who may call it. */
export type Import =
  | 'log'
  | 'settings'
  /** `environment` but for `log` and `settings`. */
  | 'environment'
  | 'audit'
  /** Any function that only reads rows. */
  | 'read'
  | keyof typeof WRITERS;

/** Imports that write, and the only exports that may call them. */
const WRITERS = {
  'record-access': ['tools.recall'],
  'insert-snapshot': ['orchestrator.delegate', 'child.deliver'],
  'insert-hand-over': ['orchestrator.delegate'],
  'insert-delivery': ['child.deliver'],
  revoke: ['orchestrator.revoke'],
  overwrite: ['upkeep.forget'],
  'end-deliveries': ['upkeep.session-ended'],
  /** `strip`, `remove` and `remove-unattached`. */
  remove: ['upkeep.sweep'],
} as const satisfies Record<string, readonly ExportName[]>;

/** Whether this export may call this import. */
export function allows(name: ExportName, imported: Import): boolean {
  switch (imported) {
    case 'log':
      return true;
    case 'settings':
      return ACCESS[name] !== undefined || name === 'wire.parse-markers';
    case 'environment':
    case 'audit':
    case 'read':
      return ACCESS[name] !== undefined;
    default:
      return (WRITERS[imported] as readonly ExportName[]).includes(name);
  }
}
