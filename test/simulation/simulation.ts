import { applyFault } from './world/apply-fault.ts';
import type { Fleet } from './world/apply-fault.ts';
import { playBoundary } from './families/boundary.ts';
import { Caller } from './world/caller.ts';
import { checkKept, checkRun } from './checks/check-run.ts';
import { ClientProcess } from './world/client-process.ts';
import { guardMsOf, type Plan } from './families/plan.ts';
import { startMsOf } from './families/plan-faults.ts';
import { LAST_RETRY_MS } from '../../lib/redis/connection/redis-link.ts';
import { MAX_REMEMBERED } from './network/simulated-wire.ts';
import { playReballots } from './families/reballots.ts';
import { watchPasses } from './checks/pass-check.ts';
import { watchSleepers } from './checks/sleep-check.ts';
import { broke, createRun } from './world/run-context.ts';
import type { RunContext, RunCounts } from './world/run-context.ts';
import type { Violation } from './checks/violations.ts';

export interface RunResult {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly counts: RunCounts;
  readonly events: number;
  /** Empty unless asked for. */
  readonly trace: readonly string[];
}

/** Time that a client may take to reach a connection again, and the timers on the way; also one that was forgotten. */
const RECOVERY_MS = 200;
const SILENCE_MS = 4_000;
const MAX_BACKGROUND_MS = 1_500;

/** Runs a plan: faults and work, then healing, a lock for everybody, close, and every check. */
export async function simulate(
  plan: Plan,
  options: { readonly trace?: boolean } = {},
): Promise<RunResult> {
  const simulation = new Simulation(plan, options.trace === true);
  await simulation.run();
  const { violations, counts, world, trace } = simulation.context;
  return { seed: plan.seed, violations, counts, events: world.events, trace: trace.lines };
}

class Simulation implements Fleet {
  readonly context: RunContext;
  readonly clients: ClientProcess[] = [];
  readonly #callers: Caller[] = [];
  readonly #starts: number[] = [];
  readonly #ending = new Set<() => void>();
  /** Infinite before. */
  #healedAtMs = Infinity;

  constructor(plan: Plan, traced: boolean) {
    this.context = createRun(plan, traced);
  }

