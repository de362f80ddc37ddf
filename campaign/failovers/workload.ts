import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { isStaleTokenError, sqliteFence, type FenceToken } from '../../lib/fencing/index.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import type { Contestant, Held } from './contestants.ts';

/** The ways of holders, one key each, or several. */
const KEYS = ['brief 1', 'brief 2', 'long 1', 'long 2', 'eager 1', 'eager 2', 'eager 3'] as const;
const PAUSE_MS = 20;
const STEP_MS = 40;
const BRIEF_MS = [20, 300] as const;
const LONG_MS = [1_000, 6_000] as const;
/** A holder that lost its lock writes once more, so much later at most. */
const LATE_MS = 4_000;

/** The writes behind the fence for SQLite, and what became of them. */
export class FencedRecord {
  writes = 0;
  refused = 0;
  /** The writes of a lower token that were taken after one of a higher token. */
  staleTaken = 0;
  readonly #database = new Database(':memory:');
  readonly #fence = sqliteFence(this.#database);
  readonly #highest = new Map<string, number>();

  constructor() {
    this.#database.exec(this.#fence.ddl());
  }

  async write(token: FenceToken): Promise<void> {
    const [key] = token.keys as [string];
    const value = Number(token.value);
    this.writes += 1;
    try {
      await this.#fence.transaction(token, () => {
        const highest = this.#highest.get(key) ?? 0;
        if (value < highest) this.staleTaken += 1;
        this.#highest.set(key, Math.max(value, highest));
      });
    } catch (error) {
      if (!isStaleTokenError(error)) throw error;
      this.refused += 1;
    }
  }
}

/** The load of locks: each contestant wants each key all the time, for a moment, for seconds, or extended again and again. */
export class Workload {
  readonly record = new FencedRecord();
  /** When a client of the new side was last granted a lock, on the clock of the history. */
  newGrantAt = 0;
  #isOver = false;
  readonly #loops: Promise<unknown>[] = [];

  constructor(
    contestants: readonly Contestant[],
    private readonly random: SeededRandom,
  ) {
    for (const contestant of contestants)
      for (const key of KEYS) this.#loops.push(this.#loop(contestant, key));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#loops);
  }

  async #loop(contestant: Contestant, key: (typeof KEYS)[number]): Promise<void> {
    while (!this.#isOver) {
      // Failures are what failovers are for; the judge sees who held when.
      const held = await contestant.acquire(key).catch(() => undefined);
      if (held !== undefined) {
        if (contestant.side === 'new') this.newGrantAt = historyNow();
        await this.#work(held, key).catch(() => undefined);
        await held.release().catch(() => undefined);
        if (held.lock?.signal.aborted) void this.#writeLate(held.lock.token);
      }
      await sleep(this.random.between(0, PAUSE_MS));
    }
  }

  async #work(held: Held, key: (typeof KEYS)[number]): Promise<void> {
    const [least, most] = key.startsWith('brief') ? BRIEF_MS : LONG_MS;
    const end = performance.now() + this.random.between(least, most);
    const isPeer = held.lock === undefined;
    while (performance.now() < end && !this.#isOver && held.isHeld()) {
      if (held.lock) await this.record.write(held.lock.token);
      if (key.startsWith('eager') || isPeer) await held.extend();
      await sleep(this.random.between(0, STEP_MS));
    }
  }

  async #writeLate(token: FenceToken): Promise<void> {
    await sleep(this.random.between(0, LATE_MS));
    if (!this.#isOver) await this.record.write(token);
  }
}
