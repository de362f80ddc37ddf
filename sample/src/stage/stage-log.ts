import type { StageEvent, StageRecord } from './stage-event.ts';

/** A bound that only a hang crosses: acts wait for facts, not for times. */
const PATIENCE_MS = 60_000;

/** All that happened so far, for views to follow and for acts to wait on. */
export class StageLog {
  readonly records: StageRecord[] = [];
  readonly #listeners = new Set<(record: StageRecord) => void>();
  readonly #startedMs = performance.now();

  append(event: StageEvent): void {
    const record = { atMs: performance.now() - this.#startedMs, event };
    this.records.push(record);
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
        reject(new Error(`Waited ${PATIENCE_MS / 1000} s in vain: ${description}.`));
      }, PATIENCE_MS);
      timer.unref();
    });
    // Whoever stopped waiting for it has found another way to go on.
    next.catch(() => undefined);
    return next;
  }
}
