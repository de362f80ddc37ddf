import type { Logger } from '@nestjs/common';
import { RedlockConfigError } from '../../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';
import type { Redlock } from '../../core/redlock.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import type { FenceFinding } from '../../fencing/fence.ts';
import type { ModuleFence } from '../redlock-module-options.ts';
import { checkNodes, formatStartupReport } from '../../redis/preflight/startup-checks.ts';

/** How long nodes that are late may still answer once a quorum was examined; a dead one delays the start by this much. */
const LATE_NODE_MS = 1_000;
const ASK_AGAIN_MS = 50;
/** The time for an answer is counted in so many beats. */
const BEATS = 10;

/**
 * Waits until a quorum of nodes has joined, examines all of them, and logs one report of what is risky. Always settles:
 * after the timeout plus two seconds in which this process reads.
 *
 * @param redlock already opened
 * @param strict whether every node must be there
 * @param timeoutMs how long a quorum may take to join and to be examined
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
  const leftMs = Math.max(timeoutMs - (performance.now() - startedMs), LATE_NODE_MS);
  let awaited = strict === true ? nodes.length : quorum;
  let hurry = () => {};
  const enough = new Promise<void>((resolve) => (hurry = resolve));
  const examined = await Promise.all(
    nodes.map(async (node) => {
      const { ignoredKeyPrefix } = node as { readonly ignoredKeyPrefix?: string };
      const reply = await examineNode(node, leftMs, enough);
      if (reply.kind === 'facts' && (awaited -= 1) === 0) hurry();
      return { address: node.address, ignoredKeyPrefix, reply };
    }),
  );
  const restartGuard = restartGuardMs > 0;
  const findings = checkNodes(examined, { quorum, keyPrefix, restartGuard, strict });
  const report = formatStartupReport(findings);
  const isUnsafe = findings.some(({ severity }) => severity === 'error');
  if (isUnsafe || !hasJoined) {
    const missing = `no quorum joined within ${timeoutMs} ms (${quorum} of ${nodes.length} are needed)`;
    const addresses = nodes.map(({ address }) => address).join(', ');
    const answered = examined.filter(({ reply }) => reply.kind === 'facts').length;
    const start = `No quorum answered within ${timeoutMs} ms ('startupTimeout'): start the servers, for example with docker run --rm -p 6379:6379 redis, or correct 'nodes'`;
    const unsafe = answered < quorum ? `${report}\n${start}` : report;
    const fix = isUnsafe ? unsafe : `${missing}\n${report}`;
    throw new RedlockConfigError('nodes', addresses, fix.trimEnd());
  }
  if (report !== '') logger.warn(report);
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}, quorum ${quorum}.`,
  );
}

/**
 * Logs what is doubtful about the table of the fence. A database that does not answer delays the start by the timeout.
 *
 * @throws RedlockConfigError when the fence could not refuse stale tokens
 */
export async function checkModuleFence(
  fence: ModuleFence,
  timeoutMs: number,
  logger: Pick<Logger, 'warn'>,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  let findings: readonly FenceFinding[] = [];
  try {
    findings = (await Promise.race([fence.check?.(), silent])) ?? [];
  } catch (error) {
    logger.warn(`The table of the fence could not be checked: ${String(error)}`);
  } finally {
    clearTimeout(timer);
  }
  for (const { severity, message } of findings) {
    if (severity === 'warning') logger.warn(message);
    else throw new RedlockConfigError('fence', fence, message.replace(/\.$/, ''), 'used');
  }
}

/**
 * Asks a node for the facts of the start-up checks until it gives them, or this process has read for `timeoutMs`, or for a
 * second after `enough` resolved. Never rejects.
 */
export function examineNode(
  node: LockNode,
  timeoutMs: number,
  enough?: Promise<void>,
): Promise<NodeFacts | NodeFailure> {
  return new Promise((resolve) => {
    let failure: NodeFailure | undefined;
    let askAgain: NodeJS.Timeout | undefined;
    let deadline: NodeJS.Timeout | undefined;
    let isOver = false;
    const finish = (reply: NodeFacts | NodeFailure) => {
      if (isOver) return;
      isOver = true;
      clearInterval(deadline);
      clearTimeout(askAgain);
      resolve(reply);
    };
    const giveUpAfter = (limitMs: number) => {
      clearInterval(deadline);
      // A late beat counts once, because this process did not read its sockets; what has arrived is there after the next poll.
      let beats = 0;
      deadline = setInterval(() => {
        beats += 1;
        if (beats === BEATS)
          systemEnvironment.afterPoll(() => finish(failure ?? unanswered(limitMs)));
      }, limitMs / BEATS);
    };
    giveUpAfter(timeoutMs);
    void enough?.then(() => isOver || giveUpAfter(LATE_NODE_MS));
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

function unanswered(limitMs: number): NodeFailure {
  const message = `no answer within ${Math.round(limitMs)} ms`;
  return { kind: 'failed', nothingWritten: true, reason: 'unreachable', message };
}
