/**
 * The port to one Redis: what the algorithm says to a single server, and what it hears.
 *
 * Every `settle` is called exactly once, possibly before the method returns, and possibly very late: a node has no
 * timeouts, the caller has. On one connection commands are executed in the order in which they were given, and a command
 * is never queued while disconnected nor sent again after a reconnect.
 */
export interface LockNode {
  /** Host and port, for messages; never a password. */
  readonly address: string;
  /** Starts connecting, and keeps reconnecting until `close`. Called once. */
  open(listener: LockNodeListener): void;
  /** First on every new connection: makes the node remember when it may vote. */
  join(request: JoinRequest, settle: (reply: JoinReply) => void): void;
  acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): void;
  extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): void;
  release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): void;
  inspect(request: InspectRequest, settle: (reply: InspectReply) => void): void;
  /** Asks for a hint whenever this lock key is released here, until `unwatch`; also across reconnects. */
  watch(lockName: string): void;
  unwatch(lockName: string): void;
  /** Drops the connection and makes a new one: the present one has not answered for too long. */
  reset(): void;
  /** Facts for the start-up checks. */
  examine(settle: (reply: NodeFacts | NodeFailure) => void): void;
  /** Closes our own connections; resolves when they are closed. */
  close(): Promise<void>;
}

export interface LockNodeListener {
  /** A new connection is up. Nothing has been said on it. */
  opened(): void;
  /** The connection is gone. Every open command has been or will be settled as failed. */
  closed(message: string): void;
  /** A connection could not be made, which is tried again: why, for messages. */
  unreachable?(message: string): void;
  /** A release was published, by `nonce`; `null` when a watch became active and what happened before it is unknown. */
  hint(lockName: string, nonce: string | null): void;
}

/** No answer of the protocol. */
export interface NodeFailure {
  readonly kind: 'failed';
  /** True when the command certainly changed nothing; false when that is unknown. */
  readonly nothingWritten: boolean;
  /** `overloaded`: not sent, because too many commands wait for this node already. */
  readonly reason: 'unreachable' | 'overloaded' | 'error';
  /** The server doesn't know our scripts: join again. */
  readonly mustJoin?: boolean;
  readonly message: string;
}

/** Names of one lock on the server: for each key its lock and its fence. */
export interface LockNames {
  /** `marker lock1 fence1 [lock2 fence2 …]`. */
  readonly withMarker: readonly string[];
  /** `lock1 fence1 [lock2 fence2 …]`. */
  readonly pairs: readonly string[];
  /** `lock1 [lock2 …]`; also the channels of their hints. */
  readonly locks: readonly string[];
}

export interface JoinRequest {
  readonly markerName: string;
  /** W: how long the node may not vote after a restart, ms; 0 = guard off. */
  readonly restartGuardMs: number;
  /** R: how long a fence is remembered after its last use, ms. */
  readonly fenceRetentionMs: number;
}

export type JoinReply =
  /** 0 = may vote now. */
  | { readonly kind: 'joined'; readonly quarantineMs: number }
  /** Another client uses another fence retention: a configuration error. */
  | { readonly kind: 'disagree'; readonly fenceRetentionMs: number }
  | NodeFailure;

export interface AcquireRequest {
  readonly names: LockNames;
  /** o: fresh per attempt. */
  readonly nonce: string;
  /** p: the proposed token, microseconds. */
  readonly ballot: number;
  readonly ttlMs: number;
}

export type AcquireReply =
  | { readonly kind: 'accepted' }
  /** Another nonce holds one of the keys. `remainingMs` is the longest, -1 when it has no TTL. */
  | {
      readonly kind: 'held';
      readonly remainingMs: number;
      readonly fence: number;
      readonly owner: string;
    }
  /** The ballot is not above `floor`. */
  | {
      readonly kind: 'stale';
      readonly floor: number;
      readonly nowMicros: number;
      readonly byClock: boolean;
    }
  /** The ballot is more than a day ahead of the node. */
  | { readonly kind: 'ahead'; readonly nowMicros: number; readonly fence: number }
  | { readonly kind: 'quarantined'; readonly remainingMs: number }
  | { readonly kind: 'unjoined' }
  | NodeFailure;

export interface ExtendRequest {
  readonly names: LockNames;
  readonly nonce: string;
  /** T: the ballot with which the lock was granted. */
  readonly ballot: number;
  readonly ttlMs: number;
}

export type ExtendReply =
  /** `recreated`: how many keys were missing and have been set again. */
  | { readonly kind: 'extended'; readonly recreated: number }
  | { readonly kind: 'lost' }
  | { readonly kind: 'quarantined'; readonly remainingMs: number }
  | { readonly kind: 'unjoined' }
  | NodeFailure;

export interface ReleaseRequest {
  readonly names: LockNames;
  readonly nonce: string;
  /** False: the attempt was abandoned, its ballot is forgotten. */
  readonly granted: boolean;
  /** Publish a hint for each deleted lock. */
  readonly notify: boolean;
}

export type ReleaseReply =
  /** `listeners`: how many connections were told; absent when none. */
  | { readonly kind: 'released'; readonly deleted: number; readonly listeners?: number }
  | NodeFailure;

export interface InspectRequest {
  readonly names: LockNames;
}

export type InspectReply =
  /** `owner` is `null` when free; `remainingMs` -1 without TTL, 0 when free; `fence` 0 when none is remembered. */
  | {
      readonly kind: 'inspected';
      readonly owner: string | null;
      readonly remainingMs: number;
      readonly fence: number;
    }
  | NodeFailure;

/** What the start-up checks want to know of one server. */
export interface NodeFacts {
  readonly kind: 'facts';
  /** Changes with every start of the server; equal for two addresses of one server. */
  readonly runId: string;
  readonly version: string;
  readonly role: string;
  readonly clusterEnabled: boolean;
  readonly maxmemoryPolicy: string;
  readonly appendOnly: boolean;
  /** Rights that our user lacks, as the server's own messages; empty when all are there. */
  readonly missingRights: readonly string[];
}
