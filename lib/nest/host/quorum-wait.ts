import type { Logger } from '@nestjs/common';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { inSeconds } from '../../core/options/duration.ts';
import type { Redlock } from '../../core/redlock.ts';
import { startupOutage } from './startup-outage.ts';

/** How long nodes that are late may still answer once a quorum is there; a dead one delays the start by this much. */
export const LATE_NODE_MS = 1_000;
/** A wait without a quorum is news after this time: a hook of a test ends, and prints nothing, before the start is refused. */
const NEWS_MS = 2_000;
/** The time for an answer is counted in so many beats: a blocked event loop costs one of them. */
export const BEATS = 10;

/**
 * Waits until a quorum of nodes has joined, no longer than `timeoutMs`. One error in the log says what is wrong where that takes
 * long, because a test runner shows no other line, and may not wait for the end.
 *
 * @returns whether it has joined
 */
export async function waitUntilQuorumJoined(
  redlock: Redlock,
  nodes: readonly LockNode[],
  { needed, timeoutMs }: { readonly needed: number; readonly timeoutMs: number },
  logger: Pick<Logger, 'error'>,
): Promise<boolean> {
  if (timeoutMs <= NEWS_MS) return joins(redlock, timeoutMs);
  if (await joins(redlock, NEWS_MS)) return true;
  if (redlock.isClosing) return false;
  const causes = nodes.flatMap((node) => {
    const message = problemOf(redlock, node);
    const { address } = node;
    return message === undefined
      ? []
      : [{ address, reason: 'unreachable', message, elapsedMs: NEWS_MS } as const];
  });
  const leftMs = timeoutMs - NEWS_MS;
  const next = `The start waits ${inSeconds(leftMs)} more for them, and is then refused. A test that should need no Redis replaces the nodes: .overrideProvider(REDLOCK_NODES).useValue(createMemoryNodes(3)), with createMemoryNodes of nestjs-fenced-lock/testing.`;
  const { quorum } = redlock.options;
  const outage = { waitedMs: NEWS_MS, needed, quorum, nodeCount: nodes.length, causes };
  logger.error(startupOutage(outage, next).message);
  return joins(redlock, leftMs);
}

/** A node without a connection says at once what it waits for; else why it has not joined. */
function problemOf(redlock: Redlock, node: LockNode): string | undefined {
  let problem = redlock.problemOf(node);
  if (problem !== undefined)
    node.examine((reply) => {
      if (reply.kind === 'failed') problem = reply.message;
    });
  return problem;
}

async function joins(redlock: Redlock, limitMs: number): Promise<boolean> {
  for (let beat = 0; beat < BEATS; beat += 1)
    if (await redlock.joined(limitMs / BEATS)) return true;
  return false;
}
