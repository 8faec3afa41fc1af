// The contract's values as jco writes them: fields in camel case, variants as {tag, val}, enums by their names, an
// absent option as undefined, instants as bigint. What each means is said in wit/.

export type * from '../generated/interfaces/agent-memory-prefetch-types.js';
export type { Memory, SearchFilter, Audience } from '../generated/interfaces/agent-memory-prefetch-memories.js';
export type { Session, Project, Link, Direction } from '../generated/interfaces/agent-memory-prefetch-directory.js';
export type {
  Delivery,
  Frozen,
  Given,
  HandOver,
  Offer,
  OfferFilter,
  Page,
  Selection,
  Snapshot,
  StoredPage,
} from '../generated/interfaces/agent-memory-prefetch-snapshots.js';
export type { Level } from '../generated/interfaces/agent-memory-prefetch-environment.js';
export type { Entry } from '../generated/interfaces/agent-memory-prefetch-audit.js';
export type {
  Delegated,
  Request,
  Outcome as DelegationOutcome,
} from '../generated/interfaces/agent-memory-prefetch-orchestrator.js';
export type {
  Answer,
  Claim,
  Hints,
  Outcome as DeliveryOutcome,
} from '../generated/interfaces/agent-memory-prefetch-child.js';
export type { Found, View } from '../generated/interfaces/agent-memory-prefetch-tools.js';
export type { Delegation, Marked } from '../generated/interfaces/agent-memory-prefetch-wire.js';
export type { Forgotten, Swept } from '../generated/interfaces/agent-memory-prefetch-upkeep.js';
export type { Info } from '../generated/interfaces/agent-memory-prefetch-about.js';
