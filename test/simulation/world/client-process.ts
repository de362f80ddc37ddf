import type { LockEvent } from '../../../lib/core/events.ts';
import type { Lock } from '../../../lib/core/lock.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { Chance } from './chance.ts';
import { NetworkPath } from '../network/network-path.ts';
import { broke } from './run-context.ts';
import type { CompletedGrant, RunContext } from './run-context.ts';
import { SimulatedNode } from '../network/simulated-node.ts';
import { SimulatedProcess } from './simulated-process.ts';
import { WireMonitor } from '../checks/wire-monitor.ts';
import type { WireExtension } from '../checks/wire-monitor.ts';

/** A lock that a caller received, with what the checks need to know of it. */
interface KnownLock {
  readonly lock: Lock;
  /** True time up to which it may be believed. */
  validUntilMs: number;
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
  /** When the attempt with this holder began, true time. */
  readonly attempts = new Map<string, number>();
  readonly #run: RunContext;
  readonly #quorum: number;
  readonly #nodeCount: number;
  #crashAfterSends = Infinity;

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
    this.nodeTimeoutMs = Math.min(Math.max(50, Math.min(plan.ttlMs / 10, 500)), plan.ttlMs / 3);
    this.nodes = servers.map((server) => {
      const ends = {
        world,
        chance,
        process: this.process,
        server,
        path: new NetworkPath(chance, plan.latencyMs, plan.reconnectMs),
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
    this.locks.set(holder, { lock, validUntilMs: validUntil });
    const lost = (): void => this.#lost(lock);
    if (lock.signal.aborted) lost();
    else lock.signal.addEventListener('abort', lost, { once: true });
  }

  /** The holder is about to release. */
  releasing(lock: Lock): void {
    const { history, trace } = this.#run;
    const at = this.process.nowMs;
    history.push({ type: 'released', process: this.name, holder: lock.token.holder, at });
    trace.add(this.name, `RELEASES ${lock.token.holder}`, at);
    this.locks.delete(lock.token.holder);
  }

  #lost(lock: Lock): void {
    if (!this.alive) return;
    const { history, trace, counts, plan } = this.#run;
    const { reason } = lock.signal.reason as { reason: string };
    const at = this.process.nowMs;
    counts.losses += 1;
    history.push({ type: 'lost', process: this.name, holder: lock.token.holder, at, reason });
    trace.add(this.name, `LOST ${lock.token.holder}: ${reason}`, at);
    this.locks.delete(lock.token.holder);
    const { value: token } = lock.token;
    const isNewer = (grant: CompletedGrant): boolean =>
      grant.token > token && lock.keys.includes(grant.key);
    const needless = reason !== 'closed' && !this.#run.grants.some(isNewer);
    if (plan.family === 'repair' && needless) {
      broke(this.#run, 'needless-loss', `${lock.token.holder}: ${reason}`, at);
    }
  }

  #heard(event: LockEvent): void {
    if (!this.alive) return;
    const { counts, history, trace } = this.#run;
    if (event.type === 'node-joined' && event.quarantineMs > 0) counts.quarantines += 1;
    if (event.type !== 'extended') return;
    counts.extensions += 1;
    const at = this.process.nowMs;
    for (const [holder, known] of this.locks) {
      if (known.lock.token.value !== event.token || known.lock.keys !== event.keys) continue;
      const validUntil = at + this.process.trueMs(event.remainingMs);
      if (known.validUntilMs <= at) {
        const message = `${holder} was extended at ${at.toFixed(3)} ms, its validity had ended at ${known.validUntilMs.toFixed(3)} ms`;
        broke(this.#run, 'revived', message, at);
      }
      known.validUntilMs = Math.max(known.validUntilMs, validUntil);
      history.push({ type: 'extended', process: this.name, holder, at, validUntil });
      trace.add(this.name, `EXTENDED ${holder} until ${validUntil.toFixed(3)}`, at);
    }
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
      wasGranted: (holder) => this.#run.grants.some((grant) => grant.holder === holder),
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
