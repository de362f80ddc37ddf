import type { StageEvent } from '../stage/stage-event.ts';
import type { Stage } from '../stage/stage.ts';

/** Reads the books of the evening after every step that changes them, and logs what the database says. */
export class BooksWatch {
  #evening = 0;
  #seats: readonly string[] = [];
  #isStopped = false;
  /** Event has come since the running read began. */
  #isStale = false;
  #reading: Promise<void> | undefined;
  readonly #unsubscribe: () => void;

  constructor(private readonly stage: Stage) {
    this.#unsubscribe = stage.log.subscribe(({ event }) => this.#onEvent(event));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#unsubscribe();
    await this.#reading;
  }

  #onEvent(event: StageEvent): void {
    if (event.type === 'evening-opened') {
      this.#evening = event.evening;
      this.#seats = event.seats;
    } else if (event.type !== 'step' || ['claimed', 'found-taken'].includes(event.step.name)) {
      return;
    }
    this.#isStale = true;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
  }

  async #read(): Promise<void> {
    while (this.#isStale && !this.#isStopped) {
      this.#isStale = false;
      const evening = this.#evening;
      try {
        const books = await this.stage.books(this.#seats);
        if (!this.#isStopped) this.stage.log.append({ type: 'books-read', evening, books });
      } catch (error) {
        if (!this.#isStopped) this.stage.tell(`the books can't be read: ${String(error)}`, 'bad');
      }
    }
  }
}
