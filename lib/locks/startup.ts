import { setImmediate, setTimeout } from 'node:timers/promises';
import {
  RedlockClosedError,
  RedlockConfigError,
  isRedlockError,
  type NodeCause,
  QuorumUnavailableError,
} from '../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../core/nodes/lock-node.ts';
import { inSeconds } from '../core/options/duration.ts';
import type { Redlock } from '../core/redlock.ts';
import type { FenceFinding } from '../fencing/fence.ts';
import { checkNodes, failoverPromises, formatStartupReport, isUnsafe } from '../redis/preflight.ts';
import type { ExaminedNode } from '../redis/preflight.ts';
import type { LockLogger } from './event-log.ts';
import type { ModuleFence } from './locks-options.ts';

/** The time in which nodes that are late may still answer once a quorum is there; a dead one delays the start by this much. */
export const LATE_NODE_MS = 1_000;
/** A wait without a quorum is news after this time: a hook of a test ends, and prints nothing, before the start is refused. */
export const NEWS_MS = 2_000;
const IN_TESTS =
  'A test that should need no server puts createMemoryNodes(3) of nestjs-fenced-lock/testing in place of the nodes; in Nest, with .overrideProvider(REDLOCK_NODES).';
const LONGEST_PAUSE_MS = 50;
// Taken now: fake timers of a test replace them, and a start whose nodes answer ends all the same.
const [sleep, pollTurn] = [setTimeout, setImmediate];

const UNANSWERED: NodeFailure = {
  kind: 'failed',
  nothingWritten: true,
  reason: 'unreachable',
  message: 'no answer yet',
};

export interface StartSettings {
  readonly strict: boolean;
  /** The time that a quorum may take to join and to be examined; and then to vote. */
  readonly timeoutMs: number;
  readonly waitForVotes: boolean;
}

interface Examined extends ExaminedNode {
  readonly node: LockNode;
  reply: NodeFacts | NodeFailure;
}

/**
 * Examines all nodes while it waits until a quorum of them has joined, logs one report of what is risky, and waits until a quorum
 * may vote. What is unsafe ends it at once. Always settles. All times are those in which this process reads.
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
  logger: LockLogger,
): Promise<void> {
  const { quorum, keyPrefix, restartGuardMs, maxLagMs } = redlock.options;
  const options = { quorum, keyPrefix, restartGuard: restartGuardMs > 0, maxLagMs, strict };
  const startedMs = performance.now();
  const needed = strict ? nodes.length : quorum;
  const examined = nodes.map((node): Examined => {
    const { ignoredKeyPrefix } = node as { readonly ignoredKeyPrefix?: string };
    return { node, address: node.address, ignoredKeyPrefix, reply: UNANSWERED };
  });
  const hasJoined = () => !redlock.isClosing && Number.isFinite(redlock.votesInMs);
  const isThere = () => hasJoined() && examined.filter(takesVotes).length >= needed;
  const outage = (next: string) => {
    const waitedMs = performance.now() - startedMs;
    const causes = examined.flatMap((each) => causeOf(redlock, each, waitedMs));
    const advice = `Check these servers${needed > quorum ? ": 'strict' needs all of them" : ''}. ${next}`;
    return new QuorumUnavailableError([], waitedMs, needed, nodes.length, causes, advice);
  };
  const refusal = () =>
    redlock.isClosing
      ? new RedlockClosedError([])
      : outage(
          `Servers that start later need a longer 'startupTimeout' (${inSeconds(timeoutMs)}).`,
        );

  let isOver = false;
  for (const each of examined) keepAsking(each, () => isOver);
  const ends = () => redlock.isClosing || isThere() || isUnsafe(checkNodes(examined, options));
  if (timeoutMs > NEWS_MS)
    void until(() => isOver || ends(), NEWS_MS).then((leftMs) => {
      const next = `The start waits ${inSeconds(timeoutMs - NEWS_MS)} more. ${IN_TESTS}`;
      if (leftMs === 0) logger.error(outage(next).message);
    });
  const isWhole = () => redlock.isClosing || examined.every(takesVotes);
  let leftMs = timeoutMs;
  do {
    leftMs = await until(ends, leftMs);
    const lateMs = await until(() => isWhole() || !ends(), LATE_NODE_MS);
    leftMs -= LATE_NODE_MS - lateMs;
  } while (leftMs > 0 && !ends());
  isOver = true;

  const findings = checkNodes(examined, options);
  const report = formatStartupReport(findings);
  if (isUnsafe(findings))
    throw new RedlockConfigError('nodes', nodes.map(({ address }) => address).join(', '), report);
  if (!isThere()) throw refusal();
  if (report !== '') logger.warn(report);
  for (const promise of failoverPromises(examined, options)) logger.log(promise);
  if (waitForVotes) await waitUntilQuorumVotes(redlock, timeoutMs, logger);
  if (!hasJoined()) throw refusal();
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'server' : 'servers'}, quorum ${quorum}.`,
  );
}

/** Says so where a start waits, and the timers of this process stand still: under fake timers it ends only as a test moves them. */
export async function watchTimers(
  isOver: () => boolean,
  logger: Pick<LockLogger, 'error'>,
): Promise<void> {
  let hasRun = false;
  globalThis.setTimeout(() => (hasRun = true)).unref();
  // No library of fake timers replaces this clock, and it does not keep the process alive.
  const realTime = Atomics.waitAsync(new Int32Array(new SharedArrayBuffer(4)), 0, 0, NEWS_MS);
  await realTime.value;
  if (!hasRun && !isOver())
    logger.error(
      'The start waits for timers, and they stand still: fake timers (of Jest, Vitest or Sinon) are on. Turn them on after the start, in Nest after `await app.init()`.',
    );
}

