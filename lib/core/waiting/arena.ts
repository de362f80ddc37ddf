import type { Environment } from '../environment.ts';
import { FairShare } from './fair-share.ts';
import { HeldLocks } from '../holding/held-locks.ts';
import { HintBoard } from './release-hints.ts';
import type { NodeSession } from '../nodes/node-session.ts';
import { Quorum } from '../nodes/node-set.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { WaitQueue } from './wait-queue.ts';

/** What all contenders of one service share. */
export interface Arena {
  readonly quorum: Quorum;
  readonly held: HeldLocks;
  readonly queue: WaitQueue;
  readonly hints: HintBoard;
  readonly share: FairShare;
}

/** `onReleased` is called whenever a lock of this service was released or lost. */
export function createArena(
  sessions: readonly NodeSession[],
  options: ResolvedOptions,
  environment: Environment,
  onReleased: () => void,
): Arena {
  const { keyPrefix } = options;
  const hints = new HintBoard(sessions, environment);
  const share = new FairShare();
  const held = new HeldLocks({
    released: (key, holder) => {
      hints.hint(keyPrefix + key, holder);
      onReleased();
    },
    // One of the listeners may be our own subscription.
    heard: (key, listeners) =>
      share.released(key, listeners - (hints.hears([key], keyPrefix) ? 1 : 0)),
  });
  const quorum = new Quorum(sessions, options, environment);
  return { quorum, held, queue: new WaitQueue(), hints, share };
}
