import type { LockInspection } from 'nestjs-fenced-lock';
import type { Books } from '../stage/books.ts';
import type { StoryCast } from './story.ts';

/** Events in a sale without end, besides those on every stage. */
export type SaleEvent =
  /** Seats are all free again. Their ids are new, so that no lock or token of another evening counts. */
  | {
      readonly type: 'evening-opened';
      readonly evening: number;
      readonly seats: readonly string[];
    }
  | {
      readonly type: 'booking-asked';
      readonly worker: number;
      readonly seatId: string;
      readonly customer: string;
      /** Booking with the fence in the database, or with the lock alone. */
      readonly fenced: boolean;
    }
  | { readonly type: 'fence-switched'; readonly isOn: boolean }
  /** Request to have the current holder stopped for longer than its lock lives. */
  | { readonly type: 'holder-freeze'; readonly isUnderWay: boolean }
  /** A holder is about to be stopped. */
  | ({ readonly type: 'story-begun' } & StoryCast)
  | { readonly type: 'story-broken-off'; readonly fenced: boolean; readonly reason: string }
  /** Answer of the nodes about a lock. */
  | {
      readonly type: 'lock-inspected';
      /** When they were asked, in ms since the start. */
      readonly askedAtMs: number;
      readonly inspection: LockInspection;
    }
  /** Answer of the database about the seats of this evening. */
  | { readonly type: 'books-read'; readonly evening: number; readonly books: Books };
