import type { StaleTokenError } from '../core/errors.ts';
import type { FenceToken } from './fence-port.ts';

/** Where a stale token was refused. */
export interface StaleContext {
  /** `transaction` and `claim`: already rolled back. `advance`: your transaction is still open; it must roll back. */
  readonly operation: 'transaction' | 'advance' | 'claim' | 'write';
  readonly token: FenceToken;
}

/** What happens at a fence, for counting. */
export type FenceEvent =
  | {
      readonly type: 'admitted';
      readonly keys: readonly string[];
      readonly token: string;
      readonly operation: StaleContext['operation'];
    }
  | {
      readonly type: 'stale';
      readonly keys: readonly string[];
      readonly token: string;
      readonly operation: StaleContext['operation'];
      readonly error: StaleTokenError;
    }
  /** The database made the transaction give way; it runs again with the same token. */
  | {
      readonly type: 'retried';
      readonly keys: readonly string[];
      readonly token: string;
      readonly attempt: number;
      readonly error: unknown;
    }
  /** `onStale` failed; the caller gets the StaleTokenError all the same. */
  | {
      readonly type: 'compensation-failed';
      readonly keys: readonly string[];
      readonly token: string;
      readonly error: unknown;
    };

/** Hears what happens at a fence. It must not throw; what it throws is dropped. */
export type FenceEventListener = (event: FenceEvent) => void;
