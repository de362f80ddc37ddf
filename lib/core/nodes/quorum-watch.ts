import type { LockEvent } from '../events.ts';
import { Alarm } from './deadlines.ts';
import type { NodeSet } from './node-set.ts';

/**
 * Reports the outage of a quorum once, and its end once. `node-left` alone is none, because most connections are made again at
 * once: a call that is refused makes it one, or a node that is failing or in quarantine.
 */
export class QuorumWatch {
  readonly #set: NodeSet;
  /** Outage that lasts; undefined while enough nodes vote. Before the first quorum it has no beginning, and is no news. */
  #outage: { sinceMs: number; refusedCalls: number; isReported: boolean } | undefined = {
    sinceMs: Number.NEGATIVE_INFINITY,
    refusedCalls: 0,
    isReported: false,
  };
  readonly #quarantineEnd = new Alarm(() => this.look());

  constructor(set: NodeSet) {
    this.#set = set;
  }

  /** @param after the event that may have begun or ended one */
  look(after?: LockEvent['type']): void {
    const { quorumVotesAtMs, isQuorumMissing, missingVotes, alarms, nowMs } = this.#set;
    if (!isQuorumMissing) {
      const { sinceMs = 0, refusedCalls = 0, isReported = false } = this.#outage ?? {};
      this.#outage = undefined;
      if (isReported)
        this.#set.emit({ type: 'quorum-back', downMs: nowMs - sinceMs, refusedCalls });
      return;
    }
    const outage = (this.#outage ??= { sinceMs: nowMs, refusedCalls: 0, isReported: false });
    if (after === 'unavailable') outage.refusedCalls += 1;
    const waitMs = quorumVotesAtMs - nowMs;
    const isQuarantine = waitMs > 0 && waitMs !== Number.POSITIVE_INFINITY;
    if (isQuarantine) alarms.set(this.#quarantineEnd, Math.ceil(waitMs), nowMs);
    const lasts = after === 'node-failing' || (after === 'node-joined' && isQuarantine);
    if (
      !(lasts || after === 'unavailable') ||
      outage.isReported ||
      outage.sinceMs === Number.NEGATIVE_INFINITY
    )
      return;
    outage.isReported = true;
    this.#set.emit({ type: 'quorum-lost', causes: missingVotes });
  }
}
