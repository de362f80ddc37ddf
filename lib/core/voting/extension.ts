import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Granted, LockCall } from './attempt.ts';
import { VoteRound } from './vote-round.ts';

/** Lock to extend. */
export interface ExtensionTarget {
  readonly call: LockCall;
  readonly grant: Granted;
  /** The extension was sent to these nodes, as bits: they may hold the lock from now on. */
  asked(nodes: number): void;
}

/** Asks all nodes once to extend the lock; its round is in `open` as long as answers count. Never rejects. */
export function extendOnce(
  set: NodeSet,
  target: ExtensionTarget,
  open: Set<VoteRound>,
): Promise<VoteRound> {
  const { keys, settings } = target.call;
  const { holder, ballot } = target.grant;
  const { ttlMs, nodeTimeoutMs } = settings;
  const names = new NodeNames(set.options.keyPrefix, keys);
  return new Promise((resolve) => {
    const ended = (round: VoteRound): void => {
      open.delete(round);
      if (round.votes.decideExtension() === 'extended')
        set.quorum.measured(round.endedAtMs - round.startedAtMs, ttlMs, round.endedAtMs);
      resolve(round);
    };
    const round = new VoteRound(set, { kind: 'extend', names, holder, ballot, ttlMs }, { ended });
    open.add(round);
    round.start(nodeTimeoutMs, set.clock.nowMs);
    target.asked(round.votes.mayHaveWritten);
  });
}
