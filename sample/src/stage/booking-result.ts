import type { BookingOutcome } from '../seats/seats.service.ts';
import type { ReportedError } from './worker-messages.ts';

/** End of one booking, as the process that asked for it sees it. */
export interface BookingResult {
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  readonly outcome: BookingOutcome | 'failed';
  /** Present when it failed. */
  readonly error?: ReportedError;
}
