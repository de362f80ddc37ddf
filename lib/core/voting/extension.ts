import type { NodeCause } from '../errors.ts';
import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { ResolvedAcquire } from '../options/resolve-options.ts';
import type { ExtensionDecision } from './vote-count.ts';
import { validUntilMs, VoteRound } from './vote-round.ts';

/** Lock to extend. */
export interface ExtensionTarget {
  readonly keys: readonly string[];
  readonly holder: string;
  readonly ballot: number;
  readonly settings: Pick<ResolvedAcquire, 'ttlMs' | 'nodeTimeoutMs'>;
  /** The extension was sent to these nodes, as bits: they may hold the lock from now on. */
  asked(nodes: number): void;
}

export interface ExtensionOutcome {
  readonly decision: ExtensionDecision;
  /** The lock is valid until then when a quorum agreed and that instant has not passed. */
  readonly validUntilMs: number;
  /** The shortest quarantine that a node reported: then it can have its key again. Infinite when none did. */
  readonly quarantineMs: number;
  readonly causes: () => NodeCause[];
}

/** Asks all nodes once to extend the lock; its round is in `open` as long as answers count. Never rejects. */
export function extendOnce(
  set: NodeSet,
  target: ExtensionTarget,
  open: Set<VoteRound>,
): Promise<ExtensionOutcome> {
  const { keys, holder, ballot, settings } = target;
  const { ttlMs, nodeTimeoutMs } = settings;
  const names = new NodeNames(set.options.keyPrefix, keys, set.marker);
  return new Promise((resolve) => {
    const round = new VoteRound(
      set,
      { kind: 'extend', names, holder, ballot, ttlMs },
      {
        ended: () => {
          open.delete(round);
          resolve(outcomeOf(set, round, ttlMs));
        },
      },
    );
    open.add(round);
    round.start(nodeTimeoutMs, set.nowMs);
    target.asked(round.votes.mayHaveWritten);
  });
}

function outcomeOf(set: NodeSet, round: VoteRound, ttlMs: number): ExtensionOutcome {
  const { votes } = round;
  const decision = votes.decideExtension();
  if (decision === 'extended')
    set.measured(round.endedAtMs - round.startedAtMs, ttlMs, round.endedAtMs);
  return {
    decision,
    validUntilMs: validUntilMs(round.startedAtMs, ttlMs, set.options.driftFactor),
    quarantineMs: votes.shortestQuarantineMs,
    causes: () => round.causes(),
  };
}
