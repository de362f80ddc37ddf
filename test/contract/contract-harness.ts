import type { LockNames, LockNode } from '../../lib/core/nodes/lock-node.ts';

/** Ability that only some harnesses have. */
export type Capability =
  /** `advance`: the server's clock jumps ahead or back. */
  | 'clock'
  /** Nodes of the harness write a vote at once when no answer is due, and the next 31 by themselves. */
  | 'batches'
  /** A restart of the server ends the connection of a node, which hears of it. */
  | 'restart'
  /** The server knows whether anybody listens on a channel. */
  | 'reach'
  /** The server forgets: floors have a life of their own, and it votes only a guard after it has begun anew. */
  | 'forgets';

export interface RawFloor {
  readonly floor: number;
  readonly previous: number;
}

/** Server behind the node port, and what a test does to it behind the port's back. */
export interface ContractHarness {
  /** A new node object, not opened. */
  createNode(): LockNode;
  /** Names under a prefix that no other harness uses. */
  readonly names: (...keys: string[]) => LockNames;
  readonly markerName: string;
  /** The server's own clock. */
  nowMicros(): Promise<number>;

  readLock(
    lockName: string,
  ): Promise<{ readonly holder: string; readonly remainingMs: number } | null>;
  /** `null`: no expiry, like a lock of another program. */
  writeLock(lockName: string, holder: string, ttlMs: number | null): Promise<void>;
  deleteLock(lockName: string): Promise<void>;
  readFloor(floorName: string): Promise<(RawFloor & { readonly remainingMs: number }) | null>;
  writeFloor(floorName: string, floor: RawFloor, ttlMs: number): Promise<void>;
  deleteFloor(floorName: string): Promise<void>;
  readonly deleteMarker: () => Promise<void>;
  /** The restart guard was over at this moment of the server's clock, in ms; long ago unless it is given. */
  endGuard(atMs?: number): Promise<void>;
  /** The data are those of another server: it was a replica for a while. */
  takeMarkerOfAnother(): Promise<void>;
  /** The marker was written by a process that speaks these versions of the protocol. */
  writeVersions(lowest: number, highest: number): Promise<void>;

  /** FLUSHALL. */
  flush(): Promise<void>;
  /** SCRIPT FLUSH. */
  forgetScripts(): Promise<void>;
  /** Kills the server and starts it at the same address. */
  restart(options: { readonly keepData: boolean }): Promise<void>;
  /** Needs the capability `clock`. */
  advance(durationMs: number): Promise<void>;
  close(): Promise<void>;
}

/** Property of every lock node. It throws when the node behind the harness doesn't have it. */
export interface ContractCheck {
  readonly name: string;
  readonly needs?: readonly Capability[];
  run(harness: ContractHarness): Promise<void>;
}

/** Generous: only a hang crosses it. */
export const HANG_MS = 60_000;

/** Waits until `condition` holds. */
export async function eventually(
  what: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const started = performance.now();
  while (!(await condition())) {
    if (performance.now() - started > HANG_MS) throw new Error(`Timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