  async run(): Promise<void> {
    const { plan, world } = this.context;
    plan.clients.forEach((_, index) => this.#start(index));
    this.#planFaults();
    if (['sets', 'turns', 'permits'].includes(plan.family))
      watchSleepers(this.context, this.clients);
    if (['turns', 'permits'].includes(plan.family)) watchPasses(this.context);
    if (plan.family === 'boundary') await playBoundary(this.context, this.clients);
    else if (plan.family === 'reballots') await playReballots(this.context, this.clients);
    else await world.runUntil(startMsOf(plan) + plan.durationMs);
    if (plan.family === 'detached') await checkKept(this.context);
    this.#heal();
    await this.#finishWork();
    await this.#probe();
    await this.#close();
    checkRun(this.context);
  }

  restart(index: number): void {
    const client = this.clients[index]!;
    if (client.alive) client.crash();
    this.#start(index);
  }

  #start(index: number): void {
    const start = (this.#starts[index] = (this.#starts[index] ?? 0) + 1);
    const client = new ClientProcess(this.context, index, start);
    this.clients[index] = client;
    client.open();
    if (this.#healedAtMs < Infinity) {
      client.calm();
      return;
    }
    const { habits, clients } = this.context.plan;
    const { callers, habits: own } = clients[index]!;
    for (let number = 0; number < callers; number += 1) {
      const caller = new Caller(this.context, client, number, { ...habits, ...own });
      this.#callers.push(caller);
      caller.start();
    }
  }

  #planFaults(): void {
    const { plan, world, servers } = this.context;
    for (const [number, fault] of plan.faults.entries()) {
      const isOlder = fault.kind === 'restart' ? fault.data === 'older' : fault.kind === 'swap';
      if (isOlder && 'dumpAgeMs' in fault) {
        for (const index of fault.servers) {
          world.at(fault.atMs - fault.dumpAgeMs, () => servers[index]!.saveDump());
        }
      }
      world.at(fault.atMs, () => {
        const end = applyFault(this.context, this, fault, number);
        if (end === undefined) return;
        const endOnce = (): void => {
          if (!this.#ending.delete(endOnce)) return;
          this.context.trace.add('***', `fault ${number} ends`);
          end();
        };
        this.#ending.add(endOnce);
        world.after(fault.lastsMs, endOnce);
      });
    }
  }

  #heal(): void {
    this.context.trace.add('***', 'everything heals');
    this.#healedAtMs = this.context.world.nowMs;
    for (const end of this.#ending) end();
    for (const server of this.context.servers) if (!server.running) server.restart('kept');
    this.clients.forEach((client, index) => (client.alive ? client.calm() : this.#start(index)));
    for (const caller of this.#callers) caller.stopped = true;
  }

  /** Everybody gets to the end of what they do. */
  async #finishWork(): Promise<void> {
    const { world, plan } = this.context;
    const pauseMs = Math.max(...plan.habits.pausesMs);
    const limitMs = world.nowMs + plan.maxTtlMs * 10 + this.#stallsMs() + pauseMs + 2_000;
    const working = (): boolean =>
      this.#callers.some(({ done }, index) => !done && this.#lives(index));
    if (!(await world.runWhile(working, limitMs))) {
      broke(this.context, 'no-progress', 'a caller is still waiting, long after everything healed');
    }
  }

  #lives(caller: number): boolean {
    return this.#callers[caller]!.client.alive;
  }

  #stallsMs(): number {
    return this.clients.reduce((sum, { process }) => sum + process.stalledMs, 0);
  }

  /**
   * Checks that each process gets each key within guard, ttl and a little, once nodes are healthy, no old message is left, and every
   * process has had the time to make again a connection that was refused before.
   */
  async #probe(): Promise<void> {
    const { plan, world } = this.context;
    const paths = this.clients.flatMap(({ nodes }) => nodes.map(({ ends }) => ends.path));
    const retriesMs = this.clients.map(
      ({ process }) => Math.max(this.#healedAtMs, process.ranSinceMs) + LAST_RETRY_MS,
    );
    const arrivals = paths.map((path) => path.arrivedAtMs);
    await world.runUntil(Math.max(world.nowMs, ...arrivals, ...retriesMs));
    const waitMs =
      guardMsOf(plan) +
      2 * plan.maxTtlMs +
      this.#clockBackMs() +
      RECOVERY_MS +
      (plan.family === 'silent-connections' ? SILENCE_MS : 0);
    for (const client of this.clients) {
      for (const key of plan.keys) {
        let outcome = 'still waiting';
        client.process.deliver(() => {
          const options = { wait: waitMs, extend: false, permits: plan.permits! };
          void client.ask([key], options).then((lock) => {
            outcome = lock === undefined ? 'refused' : 'granted';
            if (lock === undefined) return;
            client.record.releasing(lock);
            void lock.release();
          });
        });
        await world.runWhile(() => outcome === 'still waiting', world.nowMs + waitMs * 3 + 60_000);
        if (outcome === 'granted') continue;
        const message = `${client.name} could not get ${key} within ${waitMs} ms although everything had healed: ${outcome}`;
        broke(this.context, 'no-progress', message);
      }
    }
  }

  /** Keys of a node whose clock went back live longer by that. */
  #clockBackMs(): number {
    const { faults } = this.context.plan;
    return faults.reduce(
      (sum, fault) => sum + (fault.kind === 'server-jump' ? Math.max(0, -fault.byMs) : 0),
      0,
    );
  }

  /** Bytes of a connection that was reset arrive until then, and may set a key again. */
  #lateBytesMs(): number {
    const { faults } = this.context.plan;
    return Math.max(
      ...faults.map((fault) => (fault.kind === 'reset' ? MAX_REMEMBERED * fault.lateByMs : 0)),
      0,
    );
  }

  /** Everybody closes; after that nothing of theirs may be left anywhere. */
  async #close(): Promise<void> {
    const { world, plan, servers } = this.context;
    const open = new Set(this.clients);
    for (const client of this.clients) {
      client.process.deliver(() => {
        void client.redlock.close().then(() => {
          open.delete(client);
          this.#checkClosed(client, 'foreground', ({ background }) => !background);
        });
      });
    }
    if (!(await world.runWhile(() => open.size > 0, world.nowMs + 60_000 + this.#stallsMs()))) {
      broke(this.context, 'pending-after-close', 'close() is not done after a minute');
    }
    const lateMs = 3 * plan.maxTtlMs + this.#clockBackMs() + this.#lateBytesMs();
    await world.runUntil(world.nowMs + lateMs * (1 + plan.driftFactor) + MAX_BACKGROUND_MS + 100);
    for (const client of this.clients) {
      this.#checkClosed(client, 'background', () => true);
      client.closed();
    }
    for (const server of servers) {
      const orphans = server.lockNames();
      if (orphans.length === 0) continue;
      broke(
        this.context,
        'orphan',
        `${orphans.join()} left on ${server.name} after everything ended`,
      );
    }
  }

  #checkClosed(
    client: ClientProcess,
    what: string,
    counts: (timer: { readonly background: boolean }) => boolean,
  ): void {
    const left = [...client.process.timers].filter(counts).length;
    if (left === 0) return;
    broke(
      this.context,
      'pending-after-close',
      `${client.name} has ${left} ${what} timers after close`,
    );
  }
}
