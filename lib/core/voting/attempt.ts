import type { NodeCause } from '../errors.ts';
import type { Caller } from '../events.ts';
import type { LockNames } from '../nodes/lock-node.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { VoteCount } from './vote-count.ts';
import { MINIMUM_VALIDITY, validityEndMs, VoteRound } from './vote-round.ts';

const MAX_BALLOTS = 3;
/** For what follows in a microtask; `queueMicrotask` costs several times as much. */
export const microtask = Promise.resolve();

/** The caller whose try it is. */
export interface AttemptListener {
  sawFloor(floor: number): void;
  /** A ballot failed, and another one follows. */
  sawVotes(votes: VoteCount, nowMs: number): void;
  /** Others want the keys as well. The votes that it has are given back after this. */
  refused(nowMs: number): void;
  /** The attempt calls this once, and never before `run` has returned. */
  ended(outcome: AttemptOutcome): void;
}

export interface LockCall {
  readonly keys: readonly string[];
  readonly settings: ResolvedAcquire;
  /** It is undefined for direct calls of the service. */
  readonly caller: Caller | undefined;
}

export type AttemptOutcome = Granted | FailedAttempt;

export interface Granted {
  readonly kind: 'granted';
  readonly holder: string;
  readonly ballot: number;
  /** The nodes that accepted it, or may have, as bits: only they have to be released. */
  readonly mayHold: number;
  /** The moment before the winning ballot. */
  readonly startedAtMs: number;
  readonly roundTripMs: number;
  readonly validUntilMs: number;
}

/**
 * What a failed try proves:
 *
 * - `contention`: others have the keys, or vote for themselves.
 * - `outage`: no quorum can be had, although the nodes had their whole time, or refused without being waited for.
 * - `nothing`: it was too slow, cut short, or had the wrong clock.
 */
export type Finding = 'contention' | 'outage' | 'nothing';

export interface FailedAttempt {
  readonly kind: 'failed';
  readonly finding: Finding;
  readonly votes: VoteCount;
  readonly endedAtMs: number;
  /** The time that the nodes had for the last ballot. */
  readonly timeoutMs: number;
  readonly causes: () => NodeCause[];
}

/**
 * A try for a lock: up to three ballots under one fresh holder. Then it is granted, or abandoned: released on every node that may
 * have accepted it, and never granted later.
 */
export class Attempt {
  /** A new one for each attempt, and for a ballot below one that was sent. */
  holder: string;
  readonly #nodes: NodeSet;
  readonly #listener: AttemptListener;
  readonly #names: LockNames;
  readonly #settings: ResolvedAcquire;
  readonly #deadlineMs: number;
  /** The nodes that accepted any ballot of this holder, or may have, as bits. */
  #mayHold = 0;
  #ballots = 0;
  round: VoteRound | undefined;
  #isCancelled = false;

  /** @param deadlineMs no ballot is waited for after that */
  constructor(nodes: NodeSet, listener: AttemptListener, call: LockCall, deadlineMs: number) {
    this.#nodes = nodes;
    this.#listener = listener;
    this.#names = new NodeNames(nodes.options.keyPrefix, call.keys);
    this.#settings = call.settings;
    this.#deadlineMs = deadlineMs;
    this.holder = nodes.environment.random.holder(nodes.mark);
  }

  cancel(): void {
    this.#isCancelled = true;
    this.round?.cancel();
  }

  /** Asks all nodes for their votes, and again where they ask for a higher ballot. */
  run(nowMs: number, ballot: number): void {
    this.#ballots += 1;
    const { ttlMs, nodeTimeoutMs } = this.#settings;
    const names = this.#names;
    const vote = { kind: 'acquire', names, holder: this.holder, ballot, ttlMs } as const;
    this.round = new VoteRound(this.#nodes, vote, this);
    // The deadline is a whole millisecond, so that rounds of one moment share a timer.
    this.round.start(Math.min(nodeTimeoutMs, Math.ceil(this.#deadlineMs - nowMs)), nowMs);
  }

  ended(round: VoteRound): void {
    const { votes, vote, startedAtMs, endedAtMs } = round;
    const { ballot, ttlMs } = vote;
    const listener = this.#listener;
    this.#mayHold |= votes.mayHaveWritten;
    const { quorum, options } = this.#nodes;
    // A round that was lost counts as well: a caller that always loses would never learn how long one takes.
    if (votes.voted >= votes.quorum && round.isDecided)
      quorum.measured(startedAtMs, endedAtMs, ttlMs);
    const decision = votes.decideBallot(0);
    const validUntilMs = validityEndMs(startedAtMs, ttlMs, options.driftFactor);
    const isInTime = validUntilMs - endedAtMs >= ttlMs * MINIMUM_VALIDITY;
    if (decision === 'won' && isInTime && !this.#isCancelled) {
      const times = { startedAtMs, roundTripMs: endedAtMs - startedAtMs, validUntilMs };
      const won = { holder: this.holder, ballot, mayHold: this.#mayHold };
      const granted = { kind: 'granted', ...won, ...times } as const;
      void microtask.then(listener.ended.bind(listener, granted));
      return;
    }
    listener.sawFloor(votes.highestFloor);
    // The number of a call that replaces holders says how new it is.
    const mostBallots = this.#settings.replaces ? 1 : MAX_BALLOTS;
    const mayPropose =
      this.#ballots < mostBallots && endedAtMs < this.#deadlineMs && !this.#isCancelled;
    if (decision === 'reballot' && mayPropose) {
      const next = votes.nextBallot(ballot);
      if (next < ballot) this.#startOver();
      listener.sawFloor(next);
      listener.sawVotes(votes, endedAtMs);
      this.run(endedAtMs, next);
      return;
    }
    const finding = this.#findingOf(round);
    if (finding === 'contention') listener.refused(endedAtMs);
    // Where a quorum named a holder, the release of that holder names the next one.
    const isAnswered = votes.voted >= votes.quorum || this.#isCancelled;
    this.#abandon(isAnswered && votes.namedHolder === undefined);
    const { timeoutMs } = round;
    const causes = () => round.causes(decision === 'won');
    const failed = { kind: 'failed', finding, votes, endedAtMs, timeoutMs, causes } as const;
    // The next caller would be refused at once as well, and the one after it, before an answer is read that says otherwise.
    if (votes.isRefused) this.#nodes.environment.afterPoll(() => listener.ended(failed));
    else void microtask.then(() => listener.ended(failed));
  }

  #findingOf({ votes, timeoutMs }: VoteRound): Finding {
    if (this.#isCancelled || votes.yes >= votes.quorum || votes.isWrongClock) return 'nothing';
    if (votes.isContention) return 'contention';
    return timeoutMs >= this.#settings.nodeTimeoutMs || votes.isRefused ? 'outage' : 'nothing';
  }

  /**
   * A node found our ballot to be too far ahead, so the next one is lower, and has a holder of its own. Under one holder, the
   * higher ballot could be executed late: the node would hold it above the granted token, and an extension there prove nothing.
   */
  #startOver(): void {
    this.#abandon(false);
    this.#mayHold = 0;
    this.holder = this.#nodes.environment.random.holder(this.#nodes.mark);
  }

  #abandon(pass: boolean): void {
    const request = { names: this.#names, holder: this.holder, granted: false, pass };
    const untilMs = this.#nodes.clock.nowMs + this.#settings.ttlMs;
    this.#nodes.release(this.#mayHold, request, untilMs);
  }
}
