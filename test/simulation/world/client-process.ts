import { isRedlockError } from '../../../lib/core/errors.ts';
import type { LockEvent } from '../../../lib/core/events.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { AcquireOptions, WithLockOptions } from '../../../lib/core/options/options.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { CallCheck, nodeTimeoutMs } from '../checks/call-check.ts';
import { KEYS_VANISH } from '../checks/check-run.ts';
import { EventCheck } from '../checks/event-check.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { Chance } from './chance.ts';
import { NetworkPath } from '../network/network-path.ts';
import { broke, requests } from './run-context.ts';
import type { CompletedGrant, RunContext } from './run-context.ts';
import { SimulatedNode } from '../network/simulated-node.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { WireMonitor } from '../checks/wire-monitor.ts';
import type { WireExtension } from '../checks/wire-monitor.ts';

/** A lock that a caller received, with what the checks need to know of it. */
interface KnownLock {
  readonly lock: Lock;
  /** Whose call acquired it. */
  readonly request: string | undefined;
  /** True time up to which it may be believed. */
  validUntilMs: number;
}

/** A caller that waits, and since when all its keys have been free. */
interface Waiter {
  readonly keys: readonly string[];
  freeSinceMs: number;
}

/** Which servers a process knows and how many votes it wants; those of the plan unless said otherwise. */
export interface Membership {
  readonly nodes?: readonly number[];
  readonly quorum?: number;
}

/** One start of one client process: the shipped core on simulated nodes, and everything that is written down about it. */
export class ClientProcess {
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly nodes: readonly SimulatedNode[];
  readonly redlock: Redlock;
  readonly nodeTimeoutMs: number;
  readonly locks = new Map<string, KnownLock>();
  readonly #byToken = new Map<string, KnownLock>();
  readonly #granted = new Set<string>();
  /** Callers that are neither granted nor refused. */
  readonly waiting = new Set<Waiter>();
  /** When the attempt with this holder began, true time. */
  readonly attempts = new Map<string, number>();
  readonly #run: RunContext;
  readonly #quorum: number;
  readonly #nodeCount: number;
  readonly #events: EventCheck;
  /** Up to when somebody has a lock, as far as this process knows; by key. */
  readonly #takenUntilMs = new Map<string, number>();
  #crashAfterSends = Infinity;
  /** Blocks the event loop when so many more commands have left. */
  #block: { afterSends: number; readonly ms: number } | undefined;

  constructor(run: RunContext, index: number, start: number, membership: Membership = {}) {
    const { plan, world, trace } = run;
    const servers = membership.nodes?.map((node) => run.servers[node]!) ?? run.servers;
    this.#quorum = membership.quorum ?? plan.quorum;
    this.#nodeCount = servers.length;
    const client = plan.clients[index]!;
    this.#run = run;
    this.name = `p${index}/${start}`;
    const chance = run.chance.branch(this.name);
    this.process = new SimulatedProcess(
      world,
      {
        name: this.name,
        clockRate: client.clockRate,
        wallErrorMs: client.wallErrorMs,
        wallStepMicros: plan.wallStepMicros,
        timerLatenessMs: plan.timerLatenessMs,
        readingsPerStall: plan.readingsPerStall,
        stallMs: (source) => drawStallMs(plan.ttlMs, source),
      },
      chance,
      {
        stalled: (from, to) => this.#stalled(from, to),
        threw: (error) => broke(run, 'uncaught', `${this.name}: ${describe(error)}`),
        holder: (holder) => this.attempts.set(holder, this.process.nowMs),
      },
    );
    this.#events = new EventCheck((message) =>
      broke(run, 'unpaired-event', `${this.name}: ${message}`, this.process.nowMs),
    );
    this.nodeTimeoutMs = nodeTimeoutMs(plan.ttlMs);
    this.nodes = servers.map((server) => {
      const ends = {
        world,
        chance,
        process: this.process,
        server,
        path: new NetworkPath(world, chance, plan.latencyMs, plan.reconnectMs),
        commandMs: plan.commandMs,
      };
      return new SimulatedNode(ends, this.#monitor(), trace);
    });
    this.redlock = new Redlock(
      this.nodes,
      {
        ttl: plan.ttlMs,
        maxTtl: plan.maxTtlMs,
        driftFactor: plan.driftFactor,
        restartGuard: plan.guard,
        quorum: this.#quorum,
        onEvent: (event) => this.#heard(event),
      },
      this.process.environment,
    );
  }

  get alive(): boolean {
    return this.process.alive;
  }

  open(): void {
    this.process.deliver(() => this.redlock.open());
  }

