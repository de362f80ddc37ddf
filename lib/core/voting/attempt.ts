import type { NodeCause } from '../errors.ts';
import { lockNames } from '../nodes/node-names.ts';
import type { AcquireReply, LockNames } from '../nodes/lock-node.ts';
import type { Quorum } from '../nodes/node-set.ts';
import { decideBallot, nextBallot } from './vote-count.ts';
import type { BallotDecision } from './vote-count.ts';
import { minimumValidityMs, validUntilMs } from '../validity.ts';
import { VoteRound } from './vote-round.ts';

const MAX_BALLOTS = 3;

/** What an attempt ended with. */
export type AttemptOutcome = Granted | FailedAttempt;

export interface Granted {
  readonly kind: 'granted';
  readonly holder: string;
  readonly ballot: number;
  /** Nodes that accepted it, or may have, as bits: only they have to be released. */
  readonly mayHold: number;
  /** Monotonic, from before the winning ballot. */
  readonly startedAtMs: number;
  readonly validUntilMs: number;
}

export interface FailedAttempt {
  readonly kind: 'failed';
  readonly replies: readonly (AcquireReply | undefined)[];
  /** How many nodes had time left to answer when the others decided. */
  readonly pending: number;
  /** Won, but too little validity was left. */
  readonly tooSlow: boolean;
  readonly causes: () => NodeCause[];
}

/**
 * One try for a lock: up to three ballots under one fresh holder, then granted or abandoned. An abandoned attempt is
 * released on every node that may have accepted it, and can never be granted later.
 */
export class Attempt {
  /** Fresh per attempt, and for a ballot below one that was sent. */
  holder: string;
  readonly #quorum: Quorum;
  readonly #keys: readonly string[];
  readonly #names: LockNames;
  readonly #ttlMs: number;
  readonly #timeoutMs: number;
  readonly #untilMs: number;
  /** Nodes that accepted any ballot of ours, or may have, as bits. */
  #mayHold = 0;
  #ballots = 0;
  #round: VoteRound<AcquireReply> | undefined;
  #cancelled = false;
  #resolve: ((outcome: AttemptOutcome) => void) | undefined;

  /** `timeoutMs`: how long a node may take to answer one ballot; further ballots are not waited for after `untilMs`. */
  constructor(
    quorum: Quorum,
    keys: readonly string[],
    ttlMs: number,
    timeoutMs: number,
    untilMs: number,
  ) {
    this.#quorum = quorum;
    this.#keys = keys;
    this.#names = lockNames(quorum.options.keyPrefix, keys);
    this.#ttlMs = ttlMs;
    this.#timeoutMs = timeoutMs;
    this.#untilMs = untilMs;
    this.holder = quorum.environment.random.holder();
  }

  /** Never rejects. */
  run(): Promise<AttemptOutcome> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#propose(this.#quorum.proposals.next(this.#keys), this.#timeoutMs);
    });
  }

  /** Ends it as soon as possible; it will not be granted. */
  cancel(): void {
    this.#cancelled = true;
    this.#round?.cancel();
  }

  #propose(ballot: number, timeoutMs: number): void {
    this.#ballots += 1;
    const { votesNeeded } = this.#quorum;
    const request = { names: this.#names, holder: this.holder, ballot, ttlMs: this.#ttlMs };
    const round = new VoteRound<AcquireReply>(
      this.#quorum,
      { kind: 'acquire', request },
      (replies, expected) => decide(replies, expected, votesNeeded) !== 'open',
      () => this.#decided(ballot, round),
    );
    this.#round = round;
    round.start(timeoutMs);
  }

  #decided(ballot: number, round: VoteRound<AcquireReply>): void {
    this.#mayHold |= round.mayHaveWritten;
    const decision = decide(round.replies, 0, this.#quorum.votesNeeded);
    const validUntil = validUntilMs(
      round.startedAtMs,
      this.#ttlMs,
      this.#quorum.options.driftFactor,
    );
    const inTime = validUntil - round.endedAtMs >= minimumValidityMs(this.#ttlMs);
    if (decision === 'won' && inTime && !this.#cancelled) {
      this.#quorum.measured(round.endedAtMs - round.startedAtMs, this.#ttlMs, round.endedAtMs);
      this.#resolve?.({
        kind: 'granted',
        holder: this.holder,
        ballot,
        mayHold: this.#mayHold,
        startedAtMs: round.startedAtMs,
        validUntilMs: validUntil,
      });
      return;
    }
    this.#heard(round.replies);
    if (decision === 'reballot' && this.#ballots < MAX_BALLOTS && !this.#cancelled) {
      const next = nextBallot(ballot, round.replies);
      if (next < ballot) this.#startOver();
      this.#quorum.proposals.heard(this.#keys, next);
      // In whole milliseconds: rounds of one timeout share a timer.
      const remainingMs = Math.floor(this.#untilMs - round.endedAtMs);
      this.#propose(next, Math.min(this.#timeoutMs, remainingMs));
      return;
    }
    this.#abandon();
    const tooSlow = decision === 'won';
    this.#resolve?.({
      kind: 'failed',
      replies: round.replies,
      pending: round.pending,
      tooSlow,
      causes: () => round.causes(tooSlow),
    });
  }

  /**
   * A node found our ballot to be too far ahead. One holder never has a lower ballot after a higher one: were the higher one
   * executed late, the node would hold a ballot of ours above the token that was granted, and an extension there proved nothing.
   */
  #startOver(): void {
    this.#abandon();
    this.#mayHold = 0;
    this.holder = this.#quorum.environment.random.holder();
  }

  #heard(replies: readonly (AcquireReply | undefined)[]): void {
    for (const reply of replies) {
      if (reply?.kind === 'held') this.#quorum.proposals.heard(this.#keys, reply.floor);
      else if (reply?.kind === 'stale') this.#quorum.proposals.heard(this.#keys, reply.floor);
    }
  }

  #abandon(): void {
    const { sessions, votesNeeded } = this.#quorum;
    const holders = sessions.filter(({ index }) => (this.#mayHold & (1 << index)) !== 0);
    // Losers wake nobody, unless others may have taken us for a holder.
    const notify = holders.length >= votesNeeded;
    const request = { names: this.#names, holder: this.holder, granted: false, notify };
    for (const session of holders) session.release(request, this.#ttlMs, () => undefined);
  }
}

function decide(
  replies: readonly (AcquireReply | undefined)[],
  expected: number,
  votesNeeded: number,
): BallotDecision {
  let accepted = 0;
  let wrongNumber = 0;
  for (let index = 0; index < replies.length; index += 1) {
    const kind = replies[index]?.kind;
    if (kind === 'accepted') accepted += 1;
    else if (kind === 'stale' || kind === 'ahead') wrongNumber += 1;
  }
  return decideBallot({ accepted, wrongNumber, expected }, votesNeeded);
}
