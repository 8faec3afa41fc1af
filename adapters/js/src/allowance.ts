// `max-bytes` of `memories.get` and `search`, for every store: which bodies are given with the rows.

/** How many bytes of bodies may still be given. From the first body that does not fit on, none is. */
export interface Allowance {
  /** Whether the next body, of this many bytes, is given. */
  admits(bytes: number): boolean;
}

/** At most this many bytes together. */
export function allowanceOf(maxBytes: number): Allowance {
  let left: number | undefined = maxBytes;
  return {
    admits(bytes) {
      left = left === undefined || left < bytes ? undefined : left - bytes;
      return left !== undefined;
    },
  };
}
