import type { LockLostError, NodeCause, StaleTokenError } from './errors.ts';

/** What happens to locks and nodes, for logs and metrics. Contention is not an error, and no event carries a secret. */
export type LockEvent =
  | {
      readonly type: 'acquired';
      readonly keys: readonly string[];
      readonly token: number;
      readonly waitedMs: number;
      readonly tries: number;
    }
  | { readonly type: 'busy'; readonly keys: readonly string[]; readonly waitedMs: number }
  | {
      readonly type: 'unavailable';
      readonly keys: readonly string[];
      readonly waitedMs: number;
      readonly causes: readonly NodeCause[];
    }
  | {
      readonly type: 'extended';
      readonly keys: readonly string[];
      readonly token: number;
      readonly remainingMs: number;
    }
  /** An extension got no quorum; it is neither lost nor renewed, and is tried again. */
  | {
      readonly type: 'extension-failed';
      readonly keys: readonly string[];
      readonly token: number;
      readonly remainingMs: number;
      readonly causes: readonly NodeCause[];
    }
  | {
      readonly type: 'lost';
      readonly keys: readonly string[];
      readonly token: number;
      readonly error: LockLostError;
    }
  | {
      readonly type: 'released';
      readonly keys: readonly string[];
      readonly token: number;
      readonly heldMs: number;
    }
  /** The fence of the module refused a token that is not the newest any more; nothing was written with it. */
  | {
      readonly type: 'stale';
      readonly keys: readonly string[];
      readonly error: StaleTokenError;
    }
  /** Fewer nodes than a quorum confirmed the release; the rest is repeated, and dies with its TTL at the latest. */
  | {
      readonly type: 'release-incomplete';
      readonly keys: readonly string[];
      readonly token: number;
      readonly causes: readonly NodeCause[];
    }
  /** A round trip to a quorum took more than a tenth of the TTL. At most one a minute. */
  | { readonly type: 'slow-quorum'; readonly roundTripMs: number; readonly ttlMs: number }
  | { readonly type: 'node-joined'; readonly address: string; readonly quarantineMs: number }
  | { readonly type: 'node-left'; readonly address: string; readonly message: string };

/** Receives events. It must not throw; what it throws is dropped. */
export type LockEventListener = (event: LockEvent) => void;
