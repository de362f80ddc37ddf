import { setTimeout as sleep } from 'node:timers/promises';
import { pauseHolder, type Cast } from '../pause-holder.ts';
import type { Stage } from '../stage.ts';
import type { Board } from './board.ts';

const CUSTOMERS = ['ana', 'ben', 'cleo', 'dan', 'eve', 'fay', 'gil', 'hal'];
const ROWS = ['A', 'B', 'C', 'D'];
const SEATS_PER_ROW = 6;

/** A customer comes about this often: slow enough to be followed, fast enough that somebody always holds a lock. */
const PACE_MS = 700;

/** Eyes need a moment between the write of the successor and the late one. */
const PAUSE_MS = 1200;

/** Customers keep coming to a hall that is emptied whenever it is sold out, and wait while the stories are played. */
export class Sale {
  #evening = 0;
  #isStopped = false;
  #isPlayed = false;
  #reading: Promise<unknown> = Promise.resolve();
  /** The bookings that are under way, by their workers. */
  readonly #open = new Map<number, Promise<unknown>>();

  constructor(
    private readonly stage: Stage,
    private readonly board: Board,
  ) {
    stage.log.subscribe((event) => {
      if (event.type === 'step' && event.name === 'booked') this.#readBooks();
    });
  }

  async run(): Promise<void> {
    this.#openEvening();
    while (!this.#isStopped) {
      await sleep(PACE_MS);
      if (!this.board.isPlaying) this.#welcomeCustomer();
    }
  }

  stop(): void {
    this.#isStopped = true;
  }

  /** Plays the stories for the first who looks, before anything is pressed. */
  welcomeViewer(): void {
    if (!this.#isPlayed) void this.play();
  }

  /** Plays the story of a holder that is stopped with the fence and without it, at once. */
  async play(): Promise<void> {
    if (this.board.isPlaying) return;
    this.#isPlayed = true;
    this.board.isPlaying = true;
    await Promise.all(this.#open.values());
    // A seat that was booked a moment ago is not free any more.
    await this.#reading;
    if (this.#freeSeats().length < 2) this.#openEvening();
    const [first, second] = this.#freeSeats();
    await Promise.all([
      this.#playStory({
        fenced: true,
        seat: first!,
        holder: { worker: 1, customer: 'ana' },
        successor: { worker: 3, customer: 'ben' },
      }),
      this.#playStory({
        fenced: false,
        seat: second!,
        holder: { worker: 2, customer: 'cleo' },
        successor: { worker: 3, customer: 'dan' },
      }),
    ]);
    this.board.isPlaying = false;
    // The page shows that the buttons can be pushed again.
    this.stage.log.tell('the sale goes on');
  }

  async #playStory(cast: Cast): Promise<void> {
    this.board.beginStory(cast);
    try {
      await pauseHolder(this.stage, cast, PAUSE_MS);
    } catch (error) {
      this.board.breakOff(cast.fenced, error instanceof Error ? error.message : String(error));
    }
  }

  #openEvening(): void {
    this.#evening += 1;
    this.board.seats = ROWS.flatMap((row) =>
      Array.from({ length: SEATS_PER_ROW }, (_, index) => ({
        // New ids: no lock and no token of another evening counts.
        id: `${row}${index + 1}/${this.#evening}`,
        customers: [],
      })),
    );
    this.stage.log.tell(`evening ${this.#evening}: ${this.board.seats.length} seats are on sale`);
  }

  /** Sends a customer to a worker that is idle: to a free seat, which another customer may be about to get. */
  #welcomeCustomer(): void {
    const seats = this.#freeSeats();
    if (seats.length === 0) return this.#openEvening();
    const idle = this.stage.workers.filter(
      ({ number, state }) => state === 'working' && !this.#open.has(number),
    );
    const worker = pick(idle);
    if (!worker) return;
    const booking = worker
      .book(pick(seats)!, pick(CUSTOMERS)!)
      .then(() => this.#open.delete(worker.number));
    this.#open.set(worker.number, booking);
  }

  #freeSeats(): string[] {
    return this.board.seats.filter(({ customers }) => customers.length === 0).map(({ id }) => id);
  }

  /** One after the other, so that what was read last is the newest. */
  #readBooks(): void {
    this.#reading = this.#reading.then(async () => {
      try {
        const seats = this.board.seats.map(({ id }) => id);
        this.board.recordBooks(await this.stage.database.books(seats));
        this.stage.log.append({ type: 'books' });
      } catch (error) {
        if (!this.#isStopped) this.stage.log.tell(`the books can't be read: ${String(error)}`);
      }
    });
  }
}

function pick<T>(items: readonly T[]): T | undefined {
  return items[Math.floor(Math.random() * items.length)];
}
