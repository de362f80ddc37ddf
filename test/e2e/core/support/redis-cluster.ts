import { afterEach } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../../../lib/core/events.ts';
import type { RedlockOptions } from '../../../../lib/core/options/options.ts';
import { Redlock } from '../../../../lib/core/redlock.ts';
import { createRedisNode } from '../../../../lib/redis/client/create-redis-node.ts';
import { startRedisServers } from '../../../support/redis-servers/index.ts';
import type { RedisServer } from '../../../support/redis-servers/index.ts';
import { useRedisServers } from '../../../support/redis-servers/use-redis-servers.ts';
import { eventually } from '../../../support/eventually.ts';

/** A cluster for the tests of this block, repaired after each of them. It is there from the first test on. */
export function useRedisCluster(size: number): RedisCluster {
  const cluster = new RedisCluster(useRedisServers(size, { own: true }));
  afterEach(() => cluster.reset());
  return cluster;
}

/** A process that uses the lock. */
export interface RedisProcess {
  readonly redlock: Redlock;
  readonly events: LockEvent[];
}

/** N real servers, the processes that use them, and a look at their keys. */
export class RedisCluster {
  #processes: Redlock[] = [];
  #keys = 0;

  constructor(readonly servers: readonly RedisServer[]) {}

  static async start(size: number): Promise<RedisCluster> {
    return new RedisCluster(await startRedisServers(size, { own: true }));
  }

  get majority(): number {
    return Math.floor(this.servers.length / 2) + 1;
  }

  /** A key of its own for each test. */
  newKey(): string {
    return `key${(this.#keys += 1)}-${process.pid}`;
  }

  /** A process that all running servers have joined. ttl 2 s and no restart guard unless asked for. */
  async process(options: RedlockOptions = {}): Promise<RedisProcess> {
    const events: LockEvent[] = [];
    const nodes = this.servers.map(({ url }) => createRedisNode(url));
    const redlock = new Redlock(nodes, {
      ttl: '2s',
      restartGuard: false,
      ...options,
      onEvent: (event) => events.push(event),
    });
    this.#processes.push(redlock);
    redlock.open();
    const running = this.servers.filter((server) => server.isRunning).length;
    await eventually(() => {
      const joined = events.filter(({ type }) => type === 'node-joined').length;
      if (joined < running) throw new Error(`${joined} of ${running} nodes have joined`);
    });
    return { redlock, events };
  }

  /** Holders of `key`, on each server that runs; undefined where the key is free. */
  async owners(key: string): Promise<(string | undefined)[]> {
    return this.#each(async (client) => (await client.get(`lock:${key}`)) ?? undefined);
  }

  /** The time for which each running server keeps `key`. */
  livesMs(key: string): Promise<number[]> {
    return this.#each((client) => client.pttl(`lock:${key}`));
  }

  async holders(key: string): Promise<number> {
    return (await this.owners(key)).filter((owner) => owner !== undefined).length;
  }

  /** A foreign holder of `key`. */
  async occupy(key: string, servers: readonly number[], ttlMs: number): Promise<void> {
    await this.#each(async (client, index) => {
      if (servers.includes(index)) await client.set(`lock:${key}`, 'foreign', 'PX', ttlMs);
    });
  }

  /** Sends one command to every running server. */
  async command(name: string, ...parameters: string[]): Promise<unknown[]> {
    return this.#each((client) => client.call(name, parameters));
  }

  /** The restart guard of every running server that was joined ended long ago. */
  async endGuards(): Promise<void> {
    await this.#each(async (client) => {
      const marker = await client.get('lock:#marker');
      if (marker !== null) await client.set('lock:#marker', marker.replace(/ \d+/, ' 0'));
    });
  }

  /** Counts how often each running server was given this command since it started. */
  async calls(command: string): Promise<number[]> {
    return this.#each(async (client) => {
      const text = await client.info('commandstats');
      return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(text)?.[1] ?? 0);
    });
  }

  /** Closes the processes, and repairs the servers for the next test. */
  async reset(): Promise<void> {
    const processes = this.#processes;
    this.#processes = [];
    for (const server of this.servers) if (server.isRunning) await server.resume();
    await Promise.all(processes.map((redlock) => redlock.close()));
    for (const server of this.servers) if (!server.isRunning) await server.restart();
  }

  async stop(): Promise<void> {
    await this.reset();
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  #each<T>(ask: (client: Redis, index: number) => Promise<T>): Promise<T[]> {
    return Promise.all(
      [...this.servers.entries()]
        .filter(([, { isRunning }]) => isRunning)
        .map(async ([index, { url }]) => {
          const client = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
          client.on('error', () => undefined);
          try {
            return await ask(client, index);
          } finally {
            client.disconnect();
          }
        }),
    );
  }
}
