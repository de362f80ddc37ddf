import type { Logger } from '@nestjs/common';
import { RedlockConfigError } from '../../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';
import type { Redlock } from '../../core/redlock.ts';
import { checkNodes, formatStartupReport } from '../../redis/preflight/startup-checks.ts';

/** How long nodes that are late may still answer once a quorum has joined; a dead one delays the start by this much. */
const LATE_NODE_MS = 1_000;
const ASK_AGAIN_MS = 50;

interface Startup {
  /** Already opened. */
  readonly redlock: Redlock;
  readonly nodes: readonly LockNode[];
  /** Whether every node must be there. */
  readonly strict: boolean | undefined;
  /** How long a quorum may take to join. */
  readonly timeoutMs: number;
  readonly logger: Pick<Logger, 'log' | 'warn'>;
}

/**
 * Waits until a quorum of nodes has joined, examines all of them, and logs one report of what is risky. Always settles:
 * after the timeout plus a second at the latest.
 *
 * @throws RedlockConfigError with the whole report when the nodes are unsafe, or no quorum of them is there
 */
export async function startRedlock({
  redlock,
  nodes,
  strict,
  timeoutMs,
  logger,
}: Startup): Promise<void> {
  const { quorum, keyPrefix, restartGuardMs } = redlock.options;
  const startedMs = performance.now();
  const isReady = await readyWithin(redlock, timeoutMs);
  const leftMs = timeoutMs - (performance.now() - startedMs);
  const lateMs = strict === true ? Math.max(leftMs, LATE_NODE_MS) : LATE_NODE_MS;
  const examined = await Promise.all(
    nodes.map(async (node) => ({
      address: node.address,
      ignoredKeyPrefix: (node as { readonly ignoredKeyPrefix?: string }).ignoredKeyPrefix,
      reply: await examineNode(node, lateMs),
    })),
  );
  const findings = checkNodes(examined, {
    quorum,
    keyPrefix,
    restartGuard: restartGuardMs > 0,
    strict,
  });
  const report = formatStartupReport(findings);
  if (findings.some(({ severity }) => severity === 'error')) throw refused(nodes, report);
  if (!isReady) {
    throw refused(
      nodes,
      `no quorum joined within ${timeoutMs} ms (${quorum} of ${nodes.length} are needed)\n${report}`,
    );
  }
  if (report !== '') logger.warn(report);
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}, quorum ${quorum}.`,
  );
}

function refused(nodes: readonly LockNode[], report: string): RedlockConfigError {
  return new RedlockConfigError(
    'nodes',
    nodes.map(({ address }) => address).join(', '),
    report.trimEnd(),
  );
}

/** The algorithm's timers let a process end; this one keeps it until the start is decided. */
async function readyWithin(redlock: Redlock, timeoutMs: number): Promise<boolean> {
  const keepAlive = setTimeout(() => undefined, timeoutMs + LATE_NODE_MS);
  try {
    return await redlock.ready(timeoutMs);
  } finally {
    clearTimeout(keepAlive);
  }
}

/** Asks a node for the facts of the start-up checks until it gives them or `timeoutMs` are over; never rejects. */
export function examineNode(node: LockNode, timeoutMs: number): Promise<NodeFacts | NodeFailure> {
  return new Promise((resolve) => {
    let failure = silent(timeoutMs);
    let askAgain: NodeJS.Timeout | undefined;
    let isOver = false;
    const finish = (reply: NodeFacts | NodeFailure) => {
      isOver = true;
      clearTimeout(deadline);
      clearTimeout(askAgain);
      resolve(reply);
    };
    const deadline = setTimeout(() => finish(failure), timeoutMs);
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

function silent(timeoutMs: number): NodeFailure {
  return {
    kind: 'failed',
    nothingWritten: true,
    reason: 'unreachable',
    message: `no answer within ${Math.round(timeoutMs)} ms`,
  };
}
