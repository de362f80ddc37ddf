/**
 * How far the clocks of nodes and client may have run apart in one ttl, plus 2 ms for the resolution of Redis' expiry.
 * Source: "Distributed Locks with Redis" (redis.io), CLOCK_DRIFT.
 */
export function driftMs(ttlMs: number, driftFactor: number): number {
  return ttlMs * driftFactor + 2;
}

/** The instant at which a lock, asked for at `startedAtMs`, is certainly still held by the nodes that said yes. */
export function validUntilMs(startedAtMs: number, ttlMs: number, driftFactor: number): number {
  return startedAtMs + ttlMs - driftMs(ttlMs, driftFactor);
}

/** A grant with less than this share of the ttl left is of no use: it counts as a failed try. */
export const MINIMUM_VALIDITY = 0.1;
