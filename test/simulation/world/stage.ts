import type { Lock } from '../../../lib/core/lock.ts';
import { Chance } from './chance.ts';
import { ClientProcess } from './client-process.ts';
import type { Membership } from './client-process.ts';
import { planQuiet } from '../families/plan.ts';
import { createRun } from './run-context.ts';
import type { RunContext } from './run-context.ts';
import type { SimulatedServer } from './simulated-server.ts';

export interface StageOptions {
  readonly nodes?: number;
  readonly clients?: number;
  readonly ttlMs?: number;
  readonly guard?: boolean;
  readonly seed?: number;
}

export type Outcome<Value> = { readonly value: Value } | { readonly error: unknown };

/** The simulator without a plan: a scenario is played step by step, and what happens between is up to the core. */
export class Stage {
  readonly run: RunContext;
  readonly clients: ClientProcess[];

  #starts = 1;

  /** Stage on a run with clients that are connected already, or will be. */
  constructor(run: RunContext, clients: ClientProcess[]) {
    this.run = run;
    this.clients = clients;
  }

  /** The process of a client ends in order, and starts again with other nodes or another quorum. */
  async roll(client: number, membership: Membership): Promise<void> {
    await this.do(client, ({ redlock }) => redlock.close());
    this.#starts += 1;
    const next = new ClientProcess(this.run, client, this.#starts, membership);
    this.clients[client] = next;
    next.calm();
    next.open();
    await this.advance(50);
  }

  /** Opens a stage with every client connected to every node, and no node in quarantine any more. */
  static async open(options: StageOptions = {}): Promise<Stage> {
    const stage = newStage(options);
    for (const client of stage.clients) {
      client.calm();
      client.open();
    }
    await stage.advance(50 + (options.guard === true ? stage.run.plan.ttlMs : 0));
    return stage;
  }

  get servers(): readonly SimulatedServer[] {
    return this.run.servers;
  }

  get nowMs(): number {
    return this.run.world.nowMs;
  }

  advance(ms: number): Promise<void> {
    return this.run.world.runUntil(this.nowMs + ms);
  }

  /** Starts `work` in the process of a client; the outcome is there when it has settled. */
  start<Value>(
    client: number,
    work: (client: ClientProcess) => Promise<Value>,
  ): { outcome?: Outcome<Value> } {
    const started: { outcome?: Outcome<Value> } = {};
    const process = this.clients[client]!;
    process.process.deliver(() => {
      work(process).then(
        (value) => (started.outcome = { value }),
        (error: unknown) => (started.outcome = { error }),
      );
    });
    return started;
  }

  /** Lets time pass until what was started has settled. */
  async settle<Value>(started: { readonly outcome?: Outcome<Value> }): Promise<Outcome<Value>> {
    await this.run.world.runWhile(() => started.outcome === undefined, this.nowMs + 60_000);
    if (started.outcome === undefined) throw new Error('Not settled within a minute.');
    return started.outcome;
  }

  /** Runs `work` in the process of a client and gives its value. */
  async do<Value>(client: number, work: (client: ClientProcess) => Promise<Value>): Promise<Value> {
    const outcome = await this.settle(this.start(client, work));
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  /** Nothing passes between this client and these nodes. */
  cut(client: number, nodes: readonly number[]): void {
    for (const node of nodes) {
      for (const direction of ['requests', 'replies'] as const)
        this.clients[client]!.nodes[node]!.ends.path.hold(direction);
    }
  }

  mend(client: number, nodes: readonly number[]): void {
    for (const node of nodes) {
      for (const direction of ['requests', 'replies'] as const)
        this.clients[client]!.nodes[node]!.ends.path.pass(direction);
    }
  }

  /** Breaks every connection between this client and these nodes, and none can be made: no decision waits for them. */
  part(client: number, nodes: readonly number[]): void {
    this.cut(client, nodes);
    for (const node of nodes) this.clients[client]!.nodes[node]!.breakOff('parted');
  }

  /**
   * A lock that is not extended by itself, and goes into the history; undefined when there was none to be had, or none within
   * `patienceMs`.
   */
  acquire(client: number, waitMs = 0, patienceMs?: number): Promise<Lock | undefined> {
    const { signal, abort } = abortable();
    if (patienceMs !== undefined)
      this.run.world.after(patienceMs, () => this.clients[client]!.process.deliver(abort));
    return this.do(client, (process) =>
      process.ask(['a'], { wait: waitMs, extend: false, signal }),
    );
  }

  release(client: number, lock: Lock): Promise<void> {
    return this.do(client, (process) => {
      process.record.releasing(lock);
      return lock.release();
    });
  }

  /** Closes every client and lets everything end. Fails when a promise of the wire was broken. */
  async close(): Promise<void> {
    for (const index of this.clients.keys()) await this.do(index, ({ redlock }) => redlock.close());
    await this.advance(5_000);
    const broken = this.run.violations.map(({ rule, message }) => `${rule}: ${message}`);
    if (broken.length > 0) throw new Error(broken.join('\n'));
  }
}

function newStage(options: StageOptions): Stage {
  const { nodes = 3, clients = 2, ttlMs = 1_000, guard = false, seed = 1 } = options;
  const plan = planQuiet(seed, new Chance(seed), {
    family: 'steady',
    nodes,
    ttlMs,
    guard,
    latencyMs: 1,
    callers: Array.from({ length: clients }, () => 0),
    servers: Array.from({ length: nodes }, () => ({ clockRate: 1, clockErrorMs: 0 })),
  });
  const run = createRun(plan, false);
  return new Stage(
    run,
    plan.clients.map((_, index) => new ClientProcess(run, index, 1)),
  );
}

function abortable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
