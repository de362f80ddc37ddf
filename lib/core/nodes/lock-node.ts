/**
 * The port to one Redis: what the algorithm says to a single server, and what it receives.
 *
 * Every `settle` is called exactly once, possibly before the method returns, and possibly very late: a node has no timeouts for
 * votes, the caller has. On one connection commands are executed in the order in which they were given, and a command is never
 * queued while disconnected nor sent again after a reconnect.
 *
 * `acquire`, `extend` and `release` are collected and written together by `flush`, which is up to the caller when they return
 * true; one goes out at once when no answer is due on the connection. Everything else writes what was collected before itself.
 */
export interface LockNode {
  /** The host and the port, for messages; never a password. */
  readonly address: string;
  /** The facts that `examine` found last. */
  readonly facts?: NodeFacts | undefined;
  /** The node for one more lock service: this one, or, while it has a service, another to the same server. Where it is missing, this one. */
  forService?(): LockNode;
  /** Why the server can't have locks of these names; undefined, or missing, where it can. */
  refusal?(names: LockNames): string | undefined;
  /** Starts connecting, and keeps reconnecting until `close`. Called once. */
  open(listener: LockNodeListener, settings: LinkSettings): void;
  /** Whether its connections keep this process alive; they do by default. */
  holdProcess?(isHeld: boolean): void;
  /** First on every new connection: makes the node remember when it may vote. */
  join(request: JoinRequest, settle: (reply: JoinReply) => void): void;
  acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): boolean;
  extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): boolean;
  release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): boolean;
  /** Hands all that was collected to the socket, in one write. */
  flush(): void;
  inspect(request: InspectRequest, settle: (reply: InspectReply) => void): void;
  /**
   * Puts a value in place of the holder, where the lock has this one: it stays taken, and its holder is notified. Data that no vote
   * wrote are refused, and kept.
   */
  revoke(request: RevokeRequest, settle: (reply: RevokeReply) => void): void;
  /** Finds the names of locks, and others under the prefix. Needs a right that nothing else does. */
  list(request: ListRequest, settle: (reply: ListReply) => void): void;
  /** Stands in line for a lock of one key, collected as votes are. */
  wait(request: WaitRequest, settle: (reply: WaitReply) => void): boolean;
  /** Receives turns on this channel from now on, also across reconnects. There is one only, and further calls change nothing. */
  listen(channel: string): void;
  /** Replaces its connections, and loses nothing of what they carry. Missing: they never have to be. */
  renew?(): void;
  /** The facts for the start-up checks. */
  examine(settle: (reply: NodeFacts | NodeFailure) => void): void;
  /** Writes what was collected, then closes our own connections; resolves when they are closed. */
  close(): Promise<void>;
}

/** The settings that a node needs to notice by itself that a connection went silent. */
export interface LinkSettings {
  /**
   * A connection on which an answer has been due for this long is doubted: a second one is opened beside it, and takes its
   * place only when it was joined while the first is still silent. Counts only time in which this process read its sockets.
   */
  readonly silenceLimitMs: number;
  /** Proves that a second connection works. It is missing where this process takes no locks, and joins nothing. */
  readonly join?: JoinRequest;
  /** The key in which the node keeps, once joined, what this process says of itself; it expires a minute after the process ended. */
  readonly identity?: { readonly name: string; readonly text: string } | undefined;
}

export interface LockNodeListener {
  /** A new connection is up. Nothing has been said on it. */
  opened(): void;
  /** The connection is gone. Every open command has been or will be settled as failed. */
  closed(message: string): void;
  /** A connection could not be made, which is tried again: why, for messages. */
  unreachable?(message: string): void;
  /** An answer is overdue, also one that is no vote, and a second connection gets none either; repeated while that lasts. */
  stalled?(): void;
  /** Data arrived after a silence. */
  spoke?(): void;
  /**
   * The server keeps a free lock: for this process, or, with `keptMs`, for another one for so long, and this one is behind it.
   * Below 0: this process may have lost the lock that it holds.
   */
  turn(lockName: string, keptMs: number): void;
  /** Turns are received from now on; those before are unknown. */
  listening(): void;
}

/** The failure in place of an answer of the protocol. */
export interface NodeFailure {
  readonly kind: 'failed';
  /** True when the command certainly changed nothing; false when that is unknown. */
  readonly nothingWritten: boolean;
  /** `overloaded`: not sent, because too many commands wait for this node already; `timeout`: said by who asked. */
  readonly reason: 'unreachable' | 'overloaded' | 'error' | 'timeout';
  /** The server doesn't know our scripts: join again. */
  readonly mustJoin?: boolean;
  readonly message: string;
}

