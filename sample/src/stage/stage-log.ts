import type { StageEvent, StageRecord } from './stage-event.ts';

/** A bound that only a hang crosses: acts wait for facts, not for times. */
const PATIENCE_MS = 60_000;

/** Log of all that happened so far, for views to follow and for acts to wait on. */
export class StageLog {
  /** The newest `capacity` records. */
  readonly records: StageRecord[] = [];
  readonly #listeners = new Set<(record: StageRecord) => void>();
  readonly #startedMs = performance.now();

  /** @param capacity older records are forgotten; a sale without end would fill the memory. Default: all are kept. */
  constructor(private readonly capacity = Number.POSITIVE_INFINITY) {}

  /** Ms since the start, as records have it. */
  get nowMs(): number {
    return performance.now() - this.#startedMs;
  }

  append(event: StageEvent): void {
    const record = { atMs: this.nowMs, event };
    this.records.push(record);
    if (this.records.length > this.capacity) this.records.shift();
    for (const listener of this.#listeners) listener(record);
  }

  /** @returns stops the subscription. */
  subscribe(listener: (record: StageRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves at the first event from now on that matches.
   * @throws when none came for a time that only a hang takes; `description` says what was missing.
   */
  next(matches: (event: StageEvent) => boolean, description: string): Promise<StageEvent> {
    const next = new Promise<StageEvent>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        stop();
      };
      const stop = this.subscribe(({ event }) => {
        if (!matches(event)) return;
        settle();
        resolve(event);
      });
      const timer = setTimeout(() => {
        settle();
        reject(new Error(`Not seen within ${PATIENCE_MS / 1000} s: ${description}.`));
      }, PATIENCE_MS);
      timer.unref();
    });
    // A caller that stopped waiting for it has found another way to go on.
    next.catch(() => undefined);
    return next;
  }
}
