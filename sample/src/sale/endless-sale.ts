import { setTimeout as sleep } from 'node:timers/promises';
import type { BookingResult } from '../stage/booking-result.ts';
import type { StageEvent } from '../stage/stage-event.ts';
import type { Stage } from '../stage/stage.ts';
import { chooseBooking } from './choose-booking.ts';
import { freezeHolder } from './freeze-holder.ts';
import { seatsOf } from './hall.ts';
import { SaleConflict } from './sale-conflict.ts';

const CUSTOMERS = ['ana', 'ben', 'cleo', 'dan', 'eve', 'fay', 'gil', 'hal'];

/** A customer comes about this often: slow enough to be followed, fast enough that somebody always holds a lock. */
const PACE_MS = 700;

/** How long a sold-out hall is shown. */
const INTERVAL_MS = 4000;

/** A booking that has not ended. */
export interface OpenBooking {
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  readonly fenced: boolean;
  /** How it ended; undefined when its worker ended before. */
  readonly result: Promise<BookingResult | undefined>;
}

/** Customers keep coming to a hall that is emptied whenever it is sold out. Each worker serves one of them at a time. */
export class EndlessSale {
  readonly #open = new Set<OpenBooking>();
  readonly #stopped = new AbortController();
  readonly #unsubscribe: () => void;
  #evening = 0;
  #unsold = new Set<string>();
  #reservedSeat: string | undefined;
  #isFenced = true;
  #isFreezing = false;
  #running: Promise<void> | undefined;

  constructor(
    readonly stage: Stage,
    private readonly random: () => number = Math.random,
  ) {
    this.#unsubscribe = stage.log.subscribe(({ event }) => this.#onEvent(event));
  }

  get openBookings(): readonly OpenBooking[] {
    return [...this.#open];
  }

  /** Whether new bookings use the fence in the database. */
  get isFenced(): boolean {
    return this.#isFenced;
  }

  start(): void {
    this.#openEvening();
    this.#running ??= this.#run().catch((error: unknown) => {
      if (!this.#stopped.signal.aborted) this.stage.tell(`the sale broke off: ${String(error)}`);
    });
  }

  /** Nobody new is served. Open bookings end by themselves, or with their workers. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#unsubscribe();
    await this.#running;
  }

  switchFence(isOn: boolean): void {
    if (this.#isFenced === isOn) return;
    this.#isFenced = isOn;
    this.stage.log.append({ type: 'fence-switched', isOn });
    this.stage.tell(
      isOn
        ? 'fencing is on: the database refuses old tokens'
        : 'fencing is off: only the lock protects the seats',
    );
  }

  /**
   * Has the next customer who pays meet a worker that stops. The log tells when that is over.
   * @throws SaleConflict when it is under way already.
   */
  beginFreeze(): void {
    if (this.#isFreezing) throw new SaleConflict('A holder is being frozen already.');
    this.#isFreezing = true;
    void this.#freeze();
  }

  async #freeze(): Promise<void> {
    this.stage.log.append({ type: 'holder-freeze', isUnderWay: true });
    try {
      await freezeHolder(this);
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      this.stage.tell(
        `no holder was frozen: ${error instanceof Error ? error.message : String(error)}`,
      );
    } finally {
      this.#reservedSeat = undefined;
      this.#isFreezing = false;
      this.stage.log.append({ type: 'holder-freeze', isUnderWay: false });
    }
  }

  /** From now on no customer chooses this seat by themselves, until the freeze is over. */
  reserve(seatId: string): void {
    this.#reservedSeat = seatId;
  }

  /** A customer who is not waiting for anything. */
  idleCustomer(): string {
    return this.#idleCustomers()[0] ?? 'ida';
  }

  /** Asks a worker for a booking, now. */
  book(
    booking: Pick<OpenBooking, 'worker' | 'seatId' | 'customer' | 'fenced'>,
  ): Promise<BookingResult | undefined> {
    const { worker, seatId, customer, fenced } = booking;
    this.stage.log.append({ type: 'booking-asked', worker, seatId, customer, fenced });
    const result = this.stage
      .worker(worker)
      .book(seatId, customer, { fenced })
      // The worker is gone, which the log tells.
      .catch(() => undefined)
      .finally(() => this.#open.delete(open));
    const open = { ...booking, result };
    this.#open.add(open);
    return result;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    for (;;) {
      await sleep(PACE_MS * (0.7 + 0.6 * this.random()), undefined, { signal });
      if (this.#unsold.size === 0 && this.#open.size === 0) {
        await sleep(INTERVAL_MS, undefined, { signal });
        this.#openEvening();
      }
      this.#welcomeCustomer();
    }
  }

  #openEvening(): void {
    this.#evening += 1;
    const seats = seatsOf(this.#evening);
    this.#unsold = new Set(seats);
    this.stage.log.append({ type: 'evening-opened', evening: this.#evening, seats });
    this.stage.tell(`evening ${this.#evening}: ${seats.length} seats are on sale`);
  }

  #welcomeCustomer(): void {
    const busy = new Set([...this.#open].map(({ worker }) => worker));
    const idle = this.stage.workers.filter(
      ({ number, state }) => state === 'working' && !busy.has(number),
    );
    const worker = idle[Math.floor(this.random() * idle.length)];
    if (!worker) return;
    const wish = chooseBooking(this.#choice(), this.random);
    if (wish) void this.book({ ...wish, worker: worker.number, fenced: this.#isFenced });
  }

  #choice(): Parameters<typeof chooseBooking>[0] {
    const contended = new Set([...this.#open].map(({ seatId }) => seatId));
    const unsold = [...this.#unsold].filter((seatId) => seatId !== this.#reservedSeat);
    return {
      freeSeats: unsold.filter((seatId) => !contended.has(seatId)),
      contendedSeats: unsold.filter((seatId) => contended.has(seatId)),
      idleCustomers: this.#idleCustomers(),
    };
  }

  #idleCustomers(): string[] {
    const waiting = new Set([...this.#open].map(({ customer }) => customer));
    return CUSTOMERS.filter((customer) => !waiting.has(customer));
  }

  #onEvent(event: StageEvent): void {
    if (event.type !== 'step') return;
    if (['booked', 'found-taken'].includes(event.step.name)) this.#unsold.delete(event.step.seatId);
  }
}
