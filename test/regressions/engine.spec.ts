import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { checkNodes } from '../../lib/redis/preflight.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { RedisCluster } from '../e2e/core/support/redis-cluster.ts';

/** Settles within the time of a test that hangs, not of one that is slow. */
const outcomeOf = (promise: Promise<unknown>) =>
  promise.then(
    (value) => value,
    (error: unknown) => error,
  );

describe('three servers', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start(3);
  });
  afterEach(() => cluster.reset());
  afterAll(() => cluster.stop());

  it('a partial vote of our own does not block our retry', async () => {
    const { redlock } = await cluster.process();
    const key = cluster.newKey();
    await cluster.servers[1]!.kill();
    await cluster.occupy(key, [0], 400);
    const lock = await redlock.acquire(key, { wait: '20s' });
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });

  it('one hung node of three with a short ttl is still lockable, again and again', async () => {
    const { redlock } = await cluster.process({ ttl: '3s' });
    await cluster.servers[2]!.freeze();
    for (let round = 0; round < 5; round += 1) {
      const lock = await redlock.acquire(cluster.newKey(), { wait: 0 });
      expect(lock.remainingMs).toBeGreaterThan(0);
      await lock.release();
    }
  });

  it('a node that timed out keeps no orphan', async () => {
    const { redlock } = await cluster.process({ ttl: '20s', nodeTimeout: 200 });
    const key = cluster.newKey();
    await cluster.servers[1]!.freeze();
    await cluster.servers[2]!.freeze();
    await expect(redlock.acquire(key, { wait: 0 })).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
    });
    await cluster.servers[1]!.resume();
    await cluster.servers[2]!.resume();
    await eventually(async () => expect(await cluster.holders(key)).toBe(0));
    // And nothing comes later: everything that piled up has been executed when these are answered.
    await (await redlock.acquire(key)).release();
    await eventually(async () => expect(await cluster.holders(key)).toBe(0));
  });

  it('a lock that is already expired is never returned', async () => {
    const { redlock } = await cluster.process({ ttl: '1s', nodeTimeout: 300, wait: '20s' });
    for (let round = 0; round < 3; round += 1) {
      const acquired = redlock.acquire(cluster.newKey());
      // It is sent, and the answers lie in our buffers while this process is busy for longer than the ttl.
      const busyUntil = performance.now() + 1_100;
      while (performance.now() < busyUntil);
      const lock = await acquired;
      expect(lock.remainingMs).toBeGreaterThan(0);
      await lock.release();
    }
  });

  it('release problems do not replace the result or the error of the work', async () => {
    const { redlock, events } = await cluster.process({ ttl: '10s' });
    const strike = () => Promise.all(cluster.servers.map((server) => server.kill()));
    const paid = await redlock.withLock(cluster.newKey(), async () => {
      await strike();
      return 'payment-done';
    });
    expect(paid).toBe('payment-done');
    await Promise.all(cluster.servers.map((server) => server.restart()));
    const own = new Error('no seats left');
    const failed = redlock.withLock(
      cluster.newKey(),
      async () => {
        await strike();
        throw own;
      },
      { wait: '20s' },
    );
    expect(await outcomeOf(failed)).toBe(own);
    // After the answer: that came when the releases were written.
    await eventually(() =>
      expect(events.filter(({ type }) => type === 'release-incomplete')).toHaveLength(2),
    );
  });

  it('a key that is gone at its release does not replace the result', async () => {
    const { redlock } = await cluster.process();
    const key = cluster.newKey();
    const result = await redlock.withLock(key, async () => {
      await cluster.command('DEL', `lock:${key}`);
      return 'done';
    });
    expect(result).toBe('done');
  });

  it('a holder is notified of its loss although Redis hangs', async () => {
    const { redlock } = await cluster.process({ ttl: '1s' });
    const lock = await redlock.acquire(cluster.newKey());
    const validUntil = performance.now() + lock.remainingMs;
    const { signal } = lock;
    await Promise.all(cluster.servers.map((server) => server.freeze()));
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve());
    });
    // On a machine that is not overloaded this is before the end; it never waits for Redis.
    expect(lock.isHeld).toBe(false);
    expect(performance.now()).toBeLessThan(validUntil + 20_000);
  });

  it('a failed extension does not delete the lock', async () => {
    const { redlock } = await cluster.process({ ttl: '20s', extend: false, nodeTimeout: 200 });
    const key = cluster.newKey();
    const lock = await redlock.acquire(key);
    await Promise.all(cluster.servers.slice(1).map((server) => server.freeze()));
    await expect(lock.extend()).rejects.toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    await Promise.all(cluster.servers.map((server) => server.resume()));
    expect(await cluster.owners(key)).toEqual(cluster.servers.map(() => lock.token.holder));
    expect(lock.isHeld).toBe(true);
    await lock.extend();
    await lock.release();
  });

  it('a waiter that gives up does not delete the lock of the holder', async () => {
    const { redlock } = await cluster.process({ ttl: '10s' });
    const other = await cluster.process({ ttl: '10s' });
    const key = cluster.newKey();
    const lock = await redlock.acquire(key);
    expect(await redlock.tryAcquire(key)).toBeNull();
    expect(await other.redlock.tryAcquire(key, { wait: 300 })).toBeNull();
    expect(await cluster.owners(key)).toEqual(cluster.servers.map(() => lock.token.holder));
    await lock.release();
  });

  it('locks of one process do not share an owner', async () => {
    const { redlock } = await cluster.process();
    const holders = new Set<string>();
    const key = cluster.newKey();
    for (let round = 0; round < 20; round += 1) {
      const lock = await redlock.acquire(key);
      holders.add(lock.token.holder);
      await lock.release();
      await lock.release();
    }
    expect(holders.size).toBe(20);
  });

  it('a second release does not delete the lock of the next holder', async () => {
    const { redlock } = await cluster.process({ ttl: '10s' });
    const key = cluster.newKey();
    const first = await redlock.acquire(key);
    await first.release();
    const second = await redlock.acquire(key);
    await first.release();
    await first[Symbol.asyncDispose]();
    expect(await cluster.owners(key)).toContain(second.token.holder);
    expect(second.isHeld).toBe(true);
    await second.release();
  });

  it('acquire, extend and release work after SCRIPT FLUSH', async () => {
    const { redlock } = await cluster.process({ ttl: '20s' });
    const key = cluster.newKey();
    await cluster.command('SCRIPT', 'FLUSH');
    const lock = await redlock.acquire(key, { wait: 0 });
    await cluster.command('SCRIPT', 'FLUSH');
    await lock.extend();
    await cluster.command('SCRIPT', 'FLUSH');
    await lock.release();
    await eventually(async () => expect(await cluster.holders(key)).toBe(0));
  });

  it('a lock is written to the database that its URL names', async () => {
    const [server] = cluster.servers;
    const node = new RedisLockNode(`${server!.url}/3`);
    const driver = await NodeDriver.open(node);
    await driver.join();
    const names = new NodeNames('lock:', ['db']);
    await driver.acquire(names, 'holder', Date.now() * 1_000);
    expect((await cluster.command('GET', 'lock:db'))[0]).toBeNull();
    await driver.release(names, 'holder');
    await node.close();
  });

  it('the same server listed twice never looks like a quorum: the start-up checks refuse it', async () => {
    const [first, second] = cluster.servers;
    const url = new URL(first!.url);
    const inputs = [first!.url, `redis://localhost:${url.port}/1`, second!.url];
    const nodes = inputs.map((input) => new RedisLockNode(input));
    const drivers = await Promise.all(nodes.map((node) => NodeDriver.open(node)));
    const examined = await Promise.all(
      drivers.map(async (driver) => ({
        address: driver.node.address,
        reply: await driver.examine(),
      })),
    );
    await Promise.all(nodes.map((node) => node.close()));
    const options = { quorum: 2, restartGuard: true, keyPrefix: 'lock:' };
    const errors = checkNodes(examined, options).filter(({ severity }) => severity === 'error');
    expect(errors).toMatchObject([{ message: expect.stringMatching(/same|twice/i) }]);
  });

  it('contention is not an error event', async () => {
    const { redlock, events } = await cluster.process();
    const key = cluster.newKey();
    await cluster.occupy(key, [0, 1, 2], 60_000);
    await expect(redlock.acquire(key, { wait: 300 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    const types = events.map(({ type }) => type).filter((type) => type !== 'node-joined');
    expect(types).toEqual(['busy']);
  });

  it('an outage is not called contention, and names each node', async () => {
    const { redlock } = await cluster.process();
    await Promise.all(cluster.servers.map((server) => server.kill()));
    const error = await outcomeOf(redlock.acquire(cluster.newKey(), { wait: 300 }));
    expect(error).toMatchObject({ code: 'QUORUM_UNAVAILABLE', causes: [{}, {}, {}] });
    for (const { port } of cluster.servers) expect((error as Error).message).toContain(`${port}`);
  });

  it('wait 0 of one call is honoured', async () => {
    const { redlock } = await cluster.process({ wait: '25s' });
    const key = cluster.newKey();
    await cluster.occupy(key, [0, 1, 2], 60_000);
    // Every vote reads its keys so; the release that follows one which came too late to be counted does not.
    const before = (await cluster.calls('mget'))[0]!;
    await outcomeOf(redlock.acquire(key, { wait: 0 }));
    expect((await cluster.calls('mget'))[0]! - before).toBeLessThanOrEqual(1);
  });

  it('no keys → no lock', async () => {
    const { redlock } = await cluster.process();
    let ran = false;
    await expect(redlock.acquire([])).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    await expect(redlock.withLock([], () => (ran = true))).rejects.toMatchObject({
      code: 'FENCED_USAGE',
    });
    await expect(redlock.tryAcquire('')).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    expect(ran).toBe(false);
  });

  it('no extension hot loop for a ttl of 1,000 or 1,250 ms', async () => {
    const { redlock } = await cluster.process();
    const before = await cluster.calls('evalsha');
    const locks = [
      await redlock.acquire(cluster.newKey(), { ttl: 1_000 }),
      await redlock.acquire(cluster.newKey(), { ttl: 1_250 }),
    ];
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    const after = await cluster.calls('evalsha');
    await Promise.all(locks.map((lock) => lock.release()));
    expect(after[0]! - before[0]!).toBeLessThan(40);
  });

  it('a token of an overtaken holder is never above that of the holder', async () => {
    const { redlock } = await cluster.process({ ttl: '5s', extend: false });
    const other = await cluster.process({ ttl: '5s', extend: false });
    const key = cluster.newKey();
    const stale = await redlock.acquire(key);
    await cluster.command('DEL', `lock:${key}`);
    const holder = await other.redlock.acquire(key);
    expect(stale.token.value).toBeLessThan(holder.token.value);
    // It can't renew either, and learns that it is over.
    await expect(stale.extend()).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(await cluster.owners(key)).toContain(holder.token.holder);
    await holder.release();
  });

  it('a slow node does not make two holders', async () => {
    const first = await cluster.process({ ttl: '1s', nodeTimeout: 300, wait: '20s' });
    const second = await cluster.process({ ttl: '1s', nodeTimeout: 300, wait: '20s' });
    const key = cluster.newKey();
    let inside = 0;
    let most = 0;
    const work = async () => {
      most = Math.max(most, (inside += 1));
      await new Promise((resolve) => setTimeout(resolve, 20));
      inside -= 1;
    };
    const contenders = [first, second, first, second].map(({ redlock }) =>
      outcomeOf(redlock.withLock(key, work, { onLost: 'ignore' })),
    );
    await cluster.servers[0]!.freeze();
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    await cluster.servers[0]!.resume();
    await Promise.all(contenders);
    expect(most).toBe(1);
  });
});

describe('an even number of servers', () => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await RedisCluster.start(4);
  });
  afterEach(() => cluster.reset());
  afterAll(() => cluster.stop());

  it('with a split vote does not hang', async () => {
    const { redlock } = await cluster.process();
    const key = cluster.newKey();
    await cluster.occupy(key, [0, 1], 60_000);
    expect(await redlock.tryAcquire(key)).toBeNull();
    await expect(redlock.acquire(key, { wait: 300 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
  });

  it('counts a majority as more than half', async () => {
    const { redlock } = await cluster.process({ ttl: '10s' });
    await cluster.servers[0]!.kill();
    await (await redlock.acquire(cluster.newKey(), { wait: '20s' })).release();
    await cluster.servers[1]!.kill();
    await expect(redlock.acquire(cluster.newKey(), { wait: 300 })).rejects.toMatchObject({
      code: 'QUORUM_UNAVAILABLE',
    });
  });
});
