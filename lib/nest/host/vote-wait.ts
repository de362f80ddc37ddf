import type { Logger } from '@nestjs/common';
import { inSeconds } from '../../core/options/duration.ts';
import type { Redlock } from '../../core/redlock.ts';

/** So often is looked whether the wait is over: a blocked event loop costs one of them. */
const SLICES = 10;

/** Whose guard it is where the own one is off. */
const OF_ANOTHER = 'restart guard of another application with the same keyPrefix: here it is off';

/**
 * Waits, after a quorum has joined, until one may vote, as far as that takes no longer than `timeoutMs`; the log says why.
 * Where a node restarts meanwhile, and has to wait again, it goes on for another `timeoutMs` at most.
 *
 * @returns whether a quorum is there: false when the nodes left meanwhile and did not come back, or the service closes
 */
export async function waitUntilQuorumVotes(
  redlock: Redlock,
  timeoutMs: number,
  logger: Pick<Logger, 'log' | 'warn'>,
): Promise<boolean> {
  const { restartGuardMs } = redlock.options;
  const { votesInMs } = redlock;
  if (votesInMs <= 0) return true;
  const isBack = Number.isFinite(votesInMs);
  // Another process may have asked for a longer guard.
  const guardMs = isBack ? Math.max(votesInMs, restartGuardMs) : restartGuardMs;
  if (isBack && guardMs > timeoutMs) {
    logger.warn(
      `A quorum may vote in ${inSeconds(votesInMs)}, not before: the servers are new or were restarted (${restartGuardMs > 0 ? "restart guard, 'maxTtl'" : OF_ANOTHER}). That can take longer than 'startupTimeout' (${inSeconds(timeoutMs)}), so the application starts now, and calls wait for it within their 'wait'. With a 'startupTimeout' of ${inSeconds(guardMs)} the start waits.`,
    );
    return true;
  }
  logger.log(
    isBack
      ? `Waiting ${inSeconds(votesInMs)} until a quorum may vote: the servers are new or were restarted, and could give away a lock that they forgot (${restartGuardMs > 0 ? 'restart guard' : OF_ANOTHER}). In development waitForVotes: false starts at once, but the first lock waits all the same; ${restartGuardMs > 0 ? 'restartGuard: false' : 'restartGuard: false there'} ends the wait for servers that lose nothing, or one single server.`
      : 'Waiting until a quorum may vote: too many nodes left while the application started.',
  );
  if (await votes(redlock, 2 * timeoutMs)) return true;
  const leftMs = redlock.votesInMs;
  if (!Number.isFinite(leftMs) || redlock.isClosing) return false;
  logger.warn(
    `A quorum may vote in ${inSeconds(leftMs)}, not before: servers restarted while the application started. It goes on now, and calls wait for the quorum within their 'wait'.`,
  );
  return true;
}

async function votes(redlock: Redlock, limitMs: number): Promise<boolean> {
  for (let slice = 0; slice < SLICES && !redlock.isClosing; slice += 1)
    if (await redlock.mayVote(limitMs / SLICES)) return true;
  return false;
}
