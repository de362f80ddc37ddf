import type { Lock } from '../../../lib/core/lock.ts';
import type { AcquireOptions, WithLockOptions } from '../../../lib/core/options/options.ts';
import type { Habits } from '../families/plan.ts';
import type { Chance } from './chance.ts';
import { describe } from './client-process.ts';
import type { ClientProcess } from './client-process.ts';
import { broke, requests } from './run-context.ts';
import type { RunContext } from './run-context.ts';

/** Caller inside a client process: acquires, works, extends, releases, and is interrupted, for as long as it may. */
export class Caller {
  stopped = false;
  readonly client: ClientProcess;
  readonly #run: RunContext;
  readonly #chance: Chance;
  readonly #habits: Habits;
  readonly #name: string;
  readonly #index: number;
  /** Number of things that it has started and not seen the end of. */
  #open = 0;
  #isChained = false;

  constructor(run: RunContext, client: ClientProcess, index: number, habits: Habits) {
    this.#run = run;
    this.client = client;
    this.#index = index;
    this.#habits = index < habits.setCallers ? { ...habits, sets: 1 } : habits;
    this.#name = `${client.name} caller ${index}`;
    this.#chance = run.chance.branch(this.#name);
  }

  /** Tells whether it has ended by itself, with everything that it started. */
  get done(): boolean {
    return this.#open === 0;
  }

