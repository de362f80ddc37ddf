import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { RedlockOptions } from '../../lib/core/options/options.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { ballotNow, NodeDriver } from '../support/node-driver.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { redisNodes, useClosing, useRedlocks } from '../support/use-redlocks.ts';

// A primary becomes a replica, loses what its own primary did not know, and is the primary again. Connections to it are kept, and
// nobody joins either server meanwhile. Leases and guards are so long that none of them ends during a test.

const FAILOVER: RedlockOptions = {
  restartGuard: true,
  failover: { maxLag: 0 },
  ttl: '20m',
  wait: 0,
  nodeTimeout: '1m',
};

const openRedlock = useRedlocks();
const closing = useClosing();
let first: RedisServer;
let second: RedisServer;
let admins: readonly [Redis, Redis];

beforeEach(async () => {
  const servers = await startRedisServers(2, {
    own: true,
    args: ['--repl-diskless-sync-delay', '0'],
  });
  [first, second] = servers as [RedisServer, RedisServer];
  admins = [new Redis(first.url), new Redis(second.url)];
  await follow(second, first);
});
afterEach(async () => {
  for (const admin of admins) admin.disconnect();
  await Promise.all([first, second].map((server) => server.stop()));
});

function adminOf(server: RedisServer): Redis {
  return admins[Number(server === second)]!;
}

/** Resolves when the replica has all data of the primary. */
async function follow(replica: RedisServer, primary: RedisServer): Promise<void> {
  await adminOf(replica).replicaof(primary.host, primary.port);
  const offset = (info: string) => /^master_repl_offset:(\d+)/m.exec(info)?.[1];
  await eventually(async () => {
    const own = await adminOf(replica).info('replication');
    assert.match(own, /^master_link_status:up/m);
    assert.equal(offset(own), offset(await adminOf(primary).info('replication')));
  });
}

/** The first server loses what was written during `work`. */
async function lose(work: () => Promise<unknown>): Promise<void> {
  await adminOf(second).replicaof('NO', 'ONE');
  await work();
  await follow(first, second);
  await adminOf(first).replicaof('NO', 'ONE');
}

/** A node of the first server that was joined without a guard. */
async function openDriver(): Promise<NodeDriver> {
  const driver = await NodeDriver.open(createRedisNode(first.url));
  closing(driver.node);
  await driver.join(0, { failover: true });
  return driver;
}

/** Two processes whose locks the first server may give. */
async function startProcesses(): Promise<[Redlock, Redlock]> {
  const redlocks = [
    await openRedlock(redisNodes([first]), FAILOVER),
    await openRedlock(redisNodes([first]), FAILOVER),
  ] as const;
  const { marker } = new NodeNames('lock:', []);
  const words = (await adminOf(first).get(marker))!.split(' ');
  await adminOf(first).set(marker, words.with(1, '0').join(' '));
  await follow(second, first);
  return [...redlocks];
}

describe('a primary that was a replica for a while and lost a lock', () => {
  it('gives that to nobody before the guard is over, also not to a process that kept its connection', async () => {
    const [holder, idle] = await startProcesses();
    await (await idle.acquire('other')).release();
    let lock: Awaited<ReturnType<Redlock['acquire']>>;
    await lose(async () => (lock = await holder.acquire('key')));
    await expect(idle.acquire('key')).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
      message: expect.stringContaining('restart guard'),
    });
    expect(lock!.isHeld).toBe(true);
  });

  it('sets it not again for its holder, and extends those that it has', async () => {
    const [holder] = await startProcesses();
    const kept = await holder.acquire('kept');
    await follow(second, first);
    let lost: Awaited<ReturnType<Redlock['acquire']>>;
    await lose(async () => (lost = await holder.acquire('lost')));
    await expect(lost!.extend()).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    expect(await adminOf(first).exists('lock:lost')).toBe(0);
    await expect(kept.extend()).resolves.toBeUndefined();
  });
});

describe('a server that was made a replica', () => {
  it('extends nothing, also where it had to write nothing for that', async () => {
    const driver = await openDriver();
    const names = new NodeNames('lock:', ['key']);
    const ballot = ballotNow();
    await driver.acquire(names, 'holder', ballot, 1_200_000);
    await adminOf(first).replicaof('127.0.0.1', 1);
    expect(await driver.extend(names, 'holder', ballot, 600_000)).toEqual({ kind: 'unjoined' });
  });
});

describe('a batch for a primary that was a replica since it was joined', () => {
  it('has its votes refused until it is joined again, and its releases executed', async () => {
    const driver = await openDriver();
    const [held, extended, free] = ['held', 'extended', 'free'].map(
      (key) => new NodeNames('lock:', [key]),
    ) as [NodeNames, NodeNames, NodeNames];
    const ballot = ballotNow();
    for (const names of [held, extended]) await driver.acquire(names, 'holder', ballot);
    await follow(second, first);
    await lose(() => Promise.resolve());
    const asked = () => {
      driver.node.inspect({ names: free }, () => undefined); // while its answer is due, the requests wait for each other
      return Promise.all([
        driver.acquire(free, 'another', ballotNow()),
        driver.extend(extended, 'holder', ballot),
        driver.release(held, 'holder'),
      ]);
    };
    expect(await asked()).toEqual([
      { kind: 'unjoined' },
      { kind: 'unjoined' },
      { kind: 'released', deleted: 1 },
    ]);
    await driver.join(1_200_000, { failover: true });
    expect(await asked()).toMatchObject([
      { kind: 'quarantined' },
      { kind: 'extended', recreated: 0 },
      { kind: 'released', deleted: 0 },
    ]);
  });
});
