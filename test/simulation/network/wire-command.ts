import type {
  AcquireRequest,
  ExtendRequest,
  ReleaseRequest,
} from '../../../lib/core/nodes/lock-node.ts';
import type { MemoryLockServer } from '../../../lib/testing/index.ts';

export type WireKind =
  | 'join'
  | 'acquire'
  | 'extend'
  | 'release'
  | 'wait'
  | 'inspect'
  | 'revoke'
  | 'list'
  | 'examine'
  | 'ping';

/** Command on its way to a server and back. */
export interface WireCommand {
  readonly kind: WireKind;
  readonly request: unknown;
  /** The process that sends it. */
  readonly from: string;
  run(memory: MemoryLockServer): unknown;
  /** Called once. */
  settle(reply: unknown): void;
}

/** Text for the trace. */
export function textOf({ kind, request }: WireCommand): string {
  if (kind === 'release') {
    const { names, holder, granted, pass } = request as ReleaseRequest;
    return `release ${names.locks.join('+')} ${holder}${granted ? ' granted' : ''}${pass ? ' pass' : ''}`;
  }
  if (kind !== 'acquire' && kind !== 'extend') return kind;
  const { names, holder, ballot, ttlMs } = request as AcquireRequest | ExtendRequest;
  return `${kind} ${names.locks.join('+')} ${holder} p=${ballot} ttl=${ttlMs}`;
}
