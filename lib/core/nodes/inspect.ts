import type { NodeFailureReason } from '../errors.ts';
import { NodeNames } from './node-names.ts';
import type { InspectReply } from './lock-node.ts';
import type { NodeSession } from './node-session.ts';
import type { NodeSet } from './node-set.ts';

/**
 * State of one key as the nodes know it at the moment: for people and dashboards, never for deciding whether one may write.
 * `lastToken` is nothing to write with: the last ballot of a key belongs to its holder.
 */
export interface LockInspection {
  /** Key as the caller named it, without the prefix. */
  readonly key: string;
  /**
   * Random identity of the holder that a quorum of nodes reports; `null` when there is none. `undefined` when that is unknown:
   * with the nodes that did not answer there could be one.
   */
  readonly holder: string | null | undefined;
  /** Time for which the holder's lease runs on a quorum of nodes; 0 without a known holder. */
  readonly remainingMs: number;
  /** The largest ballot any answering node remembers, decimal; `'0'` when none. It may belong to an abandoned attempt. */
  readonly lastToken: string;
  /** Answer of each node. */
  readonly nodes: readonly NodeInspection[];
}

/** State of one key as one node knows it at the moment. */
export interface NodeInspection {
  /** Host and port, never a password. */
  readonly address: string;
  /** `null` when the key is free here, or there was no answer. */
  readonly holder: string | null;
  /** Milliseconds; -1 for a key without TTL, which no client of this package writes. */
  readonly remainingMs: number;
  /** The largest ballot that this node remembers, decimal; `'0'` when none. */
  readonly lastToken: string;
  /** Present when the node did not answer. */
  readonly failure?: { readonly reason: NodeFailureReason; readonly message: string };
}

/** Asks every node what it knows of `key`; waits at most one node timeout. */
export async function inspectKey(set: NodeSet, key: string): Promise<LockInspection> {
  const names = new NodeNames(set.options.keyPrefix, [key]);
  const { timers } = set.environment;
  const ask = ({ address, node }: NodeSession) =>
    new Promise<NodeInspection>((resolve) => {
      const settle = (reply: InspectReply | typeof NO_ANSWER) => {
        timers.clear(timer);
        if (reply.kind !== 'failed') {
          const { holder, remainingMs, floor } = reply;
          return resolve({ address, holder, remainingMs, lastToken: String(floor) });
        }
        const failure = { reason: reply.reason, message: reply.message };
        resolve({ address, holder: null, remainingMs: 0, lastToken: '0', failure });
      };
      // Answers may be there after a blocked event loop, unread.
      const isOver = () => set.environment.afterPoll(() => settle(NO_ANSWER));
      const timer = timers.set(isOver, set.options.acquire.nodeTimeoutMs);
      node.inspect({ names }, settle);
    });
  return summarize(key, await Promise.all(set.sessions.map(ask)), set.options.quorum);
}

const NO_ANSWER = { kind: 'failed', reason: 'timeout', message: 'no answer in time' } as const;

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
    // Nodes without an answer may hold it as well.
    if (times.length + silent >= votesNeeded) holder = undefined;
    if (times.length < votesNeeded) continue;
    holder = candidate;
    // The lease runs as long as a quorum still has it: until the votesNeeded-th longest ends.
    remainingMs = times.sort((a, b) => b - a)[votesNeeded - 1] ?? 0;
  }
  const lastToken = Math.max(0, ...nodes.map((node) => Number(node.lastToken)));
  return { key, holder, remainingMs, lastToken: String(lastToken), nodes };
}
