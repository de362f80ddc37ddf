import { setTimeout as sleep } from 'node:timers/promises';
import { isRedlockError } from '../../../lib/core/errors.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { Redlock } from '../../../lib/core/redlock.ts';
import { historyNow } from '../../history/lock-history.ts';
import { SeededRandom } from '../../support/seeded-random.ts';
import type { ResourceClient, ResourceReply, ResourceView } from '../resource/resource-client.ts';
import type { LockRecorder } from './lock-recorder.ts';
import type { WorkerSettings } from './worker-settings.ts';

/** Tools that the callers of one process share. */
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

const VIEWS: readonly ResourceView[] = ['fenced', 'unfenced'];
/** Time for which a holder that has noticed a loss waits for the event; much longer than the checker tolerates. */
const PATIENCE_MS = 500;

/** Caller that takes locks, adds one to the records under them, and lets go. */
export class Caller {
  /** Work at the moment: resolves when it holds nothing and waits for nothing. */
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
    const { redlock, settings, recorder } = this.tools;
    const way = this.#random.fraction();
    const call = this.#asked(keys, waitMs);
    const calledAt = historyNow();
    let answered = false;
    const granted = (lock: Lock): void => {
      recorder.granted(lock, calledAt);
      this.#answered(call, 'granted');
      answered = true;
    };
    try {
      if (way < 0.15) {
        await this.#useInside(keys, waitMs, granted, way < 0.08);
        return;
      }
      // Some locks are neither extended nor given back in time.
      const extend = way < 1 - settings.load.unextendedShare;
      const acquiring = redlock.acquire(keys, { wait: waitMs, extend });
      this.tools.afterAsking();
      const lock = await acquiring;
      granted(lock);
      await this.#hold(lock, false);
      recorder.releasing(lock);
      await lock.release();
      this.#releaseAnswered(lock.token.holder);
    } catch (error) {
      if (!isRedlockError(error)) {
        recorder.problem('raw-error', error);
        if (!answered) this.#answered(call, 'raw-error');
      } else if (!answered) this.#answered(call, error.code, error.message);
    }
  }

  /** Uses `withLock`, which releases by itself, also what was lost; then it rejects. */
  async #useInside(
    keys: readonly string[],
    waitMs: number,
    granted: (lock: Lock) => void,
    again: boolean,
  ): Promise<void> {
    let holder: string | undefined;
    const work = async (lock: Lock): Promise<void> => {
      holder = lock.token.holder;
      granted(lock);
      await this.#hold(lock, again);
      this.tools.recorder.releasing(lock);
    };
    try {
      await this.tools.redlock.withLock(keys, work, { wait: waitMs });
    } finally {
      if (holder !== undefined) this.#releaseAnswered(holder);
    }
  }

  /** Reads, works, checks, writes: what every holder of a lock does. */
  async #hold(lock: Lock, again: boolean): Promise<void> {
    const { resource, recorder, beforeWrite } = this.tools;
    const reads = await this.#each(lock, (view, key) => resource.read(view, key, lock.token));
    await this.#work(lock);
    if (again) await this.#reenter(lock);
    if (!recorder.step(lock)) {
      await sleep(PATIENCE_MS, undefined, { signal: lock.signal }).catch(() => undefined);
      return;
    }
    beforeWrite();
    await this.#each(lock, (view, key) => {
      const read = reads.get(`${view} ${key}`)!;
      // Holder that was refused knows that it is stale; the unfenced view refuses nobody.
      if (!read.accepted) return Promise.resolve(read);
      return resource.write(view, key, lock.token, read.value + 1);
    });
  }

  async #each(
    lock: Lock,
    access: (view: ResourceView, key: string) => Promise<ResourceReply>,
  ): Promise<Map<string, ResourceReply>> {
    const replies = new Map<string, ResourceReply>();
    const all = VIEWS.flatMap((view) =>
      lock.keys.map(async (key) => {
        replies.set(`${view} ${key}`, await access(view, key));
      }),
    );
    await Promise.all(all);
    return replies;
  }

  async #work(lock: Lock): Promise<void> {
    const { ttlMs, load } = this.tools.settings;
    const isLong = this.#random.fraction() < load.longShare;
    const [shortest, longest] = load.holdMs;
    const durationMs = isLong
      ? ttlMs * this.#random.between(1.1, 1.8)
      : this.#random.between(shortest, longest);
    const until = historyNow() + durationMs;
    while (historyNow() < until && this.tools.recorder.step(lock)) {
      await sleep(Math.min(20, Math.max(1, until - historyNow())));
    }
  }

  async #reenter(outer: Lock): Promise<void> {
    const { redlock, recorder } = this.tools;
    if (!recorder.step(outer)) return;
    const calledAt = historyNow();
    let own: string | undefined;
    const work = async (inner: Lock): Promise<void> => {
      // Lock that ended in between is not joined: this is a lock like any other, with a token of its own.
      if (inner.token.holder !== outer.token.holder && !outer.isHeld) {
        own = inner.token.holder;
        recorder.granted(inner, calledAt);
        recorder.releasing(inner);
        return;
      }
      if (!recorder.reentered(outer, inner)) return;
      await sleep(2);
      recorder.left(outer);
    };
    await redlock.withLock(outer.keys, work, { nested: 'join' });
    if (own !== undefined) this.#releaseAnswered(own);
  }

  #chooseKeys(): string[] {
    const { keys, setShare } = this.tools.settings.load;
    const first = Math.floor(this.#random.fraction() * keys);
    const names = [`record-${first}`];
    if (keys > 1 && this.#random.fraction() < setShare) names.push(`record-${(first + 1) % keys}`);
    return names;
  }

  #asked(keys: readonly string[], waitMs: number): string {
    this.#calls += 1;
    const call = `${this.tools.settings.name}.${this.index}.${this.#calls}`;
    this.tools.recorder.append({ type: 'asked', call, keys, at: historyNow(), waitMs });
    return call;
  }

  #answered(call: string, outcome: string, message?: string): void {
    this.tools.recorder.append({ type: 'answered', call, at: historyNow(), outcome, message });
  }

  #releaseAnswered(holder: string): void {
    this.tools.recorder.append({ type: 'release-answered', holder, at: historyNow() });
  }
}
