import { afterEach } from '@jest/globals';
import type { TimerHandle, Timers } from '../../../../lib/core/environment.ts';
import type { LockEvent } from '../../../../lib/core/events.ts';
import type { RedlockOptions } from '../../../../lib/core/options/options.ts';
import { Redlock } from '../../../../lib/core/redlock.ts';
import { MemoryLockServer } from '../../../../lib/testing/index.ts';
import { ManualEnvironment } from '../../../support/manual-environment.ts';
import { RecordedNode } from './recorded-node.ts';

/** The timers of one process, apart from those of the network, and which of them are set. */
function countedTimers(timers: Timers) {
  const live = new Set<TimerHandle>();
  const set = (callback: () => void, delayMs: number): TimerHandle => {
    const handle = timers.set(() => {
      live.delete(handle);
      callback();
    }, delayMs);
    live.add(handle);
    return handle;
  };
  const clear = (handle: TimerHandle): void => {
    live.delete(handle);
    timers.clear(handle);
  };
  return { live, timers: { set, clear } };
}

export interface ProcessOptions extends RedlockOptions {
  /** Round trip to each node. @default 2 */
  readonly latencyMs?: number;
  /** Milliseconds by which its wall clock is ahead. @default 0 */
  readonly wallErrorMs?: number;
  /** False: the nodes are not connected yet. @default true */
  readonly open?: boolean;
}

/** A process that uses the lock: a Redlock with nodes of its own, and what happened to it. */
export interface LockProcess {
  readonly redlock: Redlock;
  readonly nodes: readonly RecordedNode[];
  readonly events: LockEvent[];
  /** Events of one type. */
  readonly received: <Type extends LockEvent['type']>(
    type: Type,
  ) => Extract<LockEvent, { readonly type: Type }>[];
  /** Timers that the core has set. */
  readonly liveTimers: number;
}

/** N servers in memory and the processes that use them, in manual time. */
export class Cluster {
  readonly environment: ManualEnvironment;
  readonly servers: readonly MemoryLockServer[];
  readonly #processes: LockProcess[] = [];

  constructor(size: number, seed: number) {
    this.environment = new ManualEnvironment({ seed });
    const { clock } = this.environment;
    this.servers = Array.from({ length: size }, () => new MemoryLockServer({ clock, fresh: true }));
  }

  get nowMs(): number {
    return this.environment.clock.monotonicMs();
  }

  /** A process whose nodes have joined, unless `open` is false. No restart guard and ttl 3 s unless asked for. */
  async process(options: ProcessOptions = {}): Promise<LockProcess> {
    const { latencyMs = 2, wallErrorMs = 0, open = true, onEvent, ...rest } = options;
    const seed = 1_000 + this.#processes.length;
    const environment = this.environment.process({ seed, wallErrorMs });
    const { live, timers } = countedTimers(environment.timers);
    const network = { latencyMs, timers: this.environment.timers };
    const nodes = this.servers.map((server, index) => {
      const address = `node${index}:6379`;
      return new RecordedNode(server, { ...network, address }, () => this.nowMs);
    });
    const events: LockEvent[] = [];
    const redlock = new Redlock(
      nodes,
      {
        ttl: 3_000,
        restartGuard: false,
        ...rest,
        onEvent: (event) => {
          events.push(event);
          onEvent?.(event);
        },
      },
      { ...environment, timers },
    );
    const process: LockProcess = {
      redlock,
      nodes,
      events,
      received: (type) => events.filter((event) => event.type === type) as never,
      get liveTimers() {
        return live.size;
      },
    };
    this.#processes.push(process);
    if (open) {
      redlock.open();
      await this.environment.advance(4 * latencyMs + 1);
    }
    return process;
  }

  advance(durationMs: number): Promise<void> {
    return this.environment.advance(durationMs);
  }

  /** Lets time pass until it is settled. */
  settle<T>(promise: Promise<T>): Promise<T> {
    return this.environment.settle(promise);
  }

  /** Lets time pass until it is rejected, and returns the error. */
  failure(promise: Promise<unknown>): Promise<unknown> {
    return this.settle(rejection(promise));
  }

  /** Holders of `key`, server by server. */
  holdersOf(key: string): (string | null)[] {
    return this.servers.map((server) => server.call('GET', `lock:${key}`));
  }

  /** Number of servers that hold `key` for anybody. */
  holders(key: string): number {
    return this.holdersOf(key).filter((holder) => holder !== null).length;
  }

  /** A foreign holder of `key` on these servers. */
  occupy(key: string, servers: readonly number[], ttlMs: number, holder = 'foreign'): void {
    for (const index of servers)
      this.servers[index]?.call('SET', `lock:${key}`, holder, 'PX', ttlMs);
  }

  /** Closes every process, and checks that none of them left a timer behind. */
  async close(): Promise<void> {
    for (const { redlock } of this.#processes) await this.environment.settle(redlock.close());
    await this.environment.flush();
    for (const [index, { liveTimers }] of this.#processes.entries()) {
      if (liveTimers > 0)
        throw new Error(`Process ${index} left ${liveTimers} timers behind after close.`);
    }
  }
}

/** The error with which `promise` is rejected; nobody has to wait for it. Rejects when it resolves. */
export function rejection(promise: Promise<unknown>): Promise<unknown> {
  const rejected = promise.then(
    (value) => {
      throw new Error(`Expected a rejection, but it resolved with ${String(value)}.`);
    },
    (error: unknown) => error,
  );
  rejected.catch(() => undefined);
  return rejected;
}

/** Makes clusters of one process for the tests of one spec. */
export function processFactory() {
  const newCluster = clusterFactory();
  return async (options: ProcessOptions = {}, size = 3): Promise<LockProcess & OneCluster> => {
    const cluster = await newCluster(size);
    const process = await cluster.process(options);
    return Object.assign(process, { cluster, node: process.nodes[0]! });
  };
}

interface OneCluster {
  readonly cluster: Cluster;
  /** The first one. */
  readonly node: RecordedNode;
}

/** Makes clusters for the tests of one spec; after each test they are closed and checked for timers left behind. */
export function clusterFactory(): (size?: number, seed?: number) => Promise<Cluster> {
  let clusters: Cluster[] = [];
  afterEach(async () => {
    const ended = clusters;
    clusters = [];
    for (const cluster of ended) await cluster.close();
  });
  return async (size = 3, seed = 1) => {
    const cluster = new Cluster(size, seed);
    clusters.push(cluster);
    // Tests begin later than at instant 0, where nothing has happened before.
    await cluster.advance(1_000);
    return cluster;
  };
}
