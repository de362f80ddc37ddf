import type { Logger } from '@nestjs/common';
import { RedlockConfigError } from '../../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';
import type { Redlock } from '../../core/redlock.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import { checkNodes, formatStartupReport } from '../../redis/preflight/startup-checks.ts';

/** How long nodes that are late may still answer once a quorum has joined; a dead one delays the start by this much. */
const LATE_NODE_MS = 1_000;
const ASK_AGAIN_MS = 50;
/** The time for an answer is counted in so many beats. */
const BEATS = 10;

/**
 * Waits until a quorum of nodes has joined, examines all of them, and logs one report of what is risky. Always settles:
 * after the timeout plus a second in which this process reads.
 *
 * @param redlock already opened
 * @param strict whether every node must be there
 * @param timeoutMs how long a quorum may take to join
 * @throws RedlockConfigError with the whole report when the nodes are unsafe, or no quorum of them is there
 */
export async function startRedlock(
  redlock: Redlock,
  nodes: readonly LockNode[],
  strict: boolean | undefined,
  timeoutMs: number,
  logger: Pick<Logger, 'log' | 'warn'>,
): Promise<void> {
  const { quorum, keyPrefix, restartGuardMs } = redlock.options;
  const startedMs = performance.now();
  const hasJoined = await redlock.joined(timeoutMs);
  const leftMs = timeoutMs - (performance.now() - startedMs);
  const lateMs = strict === true ? Math.max(leftMs, LATE_NODE_MS) : LATE_NODE_MS;
  const examined = await Promise.all(
    nodes.map(async (node) => ({
      address: node.address,
      ignoredKeyPrefix: (node as { readonly ignoredKeyPrefix?: string }).ignoredKeyPrefix,
      reply: await examineNode(node, lateMs),
    })),
  );
  const restartGuard = restartGuardMs > 0;
  const findings = checkNodes(examined, { quorum, keyPrefix, restartGuard, strict });
  const report = formatStartupReport(findings);
  const isUnsafe = findings.some(({ severity }) => severity === 'error');
  if (isUnsafe || !hasJoined) {
    const missing = `no quorum joined within ${timeoutMs} ms (${quorum} of ${nodes.length} are needed)`;
    const addresses = nodes.map(({ address }) => address).join(', ');
    const fix = isUnsafe ? report : `${missing}\n${report}`;
    throw new RedlockConfigError('nodes', addresses, fix.trimEnd());
  }
  if (report !== '') logger.warn(report);
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}, quorum ${quorum}.`,
  );
}

/** Asks a node for the facts of the start-up checks until it gives them, or this process has read for `timeoutMs`; never rejects. */
export function examineNode(node: LockNode, timeoutMs: number): Promise<NodeFacts | NodeFailure> {
  return new Promise((resolve) => {
    let failure: NodeFailure = {
      kind: 'failed',
      nothingWritten: true,
      reason: 'unreachable',
      message: `no answer within ${Math.round(timeoutMs)} ms`,
    };
    let askAgain: NodeJS.Timeout | undefined;
    let isOver = false;
    const finish = (reply: NodeFacts | NodeFailure) => {
      if (isOver) return;
      isOver = true;
      clearInterval(deadline);
      clearTimeout(askAgain);
      resolve(reply);
    };
    // A late beat counts once, because this process did not read its sockets; what has arrived is there after the next poll.
    let beats = 0;
    const beat = () => {
      beats += 1;
      if (beats === BEATS) systemEnvironment.afterPoll(() => finish(failure));
    };
    const deadline = setInterval(beat, timeoutMs / BEATS);
    const ask = () =>
      node.examine((reply) => {
        if (isOver) return;
        if (reply.kind === 'facts') return finish(reply);
        failure = reply;
        askAgain = setTimeout(ask, ASK_AGAIN_MS);
      });
    ask();
  });
}
