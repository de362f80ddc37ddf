import { isRedlockError } from '../../../lib/core/errors.ts';
import type { LockEvent } from '../../../lib/core/events.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import type { AcquireOptions, WithLockOptions } from '../../../lib/core/options/options.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { HEALTHY, MAX_LAG_MS } from '../families/plan.ts';
import { CallCheck, nodeTimeoutMs, waysOf } from '../checks/call-check.ts';
import { EventCheck } from '../checks/event-check.ts';
import { BidWatch } from '../checks/replace-check.ts';
import { LockRecord } from '../checks/lock-record.ts';
import type { Chance } from './chance.ts';
import { NetworkPath } from '../network/network-path.ts';
import { broke } from './run-context.ts';
import type { RunContext } from './run-context.ts';
import { SimulatedNode } from '../network/simulated-node.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { WireMonitor } from '../checks/wire-monitor.ts';

/** A caller that waits. */
export interface Waiter {
  readonly keys: readonly string[];
  readonly calledAtMs: number;
  /** What it could have, and since when all keys of that have been free. */
  readonly ways: readonly { readonly keys: readonly string[]; freeSinceMs: number }[];
}

/** Servers that a process knows and number of votes that it wants; those of the plan unless said otherwise. */
export interface Membership {
  readonly nodes?: readonly number[];
  readonly quorum?: number;
}

