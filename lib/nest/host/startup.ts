import type { Logger } from '@nestjs/common';
import {
  RedlockClosedError,
  RedlockConfigError,
  type NodeCause,
  QuorumUnavailableError,
} from '../../core/errors.ts';
import type { LockNode, NodeFacts, NodeFailure } from '../../core/nodes/lock-node.ts';
import type { Redlock } from '../../core/redlock.ts';
import { systemEnvironment } from '../../core/system-environment.ts';
import type { FenceFinding } from '../../fencing/fence.ts';
import type { ModuleFence } from '../redlock-module-options.ts';
import { checkNodes, formatStartupReport } from '../../redis/preflight.ts';
import type { ExaminedNode, StartupFinding } from '../../redis/preflight.ts';
import { inSeconds } from '../../core/options/duration.ts';

const ASK_AGAIN_MS = 50;

export interface StartSettings {
  readonly strict: boolean;
  /** How long a quorum may take to join and to be examined; and then to vote. */
  readonly timeoutMs: number;
  readonly waitForVotes: boolean;
}

interface Examined extends ExaminedNode {
  readonly node: LockNode;
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
  logger: Pick<Logger, 'log' | 'warn' | 'error'>,
): Promise<void> {
  const { quorum, keyPrefix, restartGuardMs } = redlock.options;
  const startedMs = performance.now();
  const needed = strict ? nodes.length : quorum;
  const options = { quorum, keyPrefix, restartGuard: restartGuardMs > 0, strict };
  const isUnsafe = (findings: readonly StartupFinding[]) =>
    findings.some(({ severity, isOutage }) => severity === 'error' && isOutage !== true);
  const joins = waitUntilQuorumJoined(redlock, nodes, { needed, timeoutMs }, logger);
  const examined = await examineAll(nodes, needed, timeoutMs + LATE_NODE_MS, joins, (node) =>
    isUnsafe(checkNodes([node], options)),
  );
  const refusal = () => {
    if (redlock.isClosing) return new RedlockClosedError([]);
    const waitedMs = performance.now() - startedMs;
    const causes = causesOf(redlock, examined, waitedMs);
    const outage = { waitedMs, needed, quorum, nodeCount: nodes.length, causes };
    const next = `Servers that start later need a longer 'startupTimeout' (${inSeconds(timeoutMs)}).`;
    return startupOutage(outage, next);
  };
  const findings = checkNodes(examined, options);
  const report = formatStartupReport(findings);
  if (isUnsafe(findings)) {
    const addresses = nodes.map(({ address }) => address).join(', ');
    throw new RedlockConfigError('nodes', addresses, report);
  }
  const answered = examined.filter(({ reply }) => takesVotes(reply)).length;
  await joins;
  // Asked again: it may have left, or joined, while the nodes were examined.
  if (answered < needed || !(await redlock.joined(0))) throw refusal();
  if (report !== '') logger.warn(report);
  if (waitForVotes && !(await waitUntilQuorumVotes(redlock, timeoutMs, logger))) throw refusal();
  logger.log(
    `Locks over ${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}, quorum ${quorum}.`,
  );
}

/** Waits for `needed` nodes and `joins` as long as `timeoutMs` lasts, and little longer for the rest, or after an unsafe one. */
function examineAll(
  nodes: readonly LockNode[],
  needed: number,
  timeoutMs: number,
  joins: Promise<boolean>,
  isUnsafe: (node: Examined) => boolean,
): Promise<Examined[]> {
  let awaited = needed + 1;
  let isOver = false;
  let hurry = () => {};
  const enough = new Promise<void>((resolve) => (hurry = resolve));
  void joins.then((hasJoined) => {
    isOver = !hasJoined;
    if ((awaited -= 1) === 0) hurry();
  });
  return Promise.all(
    nodes.map(async (node) => {
      const { ignoredKeyPrefix } = node as { readonly ignoredKeyPrefix?: string };
      const reply = await examineNode(node, timeoutMs, enough, () => isOver);
      const prefix = ignoredKeyPrefix === undefined ? {} : { ignoredKeyPrefix };
      const examined = { node, address: node.address, ...prefix, reply };
      if ((takesVotes(reply) && (awaited -= 1) === 0) || isUnsafe(examined)) hurry();
      return examined;
    }),
  );
}

function takesVotes(reply: NodeFacts | NodeFailure): boolean {
  return reply.kind === 'facts' && reply.refusesWrites === undefined;
}