  /** Acquires. Undefined where that was refused. */
  async ask(keys: readonly string[], options: AcquireOptions = {}): Promise<Lock | undefined> {
    const call = new CallCheck(this.#run, this, keys, options);
    const waiter = this.#wait(keys);
    try {
      const lock = await this.redlock.acquire(keys, options);
      call.granted(lock);
      return lock;
    } catch (error) {
      call.refused(error);
      return undefined;
    } finally {
      this.waiting.delete(waiter);
    }
  }

  #wait(keys: readonly string[]): Waiter {
    const waiter = { keys, freeSinceMs: this.#run.world.nowMs };
    this.waiting.add(waiter);
    return waiter;
  }

  /** Works in a section, of its own or joined. */
  async section(
    keys: readonly string[],
    work: (lock: Lock) => Promise<void>,
    options: WithLockOptions = {},
  ): Promise<void> {
    const call = new CallCheck(this.#run, this, keys, options);
    const waiter = this.#wait(keys);
    const enter = (lock: Lock): Promise<void> => {
      this.waiting.delete(waiter);
      if (!this.locks.has(lock.token.holder)) call.granted(lock);
      return work(lock);
    };
    try {
      await this.redlock.withLock(keys, enter, options);
    } catch (error) {
      if (!this.waiting.delete(waiter)) this.refused(error, keys);
      else call.refused(error);
    }
  }

  refused(error: unknown, keys: readonly string[]): void {
    const { counts, trace } = this.#run;
    if (!isRedlockError(error)) {
      broke(this.#run, 'raw-error', `${this.name}: ${describe(error)}`);
      return;
    }
    if (error.code === 'LOCK_BUSY') counts.busy += 1;
    if (error.code === 'QUORUM_UNAVAILABLE') counts.unavailable += 1;
    trace.add(this.name, `refused ${keys.join()}: ${error.code}`, this.process.nowMs);
  }

  /** Up to when somebody has this key, as far as this process knows. */
  takenUntilMs(key: string): number {
    for (const { lock } of this.locks.values()) if (lock.keys.includes(key)) return Infinity;
    return this.#takenUntilMs.get(key) ?? -Infinity;
  }

  /** A quorum of nodes has answered and voted since then, and this process ran; a blocked loop is no outage. */
  hadQuorumSince(sinceMs: number): boolean {
    const ran = this.process.ranSinceMs <= sinceMs || this.#run.plan.family === 'blocked-loops';
    const well = this.nodes.filter(({ wellSinceMs }) => wellSinceMs <= sinceMs);
    return ran && well.length >= this.#quorum;
  }

  /** Nothing goes wrong with it by chance any more. */
  calm(): void {
    this.process.calm();
    for (const { ends } of this.nodes) ends.path.slowMessages = 0;
  }

  /** It is killed after so many more commands have left. */
  crashAfter(sends: number): void {
    this.#crashAfterSends = sends;
    if (sends === 0) this.crash();
  }

  /** Its system sleeps. Its uptime has coarse steps, so what ends when it wakes up is nobody's fault. */
  suspend(ms: number): void {
    let untilMs = this.process.nowMs + ms;
    const endsAbout = ({ validUntilMs }: KnownLock): boolean =>
      Math.abs(validUntilMs - untilMs) < 25;
    while ([...this.locks.values()].some(endsAbout)) untilMs += 30;
    this.process.suspend(untilMs - this.process.nowMs);
  }

  /** So many free keys are wanted at the same moment. */
  burst(count: number, name: string, waitMs: number): void {
    const one = async (key: string): Promise<void> => {
      const lock = await this.ask([key], { wait: waitMs });
      if (lock === undefined) return;
      this.releasing(lock);
      await lock.release();
    };
    this.process.deliver(() => {
      for (let index = 0; index < count; index += 1) void one(`${name}-${index}`);
    });
  }

  /** Its event loop is blocked for `ms` as soon as so many more commands have left. */
  blockAfter(afterSends: number, ms: number): void {
    if (afterSends === 0) this.process.block(ms);
    else this.#block = { afterSends, ms };
  }

  crash(): void {
    if (!this.alive) return;
    this.#run.counts.crashes += 1;
    this.#run.trace.add(this.name, 'crashes', this.process.nowMs);
    this.#forgetFuture();
    this.process.kill();
    for (const node of this.nodes) node.die();
  }

  /** A stalled process is ahead of the others: what it would have done after this instant never happens. */
  #forgetFuture(): void {
    const { history, grants, world } = this.#run;
    const isPast = (event: LockHistoryEvent): boolean =>
      event.process !== this.name || event.type === 'stalled' || event.at <= world.nowMs;
    history.splice(0, history.length, ...history.filter(isPast));
    const past = grants.filter(
      ({ atMs, holder }) => atMs <= world.nowMs || !this.attempts.has(holder),
    );
    grants.splice(0, grants.length, ...past);
  }

  /** Everything of it has ended. */
  closed(): void {
    this.#events.closed();
  }

  /** A caller received `lock`. */
  granted(lock: Lock, calledAtMs: number): void {
    const { history, grants, counts, trace } = this.#run;
    const at = this.process.nowMs;
    const { holder, value: token } = lock.token;
    const startedAt = this.attempts.get(holder) ?? calledAtMs;
    const remainingMs = this.process.observe(() => lock.remainingMs);
    const held = remainingMs > 0;
    const validUntil = held ? at + this.process.trueMs(remainingMs) : at;
    counts.grants += 1;
    history.push({
      type: 'granted',
      process: this.name,
      holder,
      keys: lock.keys,
      token,
      startedAt,
      at,
      validUntil,
      held,
    });
    for (const key of lock.keys) grants.push({ key, token, atMs: at, holder });
    trace.add(this.name, `GRANTED ${holder} token ${token} until ${validUntil.toFixed(3)}`, at);
    const request = requests.getStore();
    const known = { lock, request, validUntilMs: validUntil };
    this.locks.set(holder, known);
    this.#byToken.set(`${token} ${lock.keys.join()}`, known);
    this.#granted.add(holder);
    this.#checkBeside(lock, at);
    const lost = (): void => {
      this.#checkContext(request, `the abort of ${holder}`);
      this.#lost(lock);
    };
    if (lock.signal.aborted) lost();
    else lock.signal.addEventListener('abort', lost, { once: true });
  }

  /** The holder is about to release. */
  releasing(lock: Lock): void {
    const { history, trace } = this.#run;
    const at = this.process.nowMs;
    history.push({ type: 'released', process: this.name, holder: lock.token.holder, at });
    trace.add(this.name, `RELEASES ${lock.token.holder}`, at);
    this.#ended(lock);
  }

  #lost(lock: Lock): void {
    if (!this.alive) return;
    const { history, trace, counts, plan } = this.#run;
    const { reason } = lock.signal.reason as { reason: string };
    const at = this.process.nowMs;
    counts.losses += 1;
    history.push({ type: 'lost', process: this.name, holder: lock.token.holder, at, reason });
    trace.add(this.name, `LOST ${lock.token.holder}: ${reason}`, at);
    this.#ended(lock);
    const { value: token } = lock.token;
    const isNewer = (grant: CompletedGrant): boolean =>
      grant.token > token && lock.keys.includes(grant.key);
    const needless = reason !== 'closed' && !this.#run.grants.some(isNewer);
    if (plan.keepsLocks && needless) {
      broke(this.#run, 'needless-loss', `${lock.token.holder}: ${reason}`, at);
    }
  }

  /** It may be kept for a minimum time, and is then released on the nodes. */
  #ended(lock: Lock): void {
    const { keys, token } = lock;
    this.locks.delete(token.holder);
    this.#byToken.delete(`${token.value} ${keys.join()}`);
    if (this.#run.plan.family === 'detached') this.#run.ended.push(new WeakRef(lock));
    const untilMs = this.process.nowMs + this.process.trueMs(this.#run.plan.ttlMs / 4);
    for (const key of keys) this.#takenUntilMs.set(key, untilMs);
  }

  #heard(event: LockEvent): void {
    if (!this.alive) return;
    this.#events.heard(event);
    this.#checkAlarm(event);
    const { counts, history, trace } = this.#run;
    if (event.type === 'node-joined' && event.quarantineMs > 0) counts.quarantines += 1;
    if (event.type === 'extended') counts.extensions += 1;
    if (!('token' in event)) return;
    const at = this.process.nowMs;
    const known = this.#byToken.get(`${event.token} ${event.keys.join()}`);
    if (known === undefined) return;
    const { holder } = known.lock.token;
    this.#checkContext(known.request, `${event.type} of ${holder}`);
    if (event.type === 'released') this.releasing(known.lock);
    if (event.type !== 'extended') return;
    const validUntil = at + this.process.trueMs(event.remainingMs);
    if (known.validUntilMs <= at) {
      const message = `${holder} was extended at ${at.toFixed(3)} ms, its validity had ended at ${known.validUntilMs.toFixed(3)} ms`;
      broke(this.#run, 'revived', message, at);
    }
    known.validUntilMs = Math.max(known.validUntilMs, validUntil);
    history.push({ type: 'extended', process: this.name, holder, at, validUntil });
    trace.add(this.name, `EXTENDED ${holder} until ${validUntil.toFixed(3)}`, at);
  }

  #checkContext(request: string | undefined, what: string): void {
    const present = requests.getStore();
    if (present === request) return;
    const message = `${what}, acquired by ${request}, was told to ${present}`;
    broke(this.#run, 'foreign-context', message, this.process.nowMs);
  }

  /** Nobody holds a lock while a section of the holder before it runs and does not know of a loss. */
  #checkBeside({ keys, token }: Lock, at: number): void {
    if (KEYS_VANISH.includes(this.#run.plan.family)) return;
    for (const { lock, client } of this.#run.sections) {
      if (lock.token.holder === token.holder || !lock.keys.some((key) => keys.includes(key)))
        continue;
      if (lock.signal.aborted || !client.alive || client.process.nowMs > at + 1) continue;
      const message = `${token.holder} was granted while a section of ${lock.token.holder} runs`;
      broke(this.#run, 'joined-beside-holder', message, at);
    }
  }

  /** Nodes that answered are not reported as silent. */
  #checkAlarm(event: LockEvent): void {
    if (event.type !== 'release-incomplete' && event.type !== 'extension-failed') return;
    const sinceMs = this.process.nowMs - 2 * this.process.trueMs(this.nodeTimeoutMs);
    const unanswered = event.causes.filter(({ reason }) => reason === 'timeout').length;
    if (unanswered <= this.nodes.length - this.#quorum || !this.hadQuorumSince(sinceMs)) return;
    const message = `${this.name}: ${event.type} of ${event.keys.join()}: ${JSON.stringify(event.causes)}`;
    broke(this.#run, 'false-alarm', message, this.process.nowMs);
  }

  #stalled(from: number, to: number): void {
    this.#run.counts.stalls += 1;
    this.#run.history.push({ type: 'stalled', process: this.name, from, to });
    this.#run.trace.add(this.name, `does not run until ${to.toFixed(3)}`, from);
  }

  #monitor(): WireMonitor {
    this.#wire ??= new WireMonitor({
      quorum: this.#quorum,
      nodeCount: this.#nodeCount,
      now: () => ({ atMs: this.process.nowMs, stalledMs: this.process.stalledMs }),
      broke: (rule, message) => broke(this.#run, rule, `${this.name}: ${message}`),
      reballot: () => (this.#run.counts.reballots += 1),
      recreated: (keys) => (this.#run.counts.recreatedKeys += keys),
      taken: (lockName, remainingMs) => {
        const key = lockName.slice('lock:'.length);
        const untilMs = this.process.nowMs + this.process.trueMs(remainingMs);
        this.#takenUntilMs.set(key, Math.max(this.takenUntilMs(key), untilMs));
      },
      wasGranted: (holder) => this.#granted.has(holder),
      extendedByQuorum: (extension) => this.checkValidated(extension),
      lostByMajority: (extension) => this.#checkTold(extension),
      sent: () => this.#sent(),
    });
    return this.#wire;
  }
  #wire: WireMonitor | undefined;

  #sent(): void {
    this.#crashAfterSends -= 1;
    if (this.#crashAfterSends <= 0) this.crash();
    if (this.#block === undefined || --this.#block.afterSends > 0) return;
    this.process.stall(this.#block.ms);
    this.#block = undefined;
  }

  /** T3: nobody newer was complete before the extension was asked for. */
  checkValidated({
    request,
    sentAtMs,
  }: {
    readonly request: WireExtension['request'];
    readonly sentAtMs: number;
  }): void {
    // Fences that expired by a jump of the calendar are the one thing an extension can't see.
    if (this.#run.plan.family === 'calendar') return;
    for (const grant of this.#run.grants) {
      const isNewer = grant.token > request.ballot && grant.atMs < sentAtMs;
      if (!isNewer || !request.names.locks.includes(`lock:${grant.key}`)) continue;
      const message = `${request.holder} (token ${request.ballot}) was extended by a question of ${sentAtMs.toFixed(3)} ms, after ${grant.holder} got token ${grant.token} at ${grant.atMs.toFixed(3)} ms`;
      broke(this.#run, 'extend-is-no-validation', message);
      return;
    }
  }

  /** Early loss: with more than N - Q answers LOST the holder knows at once. */
  #checkTold({ request, sentAtMs, stalledMs }: WireExtension): void {
    const inTime =
      this.process.nowMs - sentAtMs < this.process.trueMs(this.nodeTimeoutMs) * 0.9 &&
      this.process.stalledMs === stalledMs;
    if (!inTime) return;
    this.#run.world.after(0.001, () => {
      const known = this.locks.get(request.holder);
      if (!known || !this.alive || this.process.stalledMs !== stalledMs) return;
      if (!this.process.observe(() => known.lock.isHeld)) return;
      broke(
        this.#run,
        'loss-not-told',
        `${request.holder} still believes, though no quorum is left`,
      );
    });
  }
}

/** Mostly short, sometimes about a ttl, rarely longer than any lock. */
export function drawStallMs(ttlMs: number, chance: Chance): number {
  return chance.pick([0.5, 3, 10, ttlMs * 0.2, ttlMs * 0.7, ttlMs * 1.1, ttlMs * 2.2]);
}

export function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