/** The names of one lock on the server: for each key its lock and its floor. */
export interface LockNames {
  /** The name under which the node remembers when it may vote. */
  readonly marker: string;
  /** `lock1 floor1 [lock2 floor2 …]`. */
  readonly pairs: readonly string[];
  /** `lock1 [lock2 …]`. */
  readonly locks: readonly string[];
  /** The beginning of the names under which processes say who they are; the mark of their holders follows. */
  readonly processes: string;
}

export interface JoinRequest {
  readonly markerName: string;
  /** W: how long the node may not vote after a restart, ms; 0 = guard off. */
  readonly restartGuardMs: number;
  /** R: how long a floor is remembered after its last use, ms. */
  readonly floorRetentionMs: number;
  /** The lowest and the highest version of the protocol that this process speaks. */
  readonly versions: readonly [lowest: number, highest: number];
  /** Nodes and quorum of this process: see `configurationText`. */
  readonly configuration: string;
  /** A replica may take the place of the server: it votes only while it has been the primary ever since it was joined. */
  readonly failover: boolean;
}

export type JoinReply =
  /**
   * The node may vote in `quarantineMs`; 0 = now. `others` are the other configurations that joined this server within a day, in
   * the order of their latest joins. `server` is equal for two nodes that lead to one server. `isMoved`: another start of a server
   * joined on this connection before. `upMs`: another one joined on any connection before, and this one has been there to give
   * locks for so long, at least.
   */
  | {
      readonly kind: 'joined';
      readonly quarantineMs: number;
      readonly server: string;
      readonly others?: readonly string[];
      readonly isMoved?: boolean;
      readonly upMs?: number;
    }
  /** The server is used by versions of this package that speak no version of the protocol that this one does. */
  | {
      readonly kind: 'disagree';
      readonly versions: readonly [lowest: number, highest: number];
      readonly floorRetentionMs: number;
    }
  | NodeFailure;

export interface AcquireRequest {
  readonly names: LockNames;
  /** o: fresh per attempt. */
  readonly holder: string;
  /** p: the proposed token, microseconds. */
  readonly ballot: number;
  readonly ttlMs: number;
}

export type AcquireReply =
  | { readonly kind: 'accepted' }
  /**
   * Key at `index` has another holder; it is the first held one in the order of the request, so that all nodes name the same.
   * `remainingMs` is -1 when it has no TTL; `floor` is the highest over all keys.
   */
  | {
      readonly kind: 'held';
      readonly index: number;
      readonly remainingMs: number;
      readonly floor: number;
      readonly holder: string;
      /** More than that it is held, for messages. */
      readonly why?: string;
    }
  /** The ballot is not above `floor`, the highest ballot that the node remembers, or the clock of the node refuses it (`byClock`). */
  | {
      readonly kind: 'stale';
      readonly floor: number;
      readonly nowMicros: number;
      readonly byClock: boolean;
    }
  /** The ballot is more than a day ahead of the node. */
  | { readonly kind: 'ahead'; readonly nowMicros: number; readonly floor: number }
  | { readonly kind: 'quarantined'; readonly remainingMs: number }
  | { readonly kind: 'unjoined' }
  | NodeFailure;

export interface ExtendRequest {
  readonly names: LockNames;
  readonly holder: string;
  /** T: the ballot with which the lock was granted. */
  readonly ballot: number;
  readonly ttlMs: number;
}

export type ExtendReply =
  /** `recreated`: how many keys were missing and have been set again. */
  | { readonly kind: 'extended'; readonly recreated: number }
  /** `revoked`: the value of {@link RevokeRequest}, where that took the place of the holder. `why`: another reason, for messages. */
  | { readonly kind: 'lost'; readonly revoked?: string; readonly why?: string }
  | { readonly kind: 'quarantined'; readonly remainingMs: number }
  | { readonly kind: 'unjoined' }
  | NodeFailure;

/** A vote that is asked of every node: for a new lock or for an extension. */
export type VoteRequest =
  | (AcquireRequest & { readonly kind: 'acquire' })
  /** `grantedAtMs`, `validUntilMs`: the beginning of the lock, and the end of its validity before, by the clock of the service. */
  | (ExtendRequest & {
      readonly kind: 'extend';
      readonly grantedAtMs: number;
      readonly validUntilMs: number;
    });

export type VoteReply = AcquireReply | ExtendReply;