/** Why nodes are not there: they could not be examined, or could not be joined, or take no votes. */
function causesOf(redlock: Redlock, examined: readonly Examined[], elapsedMs: number): NodeCause[] {
  return examined.flatMap(({ node, address, reply }) => {
    if (reply.kind === 'failed') {
      const { reason, message } = reply;
      return [{ address, reason, message, elapsedMs }];
    }
    const problem = redlock.problemOf(node);
    const message = problem ?? reply.refusesWrites;
    const reason = problem === undefined ? 'error' : 'unreachable';
    return message === undefined ? [] : [{ address, reason, message, elapsedMs }];
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
 * Asks a node for the facts of the start-up checks until it gives them and takes votes, or this process has read for
 * `timeoutMs`, or for a second after `enough` resolved, or `isClosing` when it does not. Never rejects.
 */
export function examineNode(
  node: LockNode,
  timeoutMs: number,
  enough?: Promise<void>,
  isClosing: () => boolean = () => false,
): Promise<NodeFacts | NodeFailure> {
  return new Promise((resolve) => {
    let latest: NodeFacts | NodeFailure | undefined;
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
          systemEnvironment.afterPoll(() => finish(latest ?? unanswered(limitMs)));
      }, limitMs / BEATS);
    };
    giveUpAfter(timeoutMs);
    void enough?.then(() => isOver || giveUpAfter(LATE_NODE_MS));
    const ask = () =>
      node.examine((reply) => {
        if (isOver) return;
        if (takesVotes(reply) || isClosing()) return finish(reply);
        latest = reply;
        askAgain = setTimeout(ask, ASK_AGAIN_MS);
      });
    ask();
  });
}

function unanswered(limitMs: number): NodeFailure {
  const message = `no answer within ${Math.round(limitMs)} ms`;
  return { kind: 'failed', nothingWritten: true, reason: 'unreachable', message };
}

/** How long nodes that are late may still answer once a quorum is there; a dead one delays the start by this much. */
export const LATE_NODE_MS = 1_000;
/** A wait without a quorum is news after this time: a hook of a test ends, and prints nothing, before the start is refused. */
const NEWS_MS = 2_000;
/** A wait is counted in so many beats: a blocked event loop costs one of them. */
const BEATS = 10;

/**
 * Waits until a quorum of nodes has joined, no longer than `timeoutMs`. One error in the log says what is wrong where that takes
 * long, because a test runner shows no other line, and may not wait for the end.
 *
 * @returns whether it has joined
 */
async function waitUntilQuorumJoined(
  redlock: Redlock,
  nodes: readonly LockNode[],
  { needed, timeoutMs }: { readonly needed: number; readonly timeoutMs: number },
  logger: Pick<Logger, 'error'>,
): Promise<boolean> {
  const joins = (limitMs: number) => inBeats(redlock, limitMs, (beatMs) => redlock.joined(beatMs));
  if (timeoutMs <= NEWS_MS) return joins(timeoutMs);
  if (await joins(NEWS_MS)) return true;
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
  return joins(leftMs);
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

async function inBeats(
  redlock: Redlock,
  limitMs: number,
  ask: (beatMs: number) => Promise<boolean>,
): Promise<boolean> {
  for (let beat = 0; beat < BEATS && !redlock.isClosing; beat += 1)
    if (await ask(limitMs / BEATS)) return true;
  return false;
}

/** Whose guard it is where the own one is off. */
const OF_ANOTHER = 'restart guard of another application with the same keyPrefix: here it is off';

/**
 * Waits, after a quorum has joined, until one may vote, as far as that takes no longer than `timeoutMs`; the log says why.
 * Where a node restarts meanwhile, and has to wait again, it goes on for another `timeoutMs` at most.
 *
 * @returns whether a quorum is there: false when the nodes left meanwhile and did not come back, or the service closes
 */
async function waitUntilQuorumVotes(
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
  const votes = (beatMs: number) => redlock.mayVote(beatMs);
  if (await inBeats(redlock, 2 * timeoutMs, votes)) return true;
  const leftMs = redlock.votesInMs;
  if (!Number.isFinite(leftMs) || redlock.isClosing) return false;
  logger.warn(
    `A quorum may vote in ${inSeconds(leftMs)}, not before: servers restarted while the application started. It goes on now, and calls wait for the quorum within their 'wait'.`,
  );
  return true;
}

interface Outage {
  readonly waitedMs: number;
  /** How many nodes the start needs: a quorum, or with `strict` all of them. */
  readonly needed: number;
  readonly quorum: number;
  readonly nodeCount: number;
  /** Of the nodes that are not there. */
  readonly causes: readonly NodeCause[];
}

/**
 * The error of a start that found too few nodes.
 * @param next what comes then, at the end of the message
 */
function startupOutage(outage: Outage, next: string): QuorumUnavailableError {
  const { waitedMs, needed, quorum, nodeCount, causes } = outage;
  const commands = causes.flatMap(commandFor);
  const fix =
    commands.length > 0 ? `Start Redis: ${commands.join(' and ')}.` : 'Check these servers.';
  return new QuorumUnavailableError(
    [],
    waitedMs,
    needed,
    nodeCount,
    causes,
    `${fix} ${next}`,
    needed > quorum && causes.length > 0
      ? `With 'strict' the start needs all ${needed} nodes, and after ${Math.round(waitedMs)} ms ${causes.length} ${causes.length === 1 ? 'is' : 'are'} missing`
      : undefined,
  );
}

/** Starts a server where nothing listens on this machine. */
function commandFor({ address, message }: NodeCause): string[] {
  const [, port] = (REFUSED.test(message) && LOCAL.exec(address)) || [];
  return port === undefined ? [] : [`docker run --rm -p ${port}:6379 redis`];
}

const REFUSED = /\bECONNREFUSED\b/;
const LOCAL = /^(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?):(\d+)$/i;