/** Start of one client process: the shipped core on simulated nodes, and those who call it. */
export class ClientProcess {
  readonly name: string;
  readonly process: SimulatedProcess;
  readonly nodes: readonly SimulatedNode[];
  readonly redlock: Redlock;
  readonly nodeTimeoutMs: number;
  readonly record: LockRecord;
  /** Callers that are neither granted nor refused. */
  readonly waiting = new Set<Waiter>();
  readonly #run: RunContext;
  readonly #quorum: number;
  readonly #nodeCount: number;
  readonly #events: EventCheck;
  #crashAfterSends = Infinity;
  /** Blocks the event loop when so many more commands were given. */
  #block: { afterCommands: number; readonly ms: number } | undefined;

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
        holder: (holder) => this.record.begun(holder),
      },
    );
    this.#events = new EventCheck((message) =>
      broke(run, 'unpaired-event', `${this.name}: ${message}`, this.process.nowMs),
    );
    this.nodeTimeoutMs = nodeTimeoutMs(plan.ttlMs);
    this.record = new LockRecord(run, this.process, nodeTimeoutMs);
    const bids = new BidWatch(run, this.name, this.#quorum);
    this.nodes = servers.map((server) => {
      const ends = {
        world,
        chance,
        process: this.process,
        server,
        path: new NetworkPath(world, chance, plan.latencyMs),
        commandMs: plan.commandMs,
        given: () => this.#given(),
        left: (packet: readonly (readonly string[])[], wasAsked: boolean) => {
          const requests = packet.flatMap((words) => server.redis.requestsIn(words));
          for (const [letter, first, second] of requests)
            if (letter === 'r') this.#wire?.leaving(letter, first!, server.index);
            else if (letter === 'a' || letter === 'e')
              this.#wire?.leaving(letter, second!, server.index);
          if (requests.length > 1 && requests[0]![0] === 'r' && !wasAsked)
            this.#run.counts.jointMessages += 1;
          this.#crashAfterSends -= requests.length;
          if (this.#crashAfterSends <= 0) this.crash();
        },
      };
      return new SimulatedNode(ends, this.#monitor(), trace, bids);
    });
    this.redlock = new Redlock(
      this.nodes,
      {
        ttl: plan.ttlMs,
        maxTtl: plan.maxTtlMs,
        driftFactor: plan.driftFactor,
        ...(plan.family === 'failover'
          ? { failover: { maxLag: MAX_LAG_MS } }
          : { restartGuard: plan.guard }),
        quorum: this.#quorum,
        concurrentTries: plan.concurrentTries,
        identity: false,
        onEvent: (event) => this.#listen(event),
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
    const waiter = this.#wait(keys, options);
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

  #wait(keys: readonly string[], options: AcquireOptions): Waiter {
    const { nowMs } = this.#run.world;
    const ways = waysOf(keys, options).map((way) => ({ keys: way, freeSinceMs: nowMs }));
    const waiter = { keys, calledAtMs: nowMs, ways };
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
    const waiter = this.#wait(keys, options);
    const enter = (lock: Lock): Promise<void> => {
      this.waiting.delete(waiter);
      if (!this.record.locks.has(lock.token.holder)) call.granted(lock);
      return this.record.working(lock, work);
    };
    try {
      await this.redlock.withLock(keys, enter, options);
    } catch (error) {
      if (!this.waiting.delete(waiter)) this.refused(error, keys);
      else call.refused(error);
    } finally {
      call.ended();
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

  /** Kills it after so many more commands have left. */
  crashAfter(sends: number): void {
    this.#crashAfterSends = sends;
    if (sends === 0) this.crash();
  }

  /** Lets its system sleep. Its uptime has coarse steps, so what ends when it wakes up is no one's fault. */
  suspend(ms: number): void {
    let untilMs = this.process.nowMs + ms;
    while (this.record.endsAbout(untilMs)) untilMs += 30;
    this.process.suspend(untilMs - this.process.nowMs);
  }

  /** Wants so many free keys at the same moment. */
  burst(count: number, name: string, waitMs: number): void {
    this.process.deliver(() => {
      for (let index = 0; index < count; index += 1) void this.#once(`${name}-${index}`, waitMs);
    });
  }

  /** Lets callers with these waits want one free key, and then blocks the event loop for `blockedMs` by their callback. */
  crowd(key: string, waitsMs: readonly number[], blockedMs: number): void {
    this.process.deliver(() => {
      for (const waitMs of waitsMs) void this.#once(key, waitMs);
      this.process.stall(blockedMs);
    });
  }

  async #once(key: string, waitMs: number): Promise<void> {
    const lock = await this.ask([key], { wait: waitMs });
    if (lock === undefined) return;
    this.record.releasing(lock);
    await lock.release();
  }

  /** Blocks its event loop for `ms` as soon as the core has given its nodes so many more commands. */
  blockAfter(afterCommands: number, ms: number): void {
    if (afterCommands === 0) this.process.block(ms);
    else this.#block = { afterCommands, ms };
  }

  crash(): void {
    if (!this.alive) return;
    this.#run.counts.crashes += 1;
    this.#run.trace.add(this.name, 'crashes', this.process.nowMs);
    this.record.forgetFuture();
    this.process.kill();
    for (const node of this.nodes) node.die();
  }

  /** Everything of it has ended. */
  closed(): void {
    this.#events.closed();
    if (!HEALTHY.includes(this.#run.plan.family)) return;
    for (const vote of this.#wire?.unreleased() ?? []) broke(this.#run, 'vote-not-released', vote);
  }

  /** Listeners of users may be async, and fail: here in one family. */
  #listen(event: LockEvent): void {
    this.#received(event);
    if (this.#run.plan.family !== 'detached' || event.type !== 'released') return;
    return Promise.reject(new Error('A listener failed, as planned.')) as unknown as void;
  }

  #received(event: LockEvent): void {
    if (!this.alive) return;
    this.#events.received(event);
    this.#checkAlarm(event);
    const { counts } = this.#run;
    if (event.type === 'node-joined' && event.quarantineMs > 0) counts.quarantines += 1;
    if (event.type === 'extended') counts.extensions += 1;
    if (event.type === 'permits-differ')
      broke(this.#run, 'false-alarm', `${this.name}: ${event.type}`);
    if ('token' in event) this.record.received(event);
  }

  /** Nodes that answered are not reported as silent. */
  #checkAlarm(event: LockEvent): void {
    if (event.type !== 'release-incomplete' && event.type !== 'extension-failed') return;
    const tookMs = Math.max(...event.causes.map(({ elapsedMs }) => elapsedMs));
    const sinceMs = this.process.nowMs - this.process.trueMs(tookMs + this.nodeTimeoutMs);
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
      taken: (lockName, remainingMs) => this.record.taken(lockName, remainingMs),
      refusedByClock: (node) =>
        (this.#run.servers[node]!.refusedByClockAtMs = this.#run.world.nowMs),
      wasGranted: (holder) => this.record.wasGranted(holder),
      extendedByQuorum: (extension) => this.record.checkValidated(extension),
      lostByMajority: (extension) => this.record.checkTold(extension),
    });
    return this.#wire;
  }
  #wire: WireMonitor | undefined;

  #given(): void {
    if (this.#block === undefined || --this.#block.afterCommands > 0) return;
    const { ms } = this.#block;
    this.#block = undefined;
    // Work of the same tick is in the way, before what was collected is written.
    this.#run.world.endOfTick(() => this.process.stall(ms));
  }
}

/** Mostly short, sometimes about a ttl, rarely longer than any lock. */
export function drawStallMs(ttlMs: number, chance: Chance): number {
  return chance.pick([0.5, 3, 10, ttlMs * 0.2, ttlMs * 0.7, ttlMs * 1.1, ttlMs * 2.2]);
}

export function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