  start(): void {
    this.client.process.deliver(() => requests.run(this.#name, () => this.#detach(this.#work())));
  }

  #detach(work: Promise<void>): void {
    this.#open += 1;
    const failed = (error: unknown): void =>
      broke(this.#run, 'raw-error', `${this.#name}: ${describe(error)}`);
    void work.catch(failed).then(() => (this.#open -= 1));
  }

  async #work(): Promise<void> {
    const { process } = this.client;
    await process.sleep(this.#chance.between(0, Math.min(500, this.#run.plan.ttlMs / 2)));
    while (!this.stopped) {
      await this.#once();
      await process.sleep(this.#chance.pick(this.#habits.pausesMs));
    }
  }

  get #permits(): { readonly permits?: number } {
    const { permits } = this.#run.plan;
    return permits === undefined ? {} : { permits };
  }

  async #once(): Promise<void> {
    const { keys, ttlMs, maxTtlMs } = this.#run.plan;
    const { sets, sections, careless, detached } = this.#habits;
    const chance = this.#chance;
    const chosen = chance.happens(sets)
      ? [chance.pick(keys), chance.pick(keys)]
      : [this.#habits.sticky ? keys[this.#index % keys.length]! : chance.pick(keys)];
    const options: WithLockOptions = {
      wait: chance.pick(this.#habits.waitsMs),
      ...(careless && chance.happens(0.2) && { ttl: chance.pick([100, ttlMs, maxTtlMs]) }),
      ...(careless && chance.happens(0.3) && { extend: false }),
      ...((careless || detached > 0) && chance.happens(0.05) && { minHold: ttlMs / 4 }),
      ...this.#permits,
    };
    const { replaces } = this.#habits;
    if (replaces !== undefined && chance.happens(replaces))
      return this.client.section(chosen, (lock) => this.#untilReplaced(lock), {
        ...options,
        onBusy: 'replace',
      });
    if (chance.happens(sections)) await this.#withLock(chosen, options);
    else await this.#byHand(chosen, options);
  }

  async #byHand(keys: string[], options: AcquireOptions): Promise<void> {
    const chance = this.#chance;
    const lock = await this.#acquire(keys, options);
    if (lock === undefined) return;
    await this.#hold(lock, chance.pick(this.#habits.holdsMs));
    const later = this.#run.plan.keys.filter((key) => lock.keys.every((held) => held < key));
    if (later.length > 0 && chance.happens(this.#habits.nested))
      await this.#byHand([chance.pick(later)], options);
    if (options.extend === false && chance.happens(0.3)) return;
    this.client.record.releasing(lock);
    if (chance.happens(0.5)) void lock.release();
    else await lock.release();
  }

  #withLock(keys: readonly string[], options: AcquireOptions): Promise<void> {
    return this.client.section(keys, (lock) => this.#workInside(lock), options);
  }

  /** Works until it is told to stop, or a while longer. */
  async #untilReplaced(lock: Lock): Promise<void> {
    const { ttlMs } = this.#run.plan;
    await this.#hold(lock, this.#chance.pick(this.#habits.holdsMs));
    if (!this.#isHeld(lock) && this.#chance.happens(0.5))
      await this.client.process.sleep(this.#chance.pick([1, ttlMs / 4, 2 * ttlMs]));
  }

  async #workInside(lock: Lock): Promise<void> {
    const { ttlMs } = this.#run.plan;
    const chance = this.#chance;
    await this.#hold(lock, chance.between(0, 10));
    if (!this.#isHeld(lock)) return;
    if (!chance.happens(this.#habits.detached)) return this.#enterAgain(lock, 1, true);
    await this.#stray(lock);
    for (let left = chance.integer(0, 2); left > 0; left -= 1)
      this.#detach(this.#enterAgain(lock, ttlMs * chance.pick([0.01, 0.1, 0.5, 1.2])));
    if (this.#isChained) return;
    this.#isChained = true;
    this.#detach(this.#chain(lock.keys));
  }

  /** A job starts the next one from inside its section, and that again. */
  async #chain(keys: readonly string[]): Promise<void> {
    const { ttlMs } = this.#run.plan;
    await this.client.process.sleep(this.#chance.between(0, ttlMs / 10));
    if (this.stopped) return;
    let goesOn = false;
    const next = async (): Promise<void> => {
      goesOn = true;
      this.#detach(this.#chain(keys));
    };
    await this.client.section(keys, next, { wait: ttlMs });
    if (!goesOn) await next();
  }

  /** Starts other work for these keys, as a shared queue would: it is never inside of this lock. */
  #stray(outer: Lock): Promise<void> {
    const { holder } = outer.token;
    const work = async (inner: Lock): Promise<void> => {
      if (inner.token.holder === holder) broke(this.#run, 'joined-by-accident', holder);
    };
    return this.client.section(outer.keys, work, { wait: 0 });
  }

  /** A section inside a section of the same keys, which perhaps outlives it. */
  #enterAgain(outer: Lock, forMs: number, awaited = false): Promise<void> {
    const { name: process, process: at } = this.client;
    const { permits } = this.#run.plan;
    const { holder } = outer.token;
    const before = at.stalledMs;
    const work = async (inner: Lock): Promise<void> => {
      if (inner.token.holder !== holder) {
        // Found expired on the way in, it was acquired again: another lock, and no re-entry.
        if (awaited && at.stalledMs === before)
          broke(this.#run, 'raw-error', `${process}: ${holder} entered again as another holder`);
        return this.#hold(inner, forMs);
      }
      if (!this.#isHeld(inner)) return;
      const { history, sections } = this.#run;
      const section = { lock: inner, process: at };
      history.push({ type: 'reentered', process, holder, at: at.nowMs, token: inner.token.value });
      sections.add(section);
      await at.sleep(forMs);
      sections.delete(section);
      history.push({ type: 'left', process, holder, at: at.nowMs });
    };
    const options = { wait: 0, onLost: 'ignore', nested: 'join', ...this.#permits } as const;
    const keys = permits === undefined ? outer.keys : this.#run.plan.keys;
    return this.client.section(keys, work, options);
  }

  /** Acquires within its budget, perhaps interrupted. Undefined when it got none. */
  #acquire(keys: string[], options: AcquireOptions): Promise<Lock | undefined> {
    const { process } = this.client;
    if (!this.#chance.happens(0.1)) return this.client.ask(keys, options);
    const controller = new AbortController();
    const asked = this.client.ask(keys, { ...options, signal: controller.signal });
    const abort = (): void => controller.abort(new Error('interrupted'));
    if (this.#chance.happens(0.2)) abort();
    else void process.sleep(this.#chance.between(0, 60)).then(abort);
    return asked;
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
    const stops = this.#chance.happens(0.03) && this.#habits.careless;
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
    const names = { locks: lock.keys.map((key) => `lock:${key}`) };
    this.client.record.checkValidated({ request: { names, holder, ballot }, sentAtMs });
  }
}
