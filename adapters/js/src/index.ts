// The package's own interface: the host, for a harness that wants all of it, and what the adapters share, for one that
// wants to be like them.

export { Adapter, FIXED_NOTICE, WrongField } from './adapter.js';
export type { ChildModel, ChildTask, Delegation, Session } from './adapter.js';
export { Client, HostFailure, client } from './client.js';
export { ConfigError, configFile, defaultStore, projectMemory, readSettings } from './config.js';
export type { Settings } from './config.js';
export type * from './contract.js';
export { memoryField, tools } from './field.js';
export { ComponentFailure, PolicyError, Prefetch } from './host.js';
export type { PrefetchOptions } from './host.js';
export { projectIdentity } from './project_identity.js';
export { MagicContext } from './sources/magic_context.js';
export { SqliteStore } from './sqlite/store.js';
export { StoreFailure } from './store.js';
export type { Memories, Operator, Store } from './store.js';
