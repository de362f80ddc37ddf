import type { BookingOutcome } from '../seats/seats.service.ts';
import type { BookingStep } from '../seats/booking-journal.ts';

/** Command of the conductor to a worker. Those with an `id` are answered. */
export type WorkerCommand =
  | {
      readonly type: 'book';
      readonly id: number;
      readonly seatId: string;
      readonly customer: string;
      readonly fenced: boolean;
      /** The payment provider's answer stays out until `let-answer-through`. */
      readonly holdAnswer: boolean;
    }
  | { readonly type: 'inspect'; readonly id: number; readonly key: string }
  | { readonly type: 'let-answer-through'; readonly customer: string }
  | { readonly type: 'shut-down' };

/** An error as it crosses the process boundary. */
export interface ReportedError {
  readonly name: string;
  readonly message: string;
  /** Whether it is one of the package's documented errors. */
  readonly isTyped: boolean;
  readonly code?: string;
  /** Behavior of each node, where the error says so. */
  readonly causes: readonly { readonly address: string; readonly message: string }[];
}

export interface BookingReply {
  readonly outcome: BookingOutcome;
}

export interface InspectReply {
  /** Identity of the holder, `null` when the lock is free, `undefined` when too few servers answered to know. */
  readonly holder: string | null | undefined;
  readonly remainingMs: number;
  readonly lastToken: string;
  /** Number of nodes that answered. */
  readonly answers: number;
}

/** The lock events which the story tells of. */
export type WorkerLockEvent =
  | {
      readonly type: 'acquired' | 'released' | 'lost';
      readonly keys: readonly string[];
      readonly token: number;
    }
  | { readonly type: 'node-joined'; readonly address: string; readonly quarantineMs: number }
  | { readonly type: 'node-left'; readonly address: string };

export type WorkerMessage =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: ReportedError }
  | { readonly type: 'reply'; readonly id: number; readonly value: BookingReply | InspectReply }
  | { readonly type: 'error-reply'; readonly id: number; readonly error: ReportedError }
  /** A warning or an error in the worker's own log. */
  | { readonly type: 'logged'; readonly text: string }
  | { readonly type: 'step'; readonly step: BookingStep }
  | { readonly type: 'lock'; readonly event: WorkerLockEvent };
