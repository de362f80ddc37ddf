/** What happened on a link since it was made, to prove that a fault met something. */
export interface LinkCounts {
  /** Accepted, also when they were reset right away. */
  connections: number;
  /** Connections to the target that could not be made; those of the clients are then reset. */
  unreachable: number;
  /** Bytes handed to the target. */
  requestBytes: number;
  /** Bytes handed to clients. */
  replyBytes: number;
  /** Chunks; a chunk is what was read from a socket at once, which for commands and replies of locks is one or a few whole ones. */
  heldChunks: number;
  delayedChunks: number;
  /** Also the replies that `resetAfterRequest` swallowed. */
  lostChunks: number;
  truncatedChunks: number;
  garbledChunks: number;
  /** Connections that the link reset for whatever reason; not those where it only passed on a reset of one of the ends. */
  resets: number;
  /** Those of them that were reset by `resetAfterRequest`. */
  resetsAfterRequest: number;
}

export function emptyLinkCounts(): LinkCounts {
  return {
    connections: 0,
    unreachable: 0,
    requestBytes: 0,
    replyBytes: 0,
    heldChunks: 0,
    delayedChunks: 0,
    lostChunks: 0,
    truncatedChunks: 0,
    garbledChunks: 0,
    resets: 0,
    resetsAfterRequest: 0,
  };
}

/** The sums of several links. */
export function addLinkCounts(all: readonly LinkCounts[]): LinkCounts {
  const sums = emptyLinkCounts();
  for (const counts of all) {
    for (const name of Object.keys(sums) as (keyof LinkCounts)[]) sums[name] += counts[name];
  }
  return sums;
}
