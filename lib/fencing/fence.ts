import type { StaleTokenError } from '../core/errors.ts';
import type { FenceEventListener, StaleContext } from './fence-event.ts';

export { Fence } from './fence-port.ts';
export type { FenceKeys, FenceTransactionOptions, IsolationLevel } from './fence-port.ts';
export type { FenceEvent, FenceEventListener, StaleContext } from './fence-event.ts';

/** Options of every fence. */
export interface FenceOptions {
  /**
   * Runs once for each refused call, before it rejects: undo what this holder did elsewhere, for example refund a payment.
   * Awaited. When it throws, the caller still gets the StaleTokenError, and a `compensation-failed` event (without a listener:
   * a process warning) tells.
   */
  readonly onStale?: (error: StaleTokenError, context: StaleContext) => void | Promise<void>;
  /** Hears what happens at this fence. */
  readonly onEvent?: FenceEventListener;
}

/** Options of a fence in an SQL database. */
export interface SqlFenceOptions extends FenceOptions {
  /** Name of the table, with its schema when needed. @default 'redlock_fence' */
  readonly table?: string;
}
