import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import type { RedlockOptions } from '../../lib/core/options/options.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { createRedisNode } from '../../test/support/clients.ts';
import { Link } from '../../test/support/link.ts';
import { eventually } from '../../test/support/eventually.ts';
import type { RedisServer } from '../../test/support/redis-servers/index.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';
import { useClosing, useRedlocks } from '../../test/support/use-redlocks.ts';

const closing = useClosing();
const openRedlock = useRedlocks();
const servers = useRedisServers(2, { own: true, args: ['--repl-diskless-sync-delay', '0'] });

async function ask(server: RedisServer, command: string, ...parameters: string[]): Promise<string> {
  const client = new Redis(server.url);
  return client
    .call(command, parameters)
    .then(String)
    .finally(() => client.disconnect());
}

async function follow(replica: RedisServer, { host, port }: RedisServer): Promise<void> {
  await ask(replica, 'REPLICAOF', host, String(port));
  await eventually(async () => {
    expect(await ask(replica, 'INFO', 'replication')).toContain('master_link_status:up');
  });
}

const promote = (server: RedisServer) => ask(server, 'REPLICAOF', 'NO', 'ONE');

afterEach(async () => {
  for (const server of servers) {
    await promote(server);
    await ask(server, 'FLUSHALL');
  }
});

/** A process behind an address that leads to the first server. It has waited for a release, so that it has all its connections. */
async function openBehindAddress(options: RedlockOptions) {
  const events: LockEvent['type'][] = [];
  const path = closing(await Link.open(servers[0]!));
  const onEvent = ({ type }: LockEvent) => void (type.startsWith('node-') && events.push(type));
  const redlock = await openRedlock([createRedisNode(path.url)], { ...options, onEvent });
  const other = await openRedlock([createRedisNode(path.url)], options);
  const lock = await other.acquire('warm', { wait: '5s' });
  const waiting = redlock.acquire('warm', { wait: '5s' });
  await sleep(100);
  await lock.release();
  await (await waiting).release();
  await other.close();
  return { path, redlock, events };
}

describe('a server that was demoted while the connections to its address stay', () => {
  const guarded = { restartGuard: true, ttl: '1s' } as const;

  it.each([
    ['votes', false],
    ['joins', true],
  ])('is left when it refuses %s: locks again within the guard and 2 s', async (_, isJoined) => {
    const [primary, replica] = servers as [RedisServer, RedisServer];
    await follow(replica, primary);
    const { path, redlock } = await openBehindAddress(guarded);
    const held = await redlock.acquire('held', { ttl: '900ms' });
    await promote(replica);
    path.target = replica;
    // A further process has joined the new primary, which the old one learns of by replication: it forgets who joined it.
    if (isJoined) await openRedlock([createRedisNode(replica.url)], guarded);
    await follow(primary, replica);
    const keys = ['a', 'b', 'c'];
    const locks = await Promise.all(keys.map((key) => redlock.acquire(key, { wait: '3s' })));
    expect(locks.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
    await Promise.all([held, ...locks].map((lock) => lock.release()));
  });
});

describe('an address that leads to another primary', () => {
  /** Calls until `isOver`, also such that wait for each other; returns how many ended well, and the errors. */
  async function load(redlock: Redlock, wait: RedlockOptions['wait'], isOver: () => boolean) {
    const errors: unknown[] = [];
    let calls = 0;
    const caller = async (key: string) => {
      while (!isOver()) {
        await redlock.withLock(key, () => sleep(1), { wait }).catch((error) => errors.push(error));
        calls += 1;
      }
    };
    const keys = Array.from({ length: 20 }, (_, index) => `load${index}`);
    const shared = wait === 0 ? [] : keys;
    await Promise.all([...keys, ...shared].map(caller));
    return { calls, errors };
  }

  const votesAt = async (server: RedisServer) =>
    Number(/cmdstat_evalsha:calls=(\d+)/.exec(await ask(server, 'INFO', 'commandstats'))?.[1] ?? 0);

  it.each([
    ['is reached within maxConnectionAge, and no call fails for it', '1s', true],
    ['is not reached before', '1h', false],
  ] as const)('%s', async (_, maxConnectionAge, isReached) => {
    const [from, to] = servers as [RedisServer, RedisServer];
    await ask(to, 'CONFIG', 'RESETSTAT');
    const options = { restartGuard: true, ttl: '1s', maxConnectionAge } as const;
    const { path, redlock, events } = await openBehindAddress(options);
    path.target = to;
    const untilMs = performance.now() + 4_000;
    const { calls, errors } = await load(redlock, undefined, () => performance.now() > untilMs);
    expect([errors, calls > 100]).toEqual([[], true]);
    expect((await votesAt(to)) > 100).toBe(isReached);
    expect(events.slice(1)).toEqual(isReached ? ['node-left', 'node-joined'] : []);
    // There are connections beside the one that asks: for commands, and for hints.
    const clients = await Promise.all([from, to].map((server) => ask(server, 'CLIENT', 'LIST')));
    const counts = clients.map((list) => list.trim().split('\n').length - 1);
    expect(counts).toEqual(isReached ? [0, 2] : [2, 0]);
  });
});
