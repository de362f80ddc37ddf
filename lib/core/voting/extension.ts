import type { NodeCause } from '../errors.ts';
import { lockNames } from '../nodes/node-names.ts';
import type { ExtendReply } from '../nodes/lock-node.ts';
import type { Quorum } from '../nodes/node-set.ts';
import { validUntilMs } from '../validity.ts';
import { VoteRound } from './vote-round.ts';

/** What to extend. */
export interface ExtensionTarget {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly ballot: number;
  readonly ttlMs: number;
  readonly nodeTimeoutMs: number;
  /** The extension was sent to these nodes, as bits: they may hold the lock from now on. */
  asked(nodes: number): void;
}

/**
 * - `extended`: a quorum agreed; valid until `validUntilMs` if that instant has not passed.
 * - `taken`: so many nodes no longer hold it for us that no quorum is possible.
 * - `unknown`: neither.
 */
export type ExtensionOutcome = {
  readonly kind: 'extended' | 'taken' | 'unknown';
  readonly validUntilMs: number;
  /** The shortest quarantine a node reported: then it can have its key again. */
  readonly quarantineMs: number | undefined;
  readonly causes: () => NodeCause[];
};

/** A question that can be ended early; its late answers then count for nothing, and it is not asked again. */
export interface OpenExtension {
  cancel(): void;
}

/** Asks all nodes once to extend the lock; in `open` as long as answers count. Never rejects. */
export function extendOnce(
  quorum: Quorum,
  target: ExtensionTarget,
  open: Set<OpenExtension>,
): Promise<ExtensionOutcome> {
  const { keys, holder, ballot, ttlMs } = target;
  const request = { names: lockNames(quorum.options.keyPrefix, keys), holder, ballot, ttlMs };
  return new Promise((resolve) => {
    const round = new VoteRound<ExtendReply>(
      quorum,
      { kind: 'extend', request },
      (replies, expected) => expected === 0 || verdict(replies, quorum.votesNeeded) !== 'unknown',
      () => {
        open.delete(round);
        resolve(outcomeOf(quorum, round, ttlMs));
      },
    );
    open.add(round);
    round.start(target.nodeTimeoutMs);
    target.asked(round.mayHaveWritten);
  });
}

function outcomeOf(quorum: Quorum, round: VoteRound<ExtendReply>, ttlMs: number): ExtensionOutcome {
  const kind = verdict(round.replies, quorum.votesNeeded);
  if (kind === 'extended') {
    quorum.measured(round.endedAtMs - round.startedAtMs, ttlMs, round.endedAtMs);
  }
  return {
    kind,
    validUntilMs: validUntilMs(round.startedAtMs, ttlMs, quorum.options.driftFactor),
    quarantineMs: shortestQuarantineMs(round.replies),
    causes: () => round.causes(),
  };
}

function verdict(
  replies: readonly (ExtendReply | undefined)[],
  votesNeeded: number,
): 'extended' | 'taken' | 'unknown' {
  let extended = 0;
  let lost = 0;
  for (const reply of replies) {
    if (reply?.kind === 'extended') extended += 1;
    else if (reply?.kind === 'lost') lost += 1;
  }
  if (extended >= votesNeeded) return 'extended';
  return lost > replies.length - votesNeeded ? 'taken' : 'unknown';
}

function shortestQuarantineMs(replies: readonly (ExtendReply | undefined)[]): number | undefined {
  let shortest: number | undefined;
  for (const reply of replies) {
    if (reply?.kind === 'quarantined')
      shortest = Math.min(shortest ?? reply.remainingMs, reply.remainingMs);
  }
  return shortest;
}
