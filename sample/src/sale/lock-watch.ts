import { setTimeout as sleep } from 'node:timers/promises';
import type { LockInspection } from 'nestjs-fenced-lock';
import type { StageLog } from '../stage/stage-log.ts';
import type { EndlessSale } from './endless-sale.ts';

/** Often enough to see a validity run out, and little work for the servers. */
const INTERVAL_MS = 200;

/** Asks the nodes about the locks of all open bookings, again and again, and logs what they say. */
export class LockWatch {
  readonly #stopped = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    private readonly sale: EndlessSale,
    private readonly log: StageLog,
    private readonly inspect: (key: string) => Promise<LockInspection>,
  ) {}

  start(): void {
    this.#running ??= this.#run();
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopped;
    while (!signal.aborted) {
      const keys = new Set(this.sale.openBookings.map(({ seatId }) => `seat:${seatId}`));
      await Promise.all([...keys].map((key) => this.#ask(key)));
      // An end of the watch is no failure of it.
      await sleep(INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #ask(key: string): Promise<void> {
    const askedAtMs = this.log.nowMs;
    try {
      const inspection = await this.inspect(key);
      if (this.#stopped.signal.aborted) return;
      this.log.append({ type: 'lock-inspected', askedAtMs, inspection });
    } catch {
      // Inspections fail only at the end: they answer for nodes that don't.
    }
  }
}
