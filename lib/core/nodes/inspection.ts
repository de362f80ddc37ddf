import type { NodeFailureReason } from '../errors.ts';

/**
 * What the nodes know of one key at the moment: for people and dashboards, never for deciding whether one may write.
 * `lastToken` is nothing to write with: the last ballot of a key belongs to its holder.
 */
export interface LockInspection {
  /** As the caller named it, without the prefix. */
  readonly key: string;
  /**
   * Random identity of the holder that a quorum of nodes reports; `null` when there is none. `undefined` when that is unknown:
   * with the nodes that did not answer there could be one.
   */
  readonly holder: string | null | undefined;
  /** How long the holder's lease runs on a quorum of nodes; 0 without a known holder. */
  readonly remainingMs: number;
  /** The largest ballot any answering node remembers, decimal; `'0'` when none. It may belong to an abandoned attempt. */
  readonly lastToken: string;
  /** What each node answered. */
  readonly nodes: readonly NodeInspection[];
}

/** What one node knows of one key at the moment. */
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
