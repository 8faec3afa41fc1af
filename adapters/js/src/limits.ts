// What one call of the component may take, as in host/src/limits.rs. A sandbox in JavaScript cannot be interrupted from
// within: time is looked at before each import, and whoever runs this in a worker ends the worker (src/client.ts).

export interface Limits {
  /** Milliseconds for one exported call, with making the instance and store calls. */
  timeMs: number;
  /** Imported functions that one exported call may call, and log lines that it may write beside them. */
  hostCalls: number;
  /** Bytes of text that the host hands to the component during one call. Over it the component is told `too-large`. */
  bytesIn: number;
  /** Bytes of all audit entries of one call, and of all texts that it has hashed. */
  bytesOut: number;
}

export const DEFAULT_LIMITS: Limits = { timeMs: 5_000, hostCalls: 20_000, bytesIn: 16 << 20, bytesOut: 16 << 20 };

/** The most rows of a search or a list. A sweep takes 1000, and a child's search of hand-overs as many. */
export const MOST_ROWS = 10_000;

/** The most snapshots that are read at once with their pages, each of which may be large. */
export const MOST_WHOLE = 64;

/** What a row counts beside its texts, in bytes. */
export const ROW = 256;

/** The component broke a limit, or called what it may not call. Ends the call like a trap. */
export class Stopped extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'Stopped';
  }
}
