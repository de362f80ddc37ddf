import type { LockLostError } from '../../../lib/core/errors.ts';
import type { LockEvent } from '../../../lib/core/events.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import { broke, requests } from '../world/run-context.ts';
import type { CompletedGrant, RunContext } from '../world/run-context.ts';
import type { SimulatedProcess } from '../world/simulated-process.ts';
import { KEYS_VANISH, WAKING_MS } from './check-run.ts';
import type { WireExtension } from './wire-monitor.ts';

/** A lock that a caller received, with what the checks need to know of it. */
interface KnownLock {
  readonly lock: Lock;
  /** True time up to which it may be believed. */
  validUntilMs: number;
  /** Number of sections that work with it. */
  sections: number;
}

/** Facts by which an extension is judged. */
interface ExtendedLock {
  readonly names: { readonly locks: readonly string[] };
  readonly holder: string;
  readonly ballot: number;
}

/** Everything that is written down about the locks of one process, and what can be judged at once. */
export class LockRecord {
  readonly locks = new Map<string, KnownLock>();
  readonly #byToken = new Map<string, KnownLock>();
  /** End of the validity, by holder, also of locks that have ended. */
  readonly #granted = new Map<string, number>();
  /** When the attempt with this holder began, true time. */
  readonly #attempts = new Map<string, number>();
  /** Up to when somebody has a lock, as far as this process knows; by key. */
  readonly #takenUntilMs = new Map<string, number>();
  readonly #run: RunContext;
  readonly #process: SimulatedProcess;
  readonly #nodeTimeoutMs: (ttlMs: number) => number;

  constructor(
    run: RunContext,
    process: SimulatedProcess,
    nodeTimeoutMs: (ttlMs: number) => number,
  ) {
    this.#run = run;
    this.#process = process;
    this.#nodeTimeoutMs = nodeTimeoutMs;
  }

  begun(holder: string): void {
    this.#attempts.set(holder, this.#process.nowMs);
  }

  wasGranted(holder: string): boolean {
    return this.#granted.has(holder);
  }

  /** A node said that somebody has it for so long. */
  taken(lockName: string, remainingMs: number): void {
    const key = lockName.slice('lock:'.length);
    const tell = (): void => {
      const untilMs = this.#process.nowMs + this.#process.trueMs(remainingMs);
      this.#takenUntilMs.set(key, Math.max(this.takenUntilMs(key), untilMs));
    };
    tell();
    // The process reads its clock after the answer, and may be stopped in between.
    this.#run.world.endOfTick(tell);
  }

  /** Up to when somebody has this key, as far as this process knows. */
  takenUntilMs(key: string): number {
    for (const { lock } of this.locks.values()) if (lock.keys.includes(key)) return Infinity;
    return this.#takenUntilMs.get(key) ?? -Infinity;
  }

  /** The validity of some lock ends about then. */
  endsAbout(atMs: number): boolean {
    return [...this.locks.values()].some(({ validUntilMs }) => Math.abs(validUntilMs - atMs) < 25);
  }

  /** A caller received `lock`. */
  granted(lock: Lock, calledAtMs: number): void {
    const { history, grants, counts, trace } = this.#run;
    const at = this.#process.nowMs;
    const { holder, value: token } = lock.token;
    const startedAt = this.#attempts.get(holder) ?? calledAtMs;
    const remainingMs = this.#process.observe(() => lock.remainingMs);
    const held = remainingMs > 0;
    const validUntil = held ? at + this.#process.trueMs(remainingMs) : at;
    counts.grants += 1;
    history.push({
      type: 'granted',
      process: this.#process.name,
      holder,
      keys: lock.keys,
      token,
      startedAt,
      at,
      validUntil,
      held,
    });
    for (const key of lock.keys) grants.push({ key, token, atMs: at, holder });
    trace.add(
      this.#process.name,
      `GRANTED ${holder} token ${token} until ${validUntil.toFixed(3)}`,
      at,
    );
    const known = { lock, validUntilMs: validUntil, sections: 0 };
    this.locks.set(holder, known);
    this.#byToken.set(`${token} ${lock.keys.join()}`, known);
    this.#granted.set(holder, validUntil);
    // A stall between the last vote and this moment may have left nothing of it.
    if (validUntil > at) this.#run.world.at(at, () => this.#checkBeside(lock, at));
    this.#whenLost(lock, known);
  }

