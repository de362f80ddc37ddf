import { setTimeout as sleep } from 'node:timers/promises';
import type { BookingResult } from '../stage/booking-result.ts';
import type { StageEvent } from '../stage/stage-event.ts';
import type { Stage } from '../stage/stage.ts';
import { chooseBooking } from './choose-booking.ts';
import { freezeHolder } from './freeze-holder.ts';
import { seatsOf } from './hall.ts';
import { SaleConflict } from './sale-conflict.ts';
import type { StoryCast } from './story.ts';

const CUSTOMERS = ['ana', 'ben', 'cleo', 'dan', 'eve', 'fay', 'gil', 'hal'];

/** A customer comes about this often: slow enough to be followed, fast enough that somebody always holds a lock. */
const PACE_MS = 700;

/** Time that a sold-out hall is shown. */
const INTERVAL_MS = 4000;

/** A booking that has not ended. */
export interface OpenBooking {
  readonly worker: number;
  readonly seatId: string;
  readonly customer: string;
  readonly fenced: boolean;
  /** Result in which it ended; undefined when its worker ended before. */
  readonly result: Promise<BookingResult | undefined>;
}

/** Customers keep coming to a hall that is emptied whenever it is sold out. Each worker serves one of them at a time. */
export class EndlessSale {
  readonly #open = new Set<OpenBooking>();
  readonly #stopped = new AbortController();
  readonly #unsubscribe: () => void;
  #evening = 0;
  #unsold = new Set<string>();
  /** Seats that no customer chooses by themselves. */
  readonly #reservedSeats = new Set<string>();
  #isFenced = true;
  #isFreezing = false;
  #hasViewer = false;
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

  /** Serves nobody new. Open bookings end by themselves, or with their workers. */
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
        ? 'fencing is on: the database rejects old tokens'
        : 'fencing is off: only the lock protects the seats',
    );
  }

  /**
   * Stops a holder for longer than its lock lives, once for each of `kinds`: with the fence (true) or without.
   * Answers at once; the log tells how it goes on.
   * @throws SaleConflict when one is under way already, or workers are missing.
   */
  beginFreeze(kinds: readonly boolean[] = [this.#isFenced]): void {
    if (this.#isFreezing) throw new SaleConflict('A holder is being frozen already.');
    const casts = this.#cast(kinds);
    this.#isFreezing = true;
    void this.#freeze(casts);
  }

  /** Plays the story with the fence and without it for the first who looks, before anything is pressed. */
  welcomeViewer(): void {
    if (this.#hasViewer || this.#isFreezing) return;
    this.#hasViewer = true;
    try {
      this.beginFreeze([true, false]);
    } catch (error) {
      // A worker is gone. Who pushes the button learns that.
      if (!(error instanceof SaleConflict)) throw error;
    }
  }

  /** Holders at workers that serve nobody if possible; one more worker serves all successors. */
  #cast(kinds: readonly boolean[]): StoryCast[] {
    const busy = this.#busyWorkers();
    const workers = this.stage.workers
      .filter(({ state }) => state === 'working')
      .map(({ number }) => number)
      .sort((one, other) => Number(busy.has(one)) - Number(busy.has(other)));
    const successor = workers[kinds.length];
    if (successor === undefined) throw new SaleConflict('There is no other worker to go on.');
    // Viewers need not wait for the next evening when the hall is sold out.
    if (this.#choice().freeSeats.length < kinds.length) this.#openEvening();
    const { freeSeats, idleCustomers } = this.#choice();
    return kinds.map((fenced, index) => ({
      fenced,
      seatId: freeSeats[index]!,
      holder: { worker: workers[index]!, customer: idleCustomers[2 * index]! },
      successor: { worker: successor, customer: idleCustomers[2 * index + 1]! },
    }));
  }

  async #freeze(casts: readonly StoryCast[]): Promise<void> {
    for (const { seatId } of casts) this.#reservedSeats.add(seatId);
    this.stage.log.append({ type: 'holder-freeze', isUnderWay: true });
    await Promise.all(casts.map((cast) => this.#play(cast)));
    this.#reservedSeats.clear();
    this.#isFreezing = false;
    this.stage.log.append({ type: 'holder-freeze', isUnderWay: false });
  }

  async #play(cast: StoryCast): Promise<void> {
    const { signal } = this.#stopped;
    try {
      await freezeHolder(this, cast, signal);
    } catch (error) {
      if (signal.aborted) return;
      const reason = error instanceof Error ? error.message : String(error);
      this.stage.log.append({ type: 'story-broken-off', fenced: cast.fenced, reason });
      this.stage.tell(`no holder was frozen: ${reason}`);
    }
  }

  /** Asks a worker for a booking, now. */
  book(
    booking: Pick<OpenBooking, 'worker' | 'seatId' | 'customer' | 'fenced'>,
    { holdAnswer = false }: { readonly holdAnswer?: boolean } = {},
  ): Promise<BookingResult | undefined> {
    const { worker, seatId, customer, fenced } = booking;
    this.stage.log.append({ type: 'booking-asked', worker, seatId, customer, fenced });
    const result = this.stage
      .worker(worker)
      .book(seatId, customer, { fenced, holdAnswer })
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
        // A freeze may have opened it meanwhile.
        if (this.#unsold.size === 0) this.#openEvening();
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
    const busy = this.#busyWorkers();
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
    const unsold = [...this.#unsold].filter((seatId) => !this.#reservedSeats.has(seatId));
    return {
      freeSeats: unsold.filter((seatId) => !contended.has(seatId)),
      contendedSeats: unsold.filter((seatId) => contended.has(seatId)),
      idleCustomers: this.#idleCustomers(),
    };
  }

  #busyWorkers(): Set<number> {
    return new Set([...this.#open].map(({ worker }) => worker));
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
