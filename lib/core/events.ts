import type { LockLostError, NodeCause, StaleTokenError } from './errors.ts';

/** What every event about a lock carries. */
interface AboutKeys {
  readonly keys: readonly string[];
}

interface AboutLock extends AboutKeys {
  /** Value of the token; the ballot while a token source has not issued one. */
  readonly token: number;
}

/** What happens to locks and nodes, for logs and metrics. Contention is not an error, and no event carries a secret. */
export type LockEvent =
  | (AboutLock & { readonly type: 'acquired'; readonly waitedMs: number; readonly tries: number })
  | (AboutKeys & { readonly type: 'busy'; readonly waitedMs: number })
  | (AboutKeys & {
      readonly type: 'unavailable';
      readonly waitedMs: number;
      readonly causes: readonly NodeCause[];
    })
  | (AboutLock & { readonly type: 'extended'; readonly remainingMs: number })
  /** An extension got no quorum; the lock is neither lost nor renewed, and the extension is tried again. */
  | (AboutLock & {
      readonly type: 'extension-failed';
      readonly remainingMs: number;
      readonly causes: readonly NodeCause[];
    })
  /** At most once for each lock, and never together with `released`. */
  | (AboutLock & { readonly type: 'lost'; readonly error: LockLostError })
  /** The last section ended, and the nodes are being notified; once for each lock that was not lost. */
  | (AboutLock & { readonly type: 'released'; readonly heldMs: number })
  /** The outer work ended more than one ttl ago, but sections that joined its lock still run and keep it. Once. */
  | (AboutLock & {
      readonly type: 'release-delayed';
      readonly sections: number;
      readonly sinceMs: number;
    })
  /** Fewer nodes than a quorum confirmed the release; it is repeated, and the key expires with its TTL at the latest. */
  | (AboutLock & { readonly type: 'release-incomplete'; readonly causes: readonly NodeCause[] })
  /** The fence of the module refused a token that is not the newest any more; nothing was written with it. */
  | (AboutKeys & { readonly type: 'stale'; readonly error: StaleTokenError })
  /** A round trip to a quorum took more than a tenth of the TTL. At most one a minute. */
  | { readonly type: 'slow-quorum'; readonly roundTripMs: number; readonly ttlMs: number }
  /** The node votes, after the quarantine if there is one. `node-left`, `node-failing`, or one after the other, end that. */
  | { readonly type: 'node-joined'; readonly address: string; readonly quarantineMs: number }
  /** The node can't be asked: its connection closed, or it has forgotten that this process joined. */
  | { readonly type: 'node-left'; readonly address: string; readonly message: string }
  /**
   * The node refused to vote, or did not answer in time, three times in a row; or it answers no `PING` while nobody asks
   * for votes; or it has been away for 2 s, since it left or since the start. One fault less is tolerated until `node-joined`.
   */
  | { readonly type: 'node-failing'; readonly address: string; readonly reason: string };

/**
 * Receives events. Those of a lock run in the async context of the call that acquired it, those of nodes in the one in which
 * this package was loaded. What it throws or rejects with changes nothing; the first failure is logged as an error.
 */
export interface LockEventListener {
  (event: LockEvent): void;
  /** True: `acquired`, `extended` and `released` are of no interest to it, and need not be made. @default false */
  readonly skipsOrdinary?: boolean;
}
