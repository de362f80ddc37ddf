import type { Logger } from '@nestjs/common';
import { RedlockClosedError, RedlockConfigError } from '../../core/errors.ts';
import type { NodeCause } from '../../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';
import type { Redlock } from '../../core/redlock.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import type { FenceFinding } from '../../fencing/fence.ts';
import type { ModuleFence } from '../redlock-module-options.ts';
import { checkNodes, formatStartupReport, type ExaminedNode } from '../../redis/preflight.ts';
import { BEATS, LATE_NODE_MS, waitUntilQuorumJoined } from './quorum-wait.ts';
import { adviceToWait, startupOutage } from './startup-outage.ts';
import { waitUntilQuorumVotes } from './vote-wait.ts';

const ASK_AGAIN_MS = 50;

/** How the application wants to start. */
export interface StartSettings {
  /** Whether every node must be there. */
  readonly strict: boolean;
  /** How long a quorum may take to join and to be examined; and then to vote. */
  readonly timeoutMs: number;
  /** Whether the start waits until a quorum may vote. */
  readonly waitForVotes: boolean;
}

interface Examined extends ExaminedNode {
  readonly node: LockNode;
}

/**
 * Waits until a quorum of nodes has joined, examines all of them, logs one report of what is risky, and waits until a quorum
 * may vote. Always settles. All times are those in which this process reads.
 *
 * @param redlock already opened
 * @throws RedlockConfigError with the whole report when nodes are unsafe
 * @throws QuorumUnavailableError when too few nodes are there
 * @throws RedlockClosedError when the service is closed meanwhile
 */
export async function startRedlock(
  redlock: Redlock,
  nodes: readonly LockNode[],
  { strict, timeoutMs, waitForVotes }: StartSettings,
  logger: Pick<Logger, 'log' | 'warn' | 'error'>,
): Promise<void> {
  const { quorum, keyPrefix, restartGuardMs } = redlock.options;
  const startedMs = performance.now();
  const needed = strict ? nodes.length : quorum;
  const hasJoined = await waitUntilQuorumJoined(redlock, nodes, { needed, timeoutMs }, logger);
  const leftMs = hasJoined
    ? Math.max(timeoutMs - (performance.now() - startedMs), LATE_NODE_MS)
    : Math.min(timeoutMs, LATE_NODE_MS);
  // Without a quorum the time is over: each node is asked once, and one without a connection says so at once.
  const isOver = () => !hasJoined || redlock.isClosing;
  const examined = await examineAll(nodes, needed, leftMs, isOver);
  const refusal = () => {
    if (redlock.isClosing) return new RedlockClosedError([]);
    const waitedMs = performance.now() - startedMs;
    const causes = causesOf(redlock, examined, waitedMs);
    const outage = { waitedMs, needed, quorum, nodeCount: nodes.length, causes };
    return startupOutage(outage, adviceToWait(causes, timeoutMs));
  };
  const restartGuard = restartGuardMs > 0;
  const findings = checkNodes(examined, { quorum, keyPrefix, restartGuard, strict });
  const report = formatStartupReport(findings);
  if (findings.some(({ severity, isOutage }) => severity === 'error' && isOutage !== true)) {
    const addresses = nodes.map(({ address }) => address).join(', ');
    throw new RedlockConfigError('nodes', addresses, report);
  }
  const answered = examined.filter(({ reply }) => reply.kind === 'facts').length;
  // Asked again: it may have joined while the nodes were examined.
  if (answered < needed || !(await redlock.joined(0))) throw refusal();
  if (report !== '') logger.warn(report);
  if (waitForVotes && !(await waitUntilQuorumVotes(redlock, timeoutMs, logger))) throw refusal();
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}, quorum ${quorum}.`,
  );
}

/** Waits for `needed` nodes as long as `timeoutMs` lasts, and little longer for the rest; none is asked twice when `isOver`. */
function examineAll(
  nodes: readonly LockNode[],
  needed: number,
  timeoutMs: number,
  isOver: () => boolean,
): Promise<Examined[]> {
  let awaited = needed;
  let hurry = () => {};
  const enough = new Promise<void>((resolve) => (hurry = resolve));
  return Promise.all(
    nodes.map(async (node) => {
      const { ignoredKeyPrefix } = node as { readonly ignoredKeyPrefix?: string };
      const reply = await examineNode(node, timeoutMs, enough, isOver);
      if (reply.kind === 'facts' && (awaited -= 1) === 0) hurry();
      const prefix = ignoredKeyPrefix === undefined ? {} : { ignoredKeyPrefix };
      return { node, address: node.address, ...prefix, reply };
    }),
  );
}

/** Why nodes are not there: they could not be examined, or could not be joined. */
function causesOf(redlock: Redlock, examined: readonly Examined[], elapsedMs: number): NodeCause[] {
  return examined.flatMap(({ node, address, reply }) => {
    if (reply.kind === 'failed') {
      const { reason, message } = reply;
      return [{ address, reason, message, elapsedMs }];
    }
    const message = redlock.problemOf(node);
    return message === undefined ? [] : [{ address, reason: 'unreachable', message, elapsedMs }];
  });
}

/**
 * Logs what is doubtful about the table of the fence. A database that does not answer delays the start by the timeout, but not
 * its end.
 *
 * @throws the reason of `closing` when that aborts meanwhile
 * @throws RedlockConfigError when the fence could not refuse stale tokens
 */
export async function checkModuleFence(
  fence: ModuleFence,
  timeoutMs: number,
  logger: Pick<Logger, 'warn'>,
  closing: AbortSignal,
): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const silent = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    closing.addEventListener('abort', () => reject(closing.reason as Error), { once: true });
  });
  let findings: readonly FenceFinding[] = [];
  try {
    findings = (await Promise.race([fence.check?.(), silent])) ?? [];
  } catch (error) {
    closing.throwIfAborted();
    const why = String(error).replace(/\.$/, '');
    logger.warn(
      `The table of the fence could not be checked: ${why}. The application starts all the same: check the connection of the database; until it answers, fenced writes fail.`,
    );
  } finally {
    clearTimeout(timer);
  }
  closing.throwIfAborted();
  for (const { severity, message } of findings) {
    if (severity === 'warning') logger.warn(message);
    else throw new RedlockConfigError('fence', fence, message.replace(/\.$/, ''), 'used');
  }
}

/**
 * Asks a node for the facts of the start-up checks until it gives them, or this process has read for `timeoutMs`, or for a
 * second after `enough` resolved, or `isClosing` when it failed. Never rejects.
 */
export function examineNode(
  node: LockNode,
  timeoutMs: number,
  enough?: Promise<void>,
  isClosing: () => boolean = () => false,
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
        if (reply.kind === 'facts' || isClosing()) return finish(reply);
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
