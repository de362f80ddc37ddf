import type { NodeFailureReason } from '../errors.ts';
import { NodeNames } from './node-names.ts';
import { parseIdentity, revokedText, type ProcessIdentity } from '../process-identity.ts';
import type { Environment } from '../environment.ts';
import type { ResolvedOptions } from '../options/resolve-options.ts';
import { pastMoment } from '../system-environment.ts';
import type { InspectReply, LockNode, NodeFailure } from './lock-node.ts';

/** The state of one key as the nodes know it at the moment: for people and dashboards, never for deciding whether one may write. */
export interface LockInspection {
  /** The key as the caller named it, without the prefix. */
  readonly key: string;
  /**
   * The random identity of the holder that a quorum of nodes reports; `null` when there is none. `undefined` when that is unknown:
   * with the nodes that did not answer there could be one.
   */
  readonly holder: string | null | undefined;
  /** The time until the lock expires on a quorum of servers; 0 without a known holder. */
  readonly remainingMs: number;
  /** The process of the holder, as far as it said who it is. */
  readonly process?: ProcessIdentity;
  /** When its holder began to acquire it, by the clocks of those that used the key; absent where no quorum knows. */
  readonly acquiredAt?: ReturnType<typeof pastMoment>;
  /** The words on who revoked it, and why; then nobody has it, and the key stays taken until the lock expires. */
  readonly revoked?: string;
  /** The largest number any answering server remembers, decimal; `'0'` when none. Never write with it: it belongs to another. */
  readonly lastToken: string;
  /** The answer of each node. */
  readonly nodes: readonly NodeInspection[];
}

/** The state of one key as one node knows it at the moment. */
export interface NodeInspection {
  /** The host and the port, never a password. */
  readonly address: string;
  /** `null` when the key is free here, or there was no answer. */
  readonly holder: string | null;
  /** The time for which it is held, ms; -1 for a key without TTL, which no client of this package writes. */
  readonly remainingMs: number;
  /** The largest number that this server remembers, decimal; `'0'` when none. */
  readonly lastToken: string;
  /** Why the server did not answer; absent where it did. */
  readonly failure?: { readonly reason: NodeFailureReason; readonly message: string };
}

/** The nodes that are asked without a vote: those of a service, or of an operator, who need not have joined. */
export interface AskedNodes {
  readonly options: Pick<ResolvedOptions, 'keyPrefix' | 'quorum' | 'acquire'>;
  readonly environment: Environment;
  readonly sessions: readonly {
    readonly address: string;
    readonly node: LockNode;
    /** It stands for all answers of a node that is not to be asked. */
    readonly refusal?: NodeFailure | undefined;
  }[];
}

const NO_ANSWER: NodeFailure = {
  kind: 'failed',
  nothingWritten: false,
  reason: 'timeout',
  message: 'no answer in time',
};

/** Asks every node once, and takes what is no answer in time for a failure. */
export function askAll<Reply>(
  { options, environment, sessions }: AskedNodes,
  ask: (node: LockNode, settle: (reply: Reply | NodeFailure) => void) => void,
  timeoutMs = options.acquire.nodeTimeoutMs,
): Promise<(Reply | NodeFailure)[]> {
  const { timers } = environment;
  const answers = sessions.map(
    ({ node, refusal }) =>
      new Promise<Reply | NodeFailure>((resolve) => {
        if (refusal !== undefined) return resolve(refusal);
        const settle = (reply: Reply | NodeFailure) => {
          timers.clear(timer);
          resolve(reply);
        };
        // After a blocked event loop the answers may be there already, unread.
        const isOver = () => environment.afterPoll(() => settle(NO_ANSWER));
        const timer = timers.set(isOver, timeoutMs);
        ask(node, settle);
      }),
  );
  return Promise.all(answers);
}

/** Asks every node what it knows of `key`; waits at most one node timeout. */
export async function inspectKey(asked: AskedNodes, key: string): Promise<LockInspection> {
  const { options, sessions } = asked;
  const names = new NodeNames(options.keyPrefix, [key]);
  const replies = await askAll<InspectReply>(asked, (node, settle) =>
    node.inspect({ names }, settle),
  );
  const nodes = replies.map((reply, index): NodeInspection => {
    const { address } = sessions[index]!;
    if (reply.kind !== 'failed') {
      const { holder, remainingMs, floor } = reply;
      return { address, holder, remainingMs, lastToken: String(floor) };
    }
    const failure = { reason: reply.reason, message: reply.message };
    return { address, holder: null, remainingMs: 0, lastToken: '0', failure };
  });
  const found = summarize(key, nodes, options.quorum);
  if (typeof found.holder !== 'string') return found;
  const held = replies.flatMap((reply) =>
    reply.kind === 'inspected' && reply.holder === found.holder ? reply : [],
  );
  const process = held.map((reply) => parseIdentity(reply.process)).find(Boolean);
  // The floor of a lock that is held is the ballot of its holder.
  const isToken = ({ floor }: { readonly floor: number }) =>
    held.filter((reply) => reply.floor === floor).length >= options.quorum;
  const token = held.find(isToken)?.floor ?? 0;
  const acquiredAt = pastMoment(token, asked.environment);
  return { ...found, process, acquiredAt, revoked: revokedText(found.holder) };
}

function summarize(
  key: string,
  nodes: readonly NodeInspection[],
  votesNeeded: number,
): LockInspection {
  const silent = nodes.filter(({ failure }) => failure !== undefined).length;
  let holder: string | null | undefined = silent < votesNeeded ? null : undefined;
  let remainingMs = 0;
  for (const candidate of new Set(nodes.map((node) => node.holder))) {
    if (candidate === null) continue;
    const times = nodes.filter((node) => node.holder === candidate).map((node) => node.remainingMs);
    // The nodes without an answer may hold it as well.
    if (times.length + silent >= votesNeeded) holder = undefined;
    if (times.length < votesNeeded) continue;
    holder = candidate;
    // The lease runs as long as a quorum still has it: until the votesNeeded-th longest ends.
    remainingMs = times.sort((a, b) => b - a)[votesNeeded - 1] ?? 0;
  }
  const lastToken = Math.max(0, ...nodes.map((node) => Number(node.lastToken)));
  return { key, holder, remainingMs, lastToken: String(lastToken), nodes };
}