/** Asks a node until it takes votes or `isOver`, and keeps its latest answer. */
function keepAsking(each: Examined, isOver: () => boolean): void {
  each.node.examine((reply) => {
    if (isOver()) return;
    each.reply = reply;
    if (takesVotes(each)) return;
    const again = () => isOver() || keepAsking(each, isOver);
    void sleep(LONGEST_PAUSE_MS, undefined, { ref: false }).then(again);
  });
}

function takesVotes({ reply }: Examined): boolean {
  return reply.kind === 'facts' && reply.refusesWrites === undefined;
}

/** Reason why a node is not there: it could not be examined, or could not be joined, or takes no votes. */
function causeOf(redlock: Redlock, { node, address, reply }: Examined, elapsedMs: number) {
  const problem = redlock.problemOf(node);
  const found: Pick<NodeCause, 'reason' | 'message'>[] = [];
  if (reply.kind === 'failed') found.push(reply);
  else if (problem !== undefined) found.push({ reason: 'unreachable', message: problem });
  else if (reply.refusesWrites !== undefined)
    found.push({ reason: 'error', message: reply.refusesWrites });
  return found.map(({ reason, message }): NodeCause => ({ address, reason, message, elapsedMs }));
}

/**
 * Asks `isDone` until it is, or until `limitMs` are over in which this process ran: it does not give up for a blocked event
 * loop, and reads what has arrived before it looks again. Returns the time that is left, 0 where it is not done.
 */
async function until(isDone: () => boolean, limitMs: number): Promise<number> {
  let leftMs = limitMs;
  for (let pauseMs = 1; !isDone(); pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    if (leftMs <= 0) return 0;
    const sinceMs = performance.now();
    await sleep(Math.min(pauseMs, leftMs));
    await pollTurn();
    leftMs -= Math.min(performance.now() - sinceMs, 2 * LONGEST_PAUSE_MS);
  }
  return Math.max(1, leftMs);
}

/** Waits, after a quorum has joined, until one may vote, where that takes no longer than `timeoutMs`, and twice as long where a node restarts meanwhile. */
async function waitUntilQuorumVotes(
  redlock: Redlock,
  timeoutMs: number,
  logger: Pick<LockLogger, 'log' | 'warn'>,
): Promise<void> {
  const { votesInMs } = redlock;
  if (votesInMs <= 0) return;
  // Guards that other processes asked for may be longer.
  const guardMs = Math.max(votesInMs, redlock.options.restartGuardMs);
  const goesOn = () =>
    logger.warn(
      `The servers give no locks for ${inSeconds(redlock.votesInMs)}: they are new or were restarted (restart guard). The application starts now, and calls wait within their 'wait'. With a 'startupTimeout' of ${inSeconds(guardMs)}, the start waits instead.`,
    );
  if (guardMs > timeoutMs) return goesOn();
  logger.log(
    `Waiting ${inSeconds(votesInMs)} until the servers give locks: they are new or were restarted (restart guard). In development, waitForVotes: false starts at once, but the first lock waits all the same; restartGuard: false ends the wait for one server, or for servers that lose nothing.`,
  );
  const isDone = () => redlock.isClosing || redlock.votesInMs <= 0;
  if (!(await until(isDone, 2 * timeoutMs)) && Number.isFinite(redlock.votesInMs)) goesOn();
}

/**
 * Logs what is doubtful about the table of the fence. A database that does not answer delays the start by the timeout, but not
 * its end.
 *
 * @throws RedlockClosedError when the service is closed meanwhile
 * @throws RedlockConfigError when the fence could not refuse stale tokens
 */
export async function checkModuleFence(
  fence: ModuleFence,
  redlock: Redlock,
  timeoutMs: number,
  logger: Pick<LockLogger, 'warn'>,
): Promise<void> {
  let found: readonly FenceFinding[] | undefined;
  let problem: { readonly error: unknown } | undefined;
  const check = async () => {
    found = (await fence.check?.()) ?? [];
  };
  void check().catch((error: unknown) => (problem = { error }));
  await until(() => redlock.isClosing || found !== undefined || problem !== undefined, timeoutMs);
  if (redlock.isClosing) throw new RedlockClosedError([]);
  const error = problem?.error;
  if (isRedlockError(error) && error.code === 'REDLOCK_CONFIG') throw error;
  if (found === undefined) {
    const why = (problem ? String(error) : `no answer within ${timeoutMs} ms`).replace(/\.$/, '');
    logger.warn(
      `The table of the fence could not be checked: ${why}. The application starts all the same; until the database answers, fenced writes fail.`,
    );
  }
  for (const { severity, message } of found ?? []) {
    if (severity === 'warning') logger.warn(message);
    else throw new RedlockConfigError('fence', fence, message.replace(/\.$/, ''), 'used');
  }
}
