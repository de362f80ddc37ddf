import type { Lock } from '../../../lib/core/lock.ts';
import type { AcquireOptions } from '../../../lib/core/options/options.ts';
import type { Chance } from './chance.ts';
import { describe } from './client-process.ts';
import type { ClientProcess } from './client-process.ts';
import { broke } from './run-context.ts';
import type { RunContext } from './run-context.ts';

/** One caller inside a client process: acquires, works, extends, releases, and is interrupted, for as long as it may. */
export class Caller {
  stopped = false;
  /** Resolved when it has ended by itself. */
  done = false;
  readonly client: ClientProcess;
  readonly #run: RunContext;
  readonly #chance: Chance;

  constructor(run: RunContext, client: ClientProcess, index: number) {
    this.#run = run;
    this.client = client;
    this.#chance = run.chance.branch(`${client.name} caller ${index}`);
  }

  start(): void {
    this.client.process.deliver(() => {
      void this.#work().catch((error: unknown) => {
        broke(this.#run, 'raw-error', `${this.client.name}: ${describe(error)}`);
        this.done = true;
      });
    });
  }

  async #work(): Promise<void> {
    const { ttlMs } = this.#run.plan;
    await this.client.process.sleep(this.#chance.between(0, ttlMs / 2));
    while (!this.stopped) {
      await this.#once();
      await this.client.process.sleep(this.#chance.pick([0, 1, 5, ttlMs / 5]));
    }
    this.done = true;
  }

  async #once(): Promise<void> {
    const { keys, ttlMs, maxTtlMs, family, keepsLocks } = this.#run.plan;
    const chance = this.#chance;
    const chosen = chance.happens(0.2)
      ? [chance.pick(keys), chance.pick(keys)]
      : [chance.pick(keys)];
    const options: AcquireOptions = {
      wait: family === 'repair' ? chance.pick([0, 10]) : chance.pick([0, 10, ttlMs, 3 * ttlMs]),
      ...(family !== 'blocked-loops' &&
        chance.happens(0.2) && { ttl: chance.pick([100, ttlMs, maxTtlMs]) }),
      ...(!keepsLocks && chance.happens(0.3) && { extend: false }),
      ...(chance.happens(0.05) && { minHold: ttlMs / 4 }),
    };
    if (chance.happens(0.15)) await this.#withLock(chosen, options);
    else await this.#byHand(chosen, options);
  }

  async #byHand(keys: string[], options: AcquireOptions): Promise<void> {
    const chance = this.#chance;
    const lock = await this.#acquire(keys, options);
    if (lock === undefined) return;
    const { ttlMs, family } = this.#run.plan;
    const longest = family === 'repair' ? 6 : 1.5;
    await this.#hold(lock, ttlMs * chance.pick([0, 0.02, 0.2, 0.8, longest]));
    if (options.extend === false && chance.happens(0.3)) return;
    this.client.releasing(lock);
    if (chance.happens(0.5)) void lock.release();
    else await lock.release();
  }

  #withLock(keys: string[], options: AcquireOptions): Promise<void> {
    const work = async (lock: Lock): Promise<void> => {
      await this.#hold(lock, this.#chance.between(0, 10));
      if (this.#isHeld(lock)) await this.#enterAgain(lock);
      this.client.releasing(lock);
    };
    return this.client.section(keys, work, options);
  }

  async #enterAgain(outer: Lock): Promise<void> {
    const { name: process, redlock, process: at } = this.client;
    const { holder } = outer.token;
    const before = at.stalledMs;
    await redlock.withLock(
      outer.keys,
      async (inner) => {
        // Found expired on the way in, it was acquired anew: another lock, and no re-entry.
        const isAnother = inner.token.holder !== holder;
        if (isAnother && at.stalledMs === before) {
          broke(this.#run, 'raw-error', `${process}: ${holder} entered again as another holder`);
        }
        if (isAnother || !this.#isHeld(inner)) return;
        const { value: token } = inner.token;
        this.#run.history.push({ type: 'reentered', process, holder, at: at.nowMs, token });
        await at.sleep(1);
        this.#run.history.push({ type: 'left', process, holder, at: at.nowMs });
      },
      { wait: 0, onLost: 'ignore' },
    );
  }

  /** Acquires within its budget, perhaps interrupted. Undefined when it got none. */
  #acquire(keys: string[], options: AcquireOptions): Promise<Lock | undefined> {
    const { process } = this.client;
    if (!this.#chance.happens(0.1)) return this.client.ask(keys, options);
    const controller = new AbortController();
    void process
      .sleep(this.#chance.between(0, 60))
      .then(() => controller.abort(new Error('interrupted')));
    return this.client.ask(keys, { ...options, signal: controller.signal });
  }

  #isHeld(lock: Lock): boolean {
    return this.client.process.observe(() => lock.isHeld);
  }

  /** Works in steps, each only if the lock says that it is held. */
  async #hold(lock: Lock, forMs: number): Promise<void> {
    const { process } = this.client;
    const untilMs = process.nowMs + forMs;
    while (this.#isHeld(lock)) {
      const { holder } = lock.token;
      this.#run.history.push({
        type: 'step',
        process: this.client.name,
        holder,
        at: process.nowMs,
      });
      this.#write(lock);
      if (this.#chance.happens(0.15)) await this.#extend(lock);
      const leftMs = untilMs - process.nowMs;
      // Whatever comes next is at another instant than the step.
      await process.sleep(Math.min(this.#run.plan.ttlMs / 6, Math.max(0.1, leftMs)));
      if (leftMs <= 0) return;
    }
  }

  /** The lock was checked; between this and the arrival of the write anything may happen. */
  #write(lock: Lock): void {
    const { process } = this.client;
    const { world, resource, plan } = this.#run;
    const stops = this.#chance.happens(0.03) && !plan.keepsLocks;
    if (stops) process.stall(this.#chance.pick([1, plan.ttlMs, 2 * plan.ttlMs]));
    const delayMs = this.#chance.happens(0.05) ? plan.ttlMs * 1.5 : this.#chance.between(0, 2);
    const { value: token, holder } = lock.token;
    const leavesMs = process.nowMs;
    world.at(leavesMs + delayMs, () => {
      if (process.killedAtMs < leavesMs) return;
      for (const key of lock.keys) resource.write(key, token, holder, world.nowMs);
    });
  }

  async #extend(lock: Lock): Promise<void> {
    const { process } = this.client;
    const sentAtMs = process.nowMs;
    try {
      await lock.extend();
    } catch (error) {
      this.client.refused(error, lock.keys);
      return;
    }
    const { value: ballot, holder } = lock.token;
    const names = { locks: lock.keys.map((key) => `lock:${key}`), pairs: [], withMarker: [] };
    this.client.checkValidated({ request: { names, holder, ballot, ttlMs: 0 }, sentAtMs });
  }
}
