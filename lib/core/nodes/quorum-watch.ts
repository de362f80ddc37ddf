import type { NodeCause } from '../errors.ts';
import type { LockEvent } from '../events.ts';
import { Alarm } from './deadlines.ts';
import type { NodeSet } from './node-set.ts';

interface Outage {
  readonly sinceMs: number;
  refusedCalls: number;
  isReported: boolean;
  /** Nodes said so themselves, and will say when it is over. */
  isSeen: boolean;
}

/**
 * Reports the outage of a quorum once, and its end once. `node-left` alone is none, because most connections are made again at
 * once: a call that is refused makes it one, or too many nodes that are failing or in quarantine.
 */
export class QuorumWatch {
  readonly #set: NodeSet;
  /** Outage that lasts. Before the first quorum it has no beginning, and is no news. */
  outage: Outage | undefined = {
    sinceMs: Number.NEGATIVE_INFINITY,
    refusedCalls: 0,
    isReported: true,
    isSeen: true,
  };
  readonly #quarantineEnd = new Alarm(() => this.look());

  constructor(set: NodeSet) {
    this.#set = set;
  }

  /** @param event that may have begun or ended an outage */
  look(event?: LockEvent): void {
    if (event?.type === 'unavailable') return this.#refused(event.causes);
    const { isQuorumMissing, isQuorumAway, missingVotes, quorumVotesAtMs, alarms, nowMs } =
      this.#set;
    if (isQuorumMissing) {
      const waitMs = quorumVotesAtMs - nowMs;
      if (waitMs > 0 && waitMs !== Number.POSITIVE_INFINITY)
        alarms.set(this.#quarantineEnd, quorumVotesAtMs);
      const outage = this.#begin(nowMs);
      outage.isSeen = true;
      if (isQuorumAway) this.#report(outage, missingVotes);
    } else if (this.outage !== undefined) this.#end(this.outage, nowMs);
  }

  #refused(causes: readonly NodeCause[]): void {
    // Servers are not at fault where this process did not ask them, or did not run.
    if (causes[0]?.address === 'this process') return;
    const outage = this.#begin(this.#set.nowMs);
    outage.refusedCalls += 1;
    this.#report(
      outage,
      causes.filter(({ reason }) => reason !== 'not-awaited'),
    );
  }

  #begin(nowMs: number): Outage {
    const outage = { sinceMs: nowMs, refusedCalls: 0, isReported: false, isSeen: false };
    return (this.outage ??= outage);
  }

  #report(outage: Outage, causes: readonly NodeCause[]): void {
    if (outage.isReported) return;
    outage.isReported = true;
    this.#set.emit({ type: 'quorum-lost', causes });
  }

  /** Ends an outage in which all nodes seemed well with the next quorum that answers. */
  #end({ sinceMs, refusedCalls, isReported, isSeen }: Outage, nowMs: number): void {
    if (!isSeen && this.#set.lastQuorumAtMs <= sinceMs) return;
    this.outage = undefined;
    if (isReported && sinceMs !== Number.NEGATIVE_INFINITY)
      this.#set.emit({ type: 'quorum-back', downMs: nowMs - sinceMs, refusedCalls });
  }
}
