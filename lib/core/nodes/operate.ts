import { QuorumUnavailableError, RedlockConfigError, type NodeCause } from '../errors.ts';
import { RESERVED } from '../options/lock-keys.ts';
import { revokedValue } from '../process-identity.ts';
import { askAll, inspectKey, type AskedNodes, type LockInspection } from './inspect.ts';
import type { ListReply, LockNode, RevokeReply } from './lock-node.ts';
import { channelOf, markOf, NodeNames } from './node-names.ts';

const MOST_LOCKS = 10_000;
const LIST_TIMEOUT_MS = 30_000;
const INSPECTIONS_AT_ONCE = 100;

/** The state of a key before it was revoked, and when it is free. `holder` is null where nobody held it: then nothing was done. */
export interface RevokedLock extends LockInspection {
  /** The time after which others get the key, at the latest. */
  readonly endsInMs: number;
}

/** The locks that a quorum of nodes holds. */
export interface LockList {
  /** The locks in the order of their keys. */
  readonly locks: readonly LockInspection[];
  /** False where there may be more: beyond 10,000, or as far as nodes that did not answer hold them. */
  readonly isComplete: boolean;
}

/** Replaces the holder of a key on a quorum of nodes. @throws QuorumUnavailableError */
export async function revokeKey(
  asked: AskedNodes,
  key: string,
  by?: string,
  reason?: string,
): Promise<RevokedLock> {
  const { options, environment } = asked;
  const sinceMs = environment.clock.monotonicMs();
  const found = await inspectKey(asked, key);
  const { holder, nodes, revoked, remainingMs } = found;
  const failures = nodes.map(({ failure }) => failure);
  if (holder === undefined) throw outage(asked, sinceMs, [key], failures, 'Nothing was revoked.');
  if (holder === null || revoked !== undefined) return { ...found, endsInMs: remainingMs };
  const names = new NodeNames(options.keyPrefix, [key]);
  const held = nodes.filter((node) => node.holder === holder);
  // The nodes keep it for as long as the holder could still extend on another one.
  const leastMs = Math.max(...held.map((node) => node.remainingMs));
  const channel = channelOf(options.keyPrefix, markOf(holder));
  const request = { names, holder, value: revokedValue(by, reason), leastMs, channel };
  const replies = await askAll<RevokeReply>(asked, (node, settle) => node.revoke(request, settle));
  const times = replies.flatMap((each) =>
    each.kind === 'revoked' ? (each.remainingMs ?? []) : [],
  );
  if (times.length < options.quorum) {
    const isKept = replies.every((each) => each.kind === 'failed' && each.nothingWritten);
    const look = 'It may still be held: inspect it, and revoke it again.';
    throw outage(asked, sinceMs, [key], replies, isKept ? 'Nothing was revoked.' : look);
  }
  return { ...found, endsInMs: Math.max(...times) };
}

/** Finds the locks that are held. @throws QuorumUnavailableError, RedlockConfigError */
export async function listLocks(asked: AskedNodes, keysBegin = ''): Promise<LockList> {
  const { keyPrefix, quorum } = asked.options;
  const sinceMs = asked.environment.clock.monotonicMs();
  const request = { keyPrefix, keysBegin, most: MOST_LOCKS };
  const ask = (node: LockNode, settle: (reply: ListReply) => void) => node.list(request, settle);
  const replies = await askAll(asked, ask, LIST_TIMEOUT_MS);
  const failed = replies.filter((reply) => reply.kind === 'failed');
  const denied = failed.find(({ message }) => message.includes('NOPERM'))?.message;
  if (denied !== undefined) {
    const fix = `use a user with +scan and ~${keyPrefix}*; locks themselves don't need that right`;
    throw new RedlockConfigError('nodes', undefined, fix, `listed by this user (${denied})`);
  }
  if (replies.length - failed.length < quorum)
    throw outage(asked, sinceMs, [], replies, 'Fix these servers.');
  const listed = replies.flatMap((reply) => (reply.kind === 'listed' ? reply : []));
  const names = listed.flatMap((reply) => reply.names.map((name) => name.slice(keyPrefix.length)));
  const keys = [...new Set(names)].filter((key) => key !== '' && !RESERVED.test(key)).sort();
  const found: LockInspection[] = [];
  for (let at = 0; at < keys.length; at += INSPECTIONS_AT_ONCE) {
    const some = keys.slice(at, at + INSPECTIONS_AT_ONCE).map((key) => inspectKey(asked, key));
    found.push(...(await Promise.all(some)));
  }
  const isComplete =
    listed.every((reply) => reply.isComplete) && found.every(({ holder }) => holder !== undefined);
  return { locks: found.filter(({ holder }) => typeof holder === 'string'), isComplete };
}

/** Makes the error for nodes that failed, or have another holder by now. */
export function outage(
  { options, environment, sessions }: AskedNodes,
  sinceMs: number,
  keys: readonly string[],
  answers: readonly (object | undefined)[],
  advice: string,
): QuorumUnavailableError {
  const causes = answers.map((answer, index): NodeCause => {
    const { reason, message } = { reason: 'held', message: 'answered', ...answer } as NodeCause;
    return { address: sessions[index]!.address, reason, message, elapsedMs: 0 };
  });
  const { quorum } = options;
  const waitedMs = environment.clock.monotonicMs() - sinceMs;
  const subject = keys.length > 0 ? undefined : 'for the list of locks';
  const nodeCount = sessions.length;
  return new QuorumUnavailableError(keys, waitedMs, quorum, nodeCount, causes, advice, subject);
}
