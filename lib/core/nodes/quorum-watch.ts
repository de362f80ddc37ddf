import type { LockEvent } from '../events.ts';
import { inModuleContext } from '../module-context.ts';
import { Alarm } from './deadlines.ts';
import type { NodeSet } from './node-set.ts';

/**
 * Reports the outage of a quorum once, and its end once. `node-left` alone is none, because most connections are made again at
 * once: a call that is refused makes it one, or a node that is failing or in quarantine.
 */
export class QuorumWatch {
  readonly #set: NodeSet;
  /** Since when too few nodes vote; undefined while enough do. Before a quorum voted first, that is no news. */
  #sinceMs: number | undefined = Number.NEGATIVE_INFINITY;
  #isReported = false;
  #refusedCalls = 0;
  readonly #quarantineEnd = new Alarm(() => this.look());

  constructor(set: NodeSet) {
    this.#set = set;
  }

  /** @param after the event of a node, or of a refused call, that changed something */
  look(after?: LockEvent['type']): void {
    const { quorumVotesAtMs, isQuorumMissing, missingVotes, alarms, nowMs } = this.#set;
    if (!isQuorumMissing) return this.#isBack(nowMs);
    this.#sinceMs ??= nowMs;
    if (after === 'unavailable') this.#refusedCalls += 1;
    const waitMs = quorumVotesAtMs - nowMs;
    const isQuarantine = waitMs > 0 && waitMs !== Number.POSITIVE_INFINITY;
    if (isQuarantine) alarms.set(this.#quarantineEnd, Math.ceil(waitMs), nowMs);
    const lasts = after === 'node-failing' || (after === 'node-joined' && isQuarantine);
    const isNews = !this.#isReported && this.#sinceMs !== Number.NEGATIVE_INFINITY;
    if (!isNews || !(lasts || after === 'unavailable')) return;
    this.#isReported = true;
    this.#emit({ type: 'quorum-lost', causes: missingVotes });
  }

  #isBack(nowMs: number): void {
    const downMs = nowMs - (this.#sinceMs ?? nowMs);
    const refusedCalls = this.#refusedCalls;
    const isNews = this.#isReported;
    this.#sinceMs = undefined;
    this.#isReported = false;
    this.#refusedCalls = 0;
    if (isNews) this.#emit({ type: 'quorum-back', downMs, refusedCalls });
  }

  /** A refused call has an async context of its own. */
  #emit(event: LockEvent): void {
    inModuleContext(() => this.#set.emit(event));
  }
}
