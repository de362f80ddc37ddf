import type { LockLossReason, NodeCause } from '../errors.ts';
import type { AboutLock } from '../events.ts';
import type { OwnLock } from '../lock.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import type { Granted, LockCall } from '../voting/attempt.ts';

/** A lock of this process, as its keys, its lease and its release know it. */
export interface KeyLock {
  readonly call: LockCall;
  readonly grant: Granted;
  /** The fields that events about this lock have. */
  readonly about: AboutLock;
  /** The nodes that may hold it, as bits. The others were not asked for it, and get no release: one of them may be frozen. */
  mayHold: number;
  /** The lock is lost or released, though some nodes may still have it. */
  readonly isEnding: boolean;
  /** The time for which the nodes keep it as far as this process knows. */
  readonly occupiedMs: number;
  /** What people are told of it; undefined while no caller has it. */
  readonly report: OwnLock | undefined;
  /** Ends it where its time is over though no timer has said so yet. */
  noticeEnd(): void;
  /** Ends the lock, in doubt, where another server may grant it again; otherwise the lock proves soon that it is held. */
  proveOrEnd(): void;
  lost(reason: LockLossReason, causes: readonly NodeCause[], revoked?: string): void;
}

/** What locks tell their keys, for which others wait. */
export interface LockedKeys {
  granted(lock: KeyLock): void;
  /** Its release begins. Returns whether the turn passes to another process with it, or callers here keep the keys. */
  passOrKeep(lock: KeyLock, nowMs: number): boolean;
  /** The lock is over, and its release is on its way on every connection: the next one here can ask already. */
  freed(lock: KeyLock): void;
}

/** The parts that all locks of one service share. */
export interface SharedByLocks {
  readonly nodes: NodeSet;
  readonly keys: LockedKeys;
  /** The releases that may still be confirmed. */
  readonly releases: Set<object>;
  /** Called when a lock ends, and again when its release is confirmed or given up. */
  readonly onEnd: () => void;
}
