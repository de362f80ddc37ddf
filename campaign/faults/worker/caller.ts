import { setTimeout as sleep } from 'node:timers/promises';
import { isRedlockError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { Redlock } from '../../../lib/core/redlock.ts';
import { historyNow } from '../../../test/history/lock-history.ts';
import { SeededRandom } from '../../../test/support/seeded-random.ts';
import type { Access, ResourceClient, ResourceReply } from '../world/resource-client.ts';
import type { LockRecorder } from './lock-recorder.ts';
import type { WorkerSettings } from './worker-settings.ts';

/** The tools that the callers of one process share. */
export interface CallerTools {
  readonly settings: WorkerSettings;
  readonly redlock: Redlock;
  readonly resource: ResourceClient;
  readonly recorder: LockRecorder;
  /** Called right after a caller has asked for a lock. */
  readonly afterAsking: () => void;
  /** Called right before a holder writes, when its lock has just said that it is held. */
  readonly beforeWrite: () => void;
}

const VIEWS = ['fenced', 'unfenced'] as const;
/** The time for which a holder that has noticed a loss waits for the event; much longer than the checker tolerates. */
const PATIENCE_MS = 500;

/** A caller that takes locks, adds one to the records under them, and lets go. */
export class Caller {
  /** The work at the moment: resolves when it holds nothing and waits for nothing. */
  present: Promise<void> = Promise.resolve();
  readonly #random: SeededRandom;
  #calls = 0;

  constructor(
    private readonly tools: CallerTools,
    private readonly index: number,
  ) {
    this.#random = new SeededRandom(tools.settings.seed + index);
  }

  /** Uses one lock after another, whenever `turn` says that it may, until it says that it must not any more. */
  async compete(turn: () => Promise<boolean>): Promise<void> {
    const { load } = this.tools.settings;
    while (await turn()) {
      await this.use(this.#chooseKeys(), this.#random.pick(load.waitsMs));
      await sleep(this.#random.between(0, load.pauseMs));
    }
  }

  /** Uses one lock, in one of the ways in which locks are used. */
  use(keys: readonly string[], waitMs: number): Promise<void> {
    this.present = this.#useOnce(keys, waitMs);
    return this.present;
  }

  async #useOnce(keys: readonly string[], waitMs: number): Promise<void> {
    const { redlock, settings, recorder, afterAsking } = this.tools;
    const call = `${settings.name}.${this.index}.${(this.#calls += 1)}`;
    const way = this.#random.fraction();
    const calledAt = historyNow();
    recorder.append({ type: 'asked', call, keys, at: calledAt, waitMs });
    const answered = (outcome: string, message?: string): void =>
      recorder.append({ type: 'answered', call, at: historyNow(), outcome, message });
    let held: Lock | undefined;
    const work = async (lock: Lock): Promise<void> => {
      held = lock;
      recorder.granted(lock, calledAt);
      answered('granted');
      await this.#hold(lock);
      recorder.releasing(lock);
    };
    try {
      if (way < 0.15) await redlock.withLock(keys, work, { wait: waitMs });
      else {
        // A share of the locks is neither extended nor given back in time.
        const extend = way < 1 - settings.load.unextendedShare;
        const acquiring = redlock.acquire(keys, { wait: waitMs, extend });
        afterAsking();
        const lock = await acquiring;
        await work(lock);
        await lock.release();
      }
    } catch (error) {
      if (!isRedlockError(error)) recorder.problem('raw-error', error);
      if (!held) answered(isRedlockError(error) ? error.code : 'raw-error', String(error));
    }
    if (held) {
      const { holder } = held.token;
      recorder.append({ type: 'release-answered', holder, at: historyNow() });
    }
  }

  /** Reads, works, checks, writes: what every holder of a lock does. */
  async #hold(lock: Lock): Promise<void> {
    const { recorder, beforeWrite } = this.tools;
    const reads = await this.#each(lock, () => ({ operation: 'read', value: 0 }));
    await this.#work(lock);
    if (!recorder.step(lock)) {
      await sleep(PATIENCE_MS, undefined, { signal: lock.signal }).catch(() => undefined);
      return;
    }
    beforeWrite();
    await this.#each(lock, (name) => {
      const { accepted, value } = reads.get(name)!;
      // A holder that was refused knows that it is stale; the unfenced view refuses nobody.
      return accepted ? { operation: 'write', value: value + 1 } : undefined;
    });
  }

  /** Accesses the record of each key in both views. */
  async #each(
    lock: Lock,
    accessTo: (name: string) => Pick<Access, 'operation' | 'value'> | undefined,
  ): Promise<Map<string, ResourceReply>> {
    const replies = new Map<string, ResourceReply>();
    const all = VIEWS.flatMap((view) =>
      lock.keys.map(async (key) => {
        const name = `${view} ${key}`;
        const access = accessTo(name);
        if (!access) return;
        replies.set(name, await this.tools.resource.access({ view, key, ...access }, lock.token));
      }),
    );
    await Promise.all(all);
    return replies;
  }

  async #work(lock: Lock): Promise<void> {
    const { ttlMs, load } = this.tools.settings;
    const isLong = this.#random.fraction() < load.longShare;
    const durationMs = isLong
      ? ttlMs * this.#random.between(1.1, 1.8)
      : this.#random.between(...load.holdMs);
    const until = historyNow() + durationMs;
    while (historyNow() < until && this.tools.recorder.step(lock)) {
      await sleep(Math.min(20, Math.max(1, until - historyNow())));
    }
  }

  #chooseKeys(): string[] {
    const { keys, setShare } = this.tools.settings.load;
    const first = Math.floor(this.#random.fraction() * keys);
    const names = [`record-${first}`];
    if (keys > 1 && this.#random.fraction() < setShare) names.push(`record-${(first + 1) % keys}`);
    return names;
  }
}

/** Asks for `count` keys at once that no one else wants, and gives each back. Resolves with how many calls ended with what. */
export async function burst(
  redlock: Redlock,
  count: number,
  waitMs: number,
): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = {};
  const useOnce = async (index: number): Promise<void> => {
    const outcome = await redlock
      .acquire([`burst-${index}`], { wait: waitMs })
      .then((lock) => lock.release())
      .then(
        () => 'granted',
        (error: unknown) => (isRedlockError(error) ? error.code : String(error)),
      );
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  };
  await Promise.all(Array.from({ length: count }, (_, index) => useOnce(index)));
  return outcomes;
}