  /** Sections that work with a lock each have a signal of their own. */
  #whenLost({ signal, token }: Lock, { lock }: KnownLock): void {
    const lost = (): void => {
      if (this.locks.has(token.holder)) this.#lost(lock, signal.reason as LockLostError);
    };
    if (signal.aborted) lost();
    else
      signal.addEventListener(
        'abort',
        () => {
          this.#checkContext(`the abort of ${token.holder}`);
          lost();
        },
        { once: true },
      );
  }

  /** A section works with this lock, its own or joined; with the last one it ends. */
  async working(lock: Lock, work: (lock: Lock) => Promise<void>): Promise<void> {
    const known = this.locks.get(lock.token.holder);
    if (known === undefined) return work(lock);
    known.sections += 1;
    if (lock !== known.lock) this.#whenLost(lock, known);
    try {
      await work(lock);
    } finally {
      known.sections -= 1;
      if (known.sections === 0) this.releasing(known.lock);
    }
  }

  /** The holder is about to release. */
  releasing(lock: Lock): void {
    const { history, trace } = this.#run;
    const at = this.#process.nowMs;
    history.push({ type: 'released', process: this.#process.name, holder: lock.token.holder, at });
    trace.add(this.#process.name, `RELEASES ${lock.token.holder}`, at);
    this.#ended(lock);
  }

  #lost(lock: Lock, { reason }: LockLostError): void {
    if (!this.#process.alive) return;
    const { history, trace, counts, plan } = this.#run;
    const at = this.#process.nowMs;
    counts.losses += 1;
    history.push({
      type: 'lost',
      process: this.#process.name,
      holder: lock.token.holder,
      at,
      reason,
    });
    trace.add(this.#process.name, `LOST ${lock.token.holder}: ${reason}`, at);
    this.#ended(lock);
    const { value: token } = lock.token;
    const isNewer = (grant: CompletedGrant): boolean =>
      grant.token > token && lock.keys.includes(grant.key);
    const needless = reason !== 'closed' && !this.#run.grants.some(isNewer);
    if (plan.keepsLocks && needless) {
      broke(this.#run, 'needless-loss', `${lock.token.holder}: ${reason}`, at);
    }
  }

  /** Lock may be kept for a minimum time, and is then released on the nodes. */
  #ended(lock: Lock): void {
    const { keys, token } = lock;
    this.locks.delete(token.holder);
    this.#byToken.delete(`${token.value} ${keys.join()}`);
    if (this.#run.plan.family === 'detached') this.#run.ended.push(new WeakRef(lock));
    const untilMs = this.#process.nowMs + this.#process.trueMs(this.#run.plan.ttlMs / 4);
    for (const key of keys)
      this.#takenUntilMs.set(key, Math.max(this.#takenUntilMs.get(key) ?? untilMs, untilMs));
  }

  received(event: Extract<LockEvent, { token: number }>): void {
    const { history, trace } = this.#run;
    const at = this.#process.nowMs;
    const known = this.#byToken.get(`${event.token} ${event.keys.join()}`);
    if (known === undefined) return;
    const { holder } = known.lock.token;
    this.#checkContext(`${event.type} of ${holder}`);
    if (event.type !== 'extended') return;
    const validUntil = at + this.#process.trueMs(event.remainingMs);
    if (known.validUntilMs <= at) {
      const message = `${holder} was extended at ${at.toFixed(3)} ms, its validity had ended at ${known.validUntilMs.toFixed(3)} ms`;
      broke(this.#run, 'revived', message, at);
    }
    known.validUntilMs = validUntil;
    this.#granted.set(holder, validUntil);
    history.push({ type: 'extended', process: this.#process.name, holder, at, validUntil });
    trace.add(this.#process.name, `EXTENDED ${holder} until ${validUntil.toFixed(3)}`, at);
  }

  #checkContext(what: string): void {
    const present = requests.getStore();
    if (present === undefined) return;
    const message = `${what} was reported in the context of ${present}`;
    broke(this.#run, 'foreign-context', message, this.#process.nowMs);
  }

  /** Checks that nobody holds a lock while a section of the holder before it runs and does not know of a loss. */
  #checkBeside({ keys, token }: Lock, at: number): void {
    if (KEYS_VANISH.includes(this.#run.plan.family)) return;
    for (const { lock, process } of this.#run.sections) {
      if (lock.token.holder === token.holder || !lock.keys.some((key) => keys.includes(key)))
        continue;
      if (lock.signal.aborted || !process.alive || process.ranSinceMs > at - WAKING_MS) continue;
      const message = `${token.holder} was granted while a section of ${lock.token.holder} runs`;
      broke(this.#run, 'joined-beside-holder', message, at);
    }
  }

  /** A stalled process is ahead of the others: what it would have done after this instant never happens. */
  forgetFuture(): void {
    const { history, grants, world } = this.#run;
    const isPast = (event: LockHistoryEvent): boolean =>
      event.process !== this.#process.name || event.type === 'stalled' || event.at <= world.nowMs;
    history.splice(0, history.length, ...history.filter(isPast));
    const past = grants.filter(
      ({ atMs, holder }) => atMs <= world.nowMs || !this.#attempts.has(holder),
    );
    grants.splice(0, grants.length, ...past);
  }

  /** T3: nobody newer was complete before the extension was asked for. */
  checkValidated({
    request,
    sentAtMs,
  }: {
    readonly request: ExtendedLock;
    readonly sentAtMs: number;
  }): void {
    // Fences that expired by a jump of the calendar are the one thing an extension can't see.
    if (this.#run.plan.family === 'calendar') return;
    // When it left after the end of the validity, because the process had paused, no answer to it prolongs anything.
    if (sentAtMs >= (this.#granted.get(request.holder) ?? Infinity)) return;
    for (const grant of this.#run.grants) {
      const isNewer = grant.token > request.ballot && grant.atMs < sentAtMs;
      if (!isNewer || !request.names.locks.includes(`lock:${grant.key}`)) continue;
      const message = `${request.holder} (token ${request.ballot}) was extended by a question of ${sentAtMs.toFixed(3)} ms, after ${grant.holder} got token ${grant.token} at ${grant.atMs.toFixed(3)} ms`;
      broke(this.#run, 'extend-is-no-validation', message);
      return;
    }
  }

  /** Early loss: with more than N - Q answers LOST the holder knows at once. */
  checkTold({ request, sentAtMs, stalledMs }: WireExtension): void {
    const timeoutMs = this.#process.trueMs(this.#nodeTimeoutMs(request.ttlMs));
    const inTime =
      this.#process.nowMs - sentAtMs < timeoutMs * 0.9 && this.#process.stalledMs === stalledMs;
    if (!inTime) return;
    this.#run.world.after(0.001, () => {
      const known = this.locks.get(request.holder);
      if (!known || !this.#process.alive || this.#process.stalledMs !== stalledMs) return;
      if (!this.#process.observe(() => known.lock.isHeld)) return;
      broke(
        this.#run,
        'loss-not-reported',
        `${request.holder} still believes, though no quorum is left`,
      );
    });
  }
}
