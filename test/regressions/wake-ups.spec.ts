import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import type { Cluster, LockProcess } from '../unit/core/support/cluster.ts';
import { Draw, outcomeOf, sleepIn } from './support.ts';

const newCluster = clusterFactory();
const TICK_MS = 2;
const RUN_MS = 15_000;
const CALLERS = 200;
const KEYS = ['a', 'b', 'c', 'd', 'e'];
/** The longest jitter after a hint, the time for which a set keeps a free key, and the round trips between. */
const IDLE_MS = 40 + 40 + 20;
/** Between processes a split vote costs a random wait of up to the node timeout, 500 ms with this ttl. */
const BACK_OFF_MS = 500;

interface Waiter {
  readonly keys: readonly string[];
  readonly process: number;
  /** Since when all its keys have been free and no try named one of them. */
  idleSinceMs: number | undefined;
}

class Schedule {
  readonly idle: string[] = [];
  readonly #waiting: Waiter[] = [];
  readonly #cluster: Cluster;
  readonly #draw: Draw;
  readonly #processes: readonly LockProcess[];
  readonly #limitMs: number;
  /** How many commands of the first node of each process were looked at. */
  readonly #seen: number[];

  constructor(cluster: Cluster, processes: readonly LockProcess[]) {
    this.#cluster = cluster;
    this.#draw = new Draw(cluster);
    this.#processes = processes;
    this.#limitMs = processes.length > 1 ? IDLE_MS + BACK_OFF_MS : IDLE_MS;
    this.#seen = processes.map(() => 0);
  }

  /** Callers at random times; ends when the last of them has. */
  async run(): Promise<void> {
    let open = CALLERS;
    for (let index = 0; index < CALLERS; index += 1)
      void this.#call(index % this.#processes.length).finally(() => (open -= 1));
    while (open > 0) {
      await this.#cluster.advance(TICK_MS);
      this.#look();
    }
  }

  async #call(process: number): Promise<void> {
    const [cluster, draw] = [this.#cluster, this.#draw];
    await sleepIn(cluster, draw.below(RUN_MS));
    const keys = draw.some(KEYS, draw.chance(0.6) ? 1 : 2 + draw.below(2));
    const waiter: Waiter = { keys, process, idleSinceMs: undefined };
    const abort = new AbortController();
    if (draw.chance(0.2)) void sleepIn(cluster, draw.below(300)).then(() => abort.abort());
    this.#waiting.push(waiter);
    const extend = !draw.chance(0.03);
    const acquired = this.#processes[process]!.redlock.acquire(keys, {
      wait: draw.one([50, 300, 5_000, 20_000]),
      signal: abort.signal,
      extend,
      minHold: draw.one([0, 0, 0, 30]),
    });
    const { code } = await outcomeOf(acquired, () => cluster.nowMs);
    this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
    if (code !== 'granted') return;
    const lock = await acquired;
    await sleepIn(cluster, 1 + draw.below(60));
    // The others end with their validity.
    if (extend) await lock.release();
  }

  /** Notes every caller that has waited for too long although all it wants is free and nothing is tried. */
  #look(): void {
    const { nowMs } = this.#cluster;
    const tried = this.#processes.map(({ nodes }, process) => {
      const { commands } = nodes[0]!;
      const names = new Set<string>();
      for (let index = this.#seen[process]!; index < commands.length; index += 1) {
        const command = commands[index]!;
        if (command.name === 'acquire')
          for (const name of command.request.names.locks) names.add(name);
      }
      this.#seen[process] = commands.length;
      return names;
    });
    for (const waiter of this.#waiting) {
      const { keys, process } = waiter;
      const isFree = (key: string) =>
        this.#cluster.holders(key) === 0 && !tried[process]!.has(`lock:${key}`);
      if (!keys.every(isFree)) waiter.idleSinceMs = undefined;
      else waiter.idleSinceMs ??= nowMs;
      if (waiter.idleSinceMs === undefined || nowMs - waiter.idleSinceMs <= this.#limitMs) continue;
      this.idle.push(`[${keys.join()}] at ${Math.round(nowMs)}`);
      waiter.idleSinceMs = Number.POSITIVE_INFINITY;
    }
  }
}

describe('a caller whose keys are all free and untried', () => {
  it.each([
    ['one process', 1],
    ['three processes', 3],
  ])(
    'is never left waiting, in random schedules of %s',
    async (_, count) => {
      const idle: string[] = [];
      for (let seed = 1; seed <= 6; seed += 1) {
        const cluster = await newCluster(3, seed);
        const processes = await Promise.all(
          Array.from({ length: count }, () => cluster.process({ ttl: 5_000, wait: '20s' })),
        );
        const schedule = new Schedule(cluster, processes);
        await schedule.run();
        idle.push(...schedule.idle.map((caller) => `seed ${seed}: ${caller}`));
      }
      expect([idle.length, ...idle.slice(0, 5)]).toEqual([0]);
    },
    60_000,
  );
});
