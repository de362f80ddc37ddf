const NOTHING = {
  /** Accepted, also when they were reset right away. */
  connections: 0,
  /** Chunks; a chunk is what was read from a socket at once, which for commands and replies of locks is one or a few whole ones. */
  heldChunks: 0,
  /** Chunks that were lost, also the replies that `resetAfterRequest` swallowed. */
  lostChunks: 0,
  truncatedChunks: 0,
  garbledChunks: 0,
  /** Connections that the link reset for whatever reason; not those where it only passed on a reset of one of the ends. */
  resets: 0,
  /** Connections that the link has forgotten. */
  forgotten: 0,
};

/** Events on a link since it was made, to prove that a fault met something. */
export type LinkCounts = typeof NOTHING;

export function emptyLinkCounts(): LinkCounts {
  return { ...NOTHING };
}

/** The sums of several links. */
export function addLinkCounts(all: readonly LinkCounts[]): LinkCounts {
  const sums = emptyLinkCounts();
  for (const counts of all) {
    for (const name of Object.keys(sums) as (keyof LinkCounts)[]) sums[name] += counts[name];
  }
  return sums;
}
