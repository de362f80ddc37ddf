import type { NodeFailure } from '../../core/nodes/lock-node.ts';
import { errorReply, failureOf } from '../../redis/commands/node-failure.ts';

/** The commands a fault can hit. */
export type MemoryCommandName =
  'join' | 'acquire' | 'extend' | 'release' | 'wait' | 'inspect' | 'revoke' | 'list' | 'examine';

/**
 * Fault of one command:
 * - `lose-request`: it never reaches the server, and no answer comes while this connection lasts;
 * - `lose-reply`: the server executes it, but no answer comes while this connection lasts;
 * - `error`: the server refuses it with this message (`'OOM …'`, `'READONLY …'`, `'NOAUTH …'`) and writes nothing.
 */
export type MemoryFault = 'lose-request' | 'lose-reply' | { readonly error: string };

export const NOT_CONNECTED: NodeFailure = failure('unreachable', 'not connected');
export const NOSCRIPT: NodeFailure = {
  ...failure('error', 'NOSCRIPT No matching script.'),
  mustJoin: true,
};

/** What the server says in place of an answer. */
export function refused(message: string): NodeFailure {
  return failureOf(errorReply(message), String);
}

export function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return Object.freeze({ kind: 'failed', nothingWritten: true, reason, message });
}
