import type { NodeCause } from './errors.ts';
import { lockNames } from './lock-names.ts';
import type { AcquireReply, LockNames } from './lock-node.ts';
import type { Quorum } from './quorum.ts';
import { decideBallot, nextBallot } from './tally.ts';
import type { BallotDecision } from './tally.ts';
import { minimumValidityMs, validUntilMs } from './validity.ts';
import { VoteRound } from './vote-round.ts';

const MAX_BALLOTS = 3;

/** What an attempt ended with. */
export type AttemptOutcome =
  | {
      readonly kind: 'granted';
      readonly nonce: string;
      readonly ballot: number;
      /** Nodes that accepted it, or may have, as bits: only they have to be released. */
      readonly mayHold: number;
      readonly startedAtMs: number;
      readonly validUntilMs: number;
    }
  | {
      readonly kind: 'failed';
      readonly replies: readonly (AcquireReply | undefined)[];
      readonly tooSlow: boolean;
      readonly causes: () => NodeCause[];
    };

/**
 * One try for a lock: up to three ballots under one fresh nonce, then granted or abandoned. An abandoned attempt is
 * released on every node that may have accepted it, and can never be granted later.
 */
export class Attempt {
  readonly nonce: string;
  readonly #quorum: Quorum;
  readonly #keys: readonly string[];
  readonly #names: LockNames;
  readonly #ttlMs: number;
  /** Nodes that accepted any ballot of ours, or may have, as bits. */
  #mayHold = 0;
  #round: VoteRound<AcquireReply> | undefined;
  #cancelled = false;

  constructor(quorum: Quorum, keys: readonly string[], ttlMs: number) {
    this.#quorum = quorum;
    this.#keys = keys;
    this.#names = lockNames(quorum.options.keyPrefix, keys);
    this.#ttlMs = ttlMs;
    this.nonce = quorum.environment.random.nonce();
  }

  /** `timeoutMs`: how long a node may take to answer one ballot. Never rejects. */
  async run(timeoutMs: number): Promise<AttemptOutcome> {
    let ballot = this.#quorum.proposals.next(this.#keys);
    for (let count = 1; ; count += 1) {
      const round = this.#startRound(ballot);
      await round.run(timeoutMs);
      this.#note(round);
      const decision = decide(round.replies, 0, this.#quorum.votesNeeded);
      const validUntil = validUntilMs(
        round.startedAtMs,
        this.#ttlMs,
        this.#quorum.options.driftFactor,
      );
      const inTime = validUntil - this.#quorum.nowMs >= minimumValidityMs(this.#ttlMs);
      if (decision === 'won' && !this.#cancelled && inTime) {
        this.#quorum.measured(round.endedAtMs - round.startedAtMs, this.#ttlMs);
        return {
          kind: 'granted',
          nonce: this.nonce,
          ballot,
          mayHold: this.#mayHold,
          startedAtMs: round.startedAtMs,
          validUntilMs: validUntil,
        };
      }
      if (decision !== 'reballot' || count === MAX_BALLOTS || this.#cancelled) {
        this.#abandon(round.replies);
        const tooSlow = decision === 'won' && !inTime;
        return {
          kind: 'failed',
          replies: round.replies,
          tooSlow,
          causes: () => round.causes(tooSlow),
        };
      }
      ballot = nextBallot(ballot, round.replies);
    }
  }

  /** Ends it as soon as possible; it will not be granted. */
  cancel(): void {
    this.#cancelled = true;
    this.#round?.cancel();
  }

  #startRound(ballot: number): VoteRound<AcquireReply> {
    const request = { names: this.#names, nonce: this.nonce, ballot, ttlMs: this.#ttlMs };
    const { votesNeeded } = this.#quorum;
    this.#round = new VoteRound<AcquireReply>(
      this.#quorum,
      { kind: 'acquire', request },
      (replies, expected) => decide(replies, expected, votesNeeded) !== 'open',
    );
    return this.#round;
  }

  #note(round: VoteRound<AcquireReply>): void {
    this.#mayHold |= round.mayHaveWritten;
    for (let index = 0; index < round.replies.length; index += 1) {
      const reply = round.replies[index];
      if (reply?.kind === 'held') this.#quorum.proposals.heard(this.#keys, reply.fence);
      else if (reply?.kind === 'stale') this.#quorum.proposals.heard(this.#keys, reply.floor);
    }
  }

  #abandon(replies: readonly (AcquireReply | undefined)[]): void {
    let mayCount = 0;
    for (let index = 0; index < replies.length; index += 1) {
      const reply = replies[index];
      if (reply === undefined || reply.kind === 'accepted') mayCount += 1;
    }
    // Losers wake nobody, unless others may have taken us for a holder.
    const notify = mayCount >= this.#quorum.votesNeeded;
    const request = { names: this.#names, nonce: this.nonce, granted: false, notify };
    for (const session of this.#quorum.sessions) {
      if ((this.#mayHold & (1 << session.index)) !== 0)
        session.release(request, this.#ttlMs, () => undefined);
    }
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
