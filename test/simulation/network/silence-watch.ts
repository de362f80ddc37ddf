import type { SimulatedProcess } from '../world/simulated-process.ts';

const TICKS = 4;
const HEARTBEAT_MS = 10_000;

/** Link that is watched. */
export interface WatchedLink {
  /** An answer is due. */
  isAsked(): boolean;
  ping(): void;
  /** An answer has been due for too long; said again and again while it is. */
  doubt(): void;
}

/** Checks that something arrives on a connection now and then, and says when nothing does. Counts only time in which we read. */
export class SilenceWatch {
  readonly #process: SimulatedProcess;
  readonly #tickMs: number;
  readonly #link: WatchedLink;
  #silentTicks = 0;
  #idleMs = 0;
  #timer: unknown;

  constructor(process: SimulatedProcess, limitMs: number, link: WatchedLink) {
    this.#process = process;
    this.#tickMs = limitMs / TICKS;
    this.#link = link;
    this.#arm();
  }

  /** An answer came. */
  spoke(): void {
    this.#silentTicks = 0;
    this.#idleMs = 0;
  }

  close(): void {
    this.#process.environment.timers.clear(this.#timer);
  }

  #arm(): void {
    const { environment } = this.#process;
    this.#timer = environment.timers.set(
      () => {
        this.#arm();
        environment.afterPoll(() => this.#look());
      },
      this.#tickMs,
      true,
    );
  }

  #look(): void {
    if (this.#link.isAsked()) {
      this.#silentTicks += 1;
      if (this.#silentTicks > TICKS) this.#link.doubt();
      return;
    }
    this.#silentTicks = 0;
    this.#idleMs += this.#tickMs;
    const { random } = this.#process.environment;
    if (this.#idleMs < HEARTBEAT_MS * (0.75 + random.fraction() / 2)) return;
    this.#idleMs = 0;
    this.#link.ping();
  }
}