export interface ReleaseRequest {
  readonly names: LockNames;
  readonly holder: string;
  /** False: the attempt was abandoned, its ballot is forgotten. */
  readonly granted: boolean;
  /**
   * Names the process that waits longest, and takes its own service out of the line of a lock that was held; otherwise such a lock
   * is kept for its own process for a moment.
   */
  readonly pass: boolean;
  /** Nothing but this: a lock that was held ends by itself after so many whole milliseconds, if not before. */
  readonly keepMs?: number;
}

export type ReleaseReply = { readonly kind: 'released'; readonly deleted: number } | NodeFailure;

export interface WaitRequest {
  /** The names of one key. */
  readonly names: LockNames;
  /** `<mark> <ms for which a lock is kept for it> <channel>`. */
  readonly member: string;
  /** The place in the line, microseconds; 0 = the clock of the server says it. */
  readonly ticket: number;
  /** The time for which the line is remembered from now on, ms. */
  readonly lifeMs: number;
}

export type WaitReply =
  /** `freeInMs`: until it is worth asking again; 0 when the lock is free, -1 when it is kept for this process. */
  { readonly kind: 'waiting'; readonly ticket: number; readonly freeInMs: number } | NodeFailure;

export interface InspectRequest {
  readonly names: LockNames;
}

export type InspectReply =
  /** `holder` is `null` when free; `remainingMs` -1 without TTL, 0 when free; `floor` 0 when none is remembered. */
  | {
      readonly kind: 'inspected';
      readonly holder: string | null;
      readonly remainingMs: number;
      readonly floor: number;
      /** The text that the process of the holder wrote of itself. */
      readonly process: string | null;
    }
  | NodeFailure;

export interface RevokeRequest {
  readonly names: LockNames;
  readonly holder: string;
  /** The value that takes the place of the holder: see `revokedValue`. */
  readonly value: string;
  /** The least time for which the lock stays taken, ms. */
  readonly leastMs: number;
  /** The channel on which the process of the holder may hear of it. */
  readonly channel: string;
  /** Becomes the floor of the key, so that no call is granted whose number is not above it. Then the value may be there already. */
  readonly floor?: number;
}

export type RevokeReply =
  /** `remainingMs`: for how long the lock stays taken; `null`: it had not this holder, and nothing was written. */
  | { readonly kind: 'revoked'; readonly remainingMs: number | null }
  /** The floor that was asked for is less than two above that of the key, or more than a day ahead: `limit` and two is neither. */
  | { readonly kind: 'outnumbered'; readonly limit: number }
  | NodeFailure;

export interface ListRequest {
  readonly keyPrefix: string;
  readonly keysBegin: string;
  /** After so many names it stops, and says that there may be more. */
  readonly most: number;
}

export type ListReply =
  | { readonly kind: 'listed'; readonly names: readonly string[]; readonly isComplete: boolean }
  | NodeFailure;

/** The facts of one server that the start-up checks want to know. */
export interface NodeFacts {
  readonly kind: 'facts';
  /** Changes with every start of the server; equal for two addresses of one server. */
  readonly runId: string;
  /** The addresses of the primaries at the other end of several connections, where these lead to more than one; without ports. */
  readonly servers?: readonly string[] | undefined;
  readonly version: string;
  /** `master`, `slave` or `sentinel`; empty where our user may not know. */
  readonly role: string;
  readonly clusterEnabled: boolean;
  /** Who says which server is the primary, so that it may be another one after a failover. */
  readonly foundBy?: 'sentinel' | 'cluster' | undefined;
  readonly maxmemoryPolicy: string;
  readonly appendOnly: boolean;
  readonly connectedReplicas: number;
  /** Whether it stops writing when its replicas stop answering (`min-replicas-to-write`). */
  readonly needsReplicas?: boolean;
  /** The settings `min-replicas-to-write` and `min-replicas-max-lag` in ms; missing where our user may not read them. */
  readonly minReplicas?: number | undefined;
  readonly maxLagMs?: number | undefined;
  /** Why it refuses every write at the moment, in the server's own words; undefined when it does not. */
  readonly refusesWrites?: string | undefined;
  /** The rights that our user lacks for locks, as the server's own messages. It is empty when all are there. */
  readonly missingRights: readonly string[];
  /** The rights that our user lacks, and that only the order of those who wait needs. */
  readonly missingTurnRights?: readonly string[];
  /** What the node itself found wrong or doubtful. Where it is given, nothing is concluded from the other facts. */
  readonly findings?: readonly {
    readonly severity: 'error' | 'warning';
    readonly message: string;
  }[];
}
