import { describe, expect, it } from '@jest/globals';
import { LockBusyError, QuorumUnavailableError } from '../../../lib/core/errors.ts';
import type { RedlockError } from '../../../lib/core/errors.ts';
import { eventually } from '../../support/eventually.ts';
import { useRedisCluster, type RedisCluster } from './support/redis-cluster.ts';

interface Fault {
  readonly name: string;
  /** The number of nodes from which on a quorum answers all the same. */
  readonly survivableFrom: number;
  /** Whether servers are frozen, so that they can't be looked at while it lasts. */
  readonly frozen?: boolean;
  readonly strike: (cluster: RedisCluster) => Promise<unknown>;
}

const faults: Fault[] = [
  { name: 'all healthy', survivableFrom: 1, strike: async () => undefined },
  { name: 'one dead', survivableFrom: 3, strike: ({ servers }) => servers[0]!.kill() },
  {
    name: 'one frozen',
    survivableFrom: 3,
    frozen: true,
    strike: ({ servers }) => servers[0]!.freeze(),
  },
  {
    name: 'a majority frozen',
    survivableFrom: Infinity,
    frozen: true,
    strike: ({ servers, majority }) =>
      Promise.all(servers.slice(0, majority).map((server) => server.freeze())),
  },
  {
    name: 'one restarted empty',
    survivableFrom: 1,
    strike: ({ servers }) => servers[0]!.restart(),
  },
];

async function repair({ servers }: RedisCluster): Promise<void> {
  for (const server of servers) {
    if (server.isRunning) await server.resume();
    else await server.restart();
  }
}

describe.each([1, 3, 5])('with %i nodes', (size) => {
  const cluster = useRedisCluster(size);

  describe.each(faults)('$name', ({ survivableFrom, frozen = false, strike }) => {
    const survivable = size >= survivableFrom;

    it('an acquire succeeds and is released, or fails for want of a quorum and leaves no key behind', async () => {
      const { redlock, events } = await cluster.process({ ttl: '1h' });
      const key = cluster.newKey();
      await strike(cluster);
      const outcome = await redlock.acquire(key, { wait: survivable ? '1m' : 500 }).then(
        async (lock) => {
          // A frozen server can't be looked at.
          const holders = frozen ? cluster.majority : await cluster.holders(key);
          await lock.release();
          return holders >= cluster.majority ? 'held by a majority' : `held by ${holders} only`;
        },
        (error: RedlockError) => error.code,
      );
      expect(outcome).toBe(survivable ? 'held by a majority' : 'QUORUM_UNAVAILABLE');
      expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
      await repair(cluster);
      await eventually(async () => expect(await cluster.holders(key)).toBe(0));
    });

    it('a held lock is extended, or its loss is reported in time', async () => {
      // Endless where it must survive, so that no pause ends it.
      const { redlock } = await cluster.process({ ttl: survivable ? '1h' : '1s' });
      const lock = await redlock.acquire(cluster.newKey(), { wait: '1m' });
      const { signal } = lock;
      await strike(cluster);
      await eventually(async () => {
        // A server that restarted empty is given its key again.
        if (survivable) await lock.extend();
        else if (!signal.aborted) throw new Error('the loss has not been reported yet');
      });
      const { code } = (signal.reason ?? {}) as { code?: string };
      expect([lock.isHeld, code]).toEqual(survivable ? [true, undefined] : [false, 'LOCK_LOST']);
      await lock.release();
    });

    it('a waiter gets the lock when it is released or when the servers are back', async () => {
      const holder = await cluster.process({ ttl: '3s' });
      const waiter = await cluster.process({ ttl: '3s' });
      const key = cluster.newKey();
      const lock = await holder.redlock.acquire(key, { wait: '1m' });
      const acquired = waiter.redlock.acquire(key, { wait: '1m' });
      acquired.catch(() => undefined);
      await strike(cluster);
      await lock.release();
      if (!survivable) await repair(cluster);
      const next = await acquired;
      expect(next.token.value).toBeGreaterThan(lock.token.value);
      await next.release();
    });
  });
});

describe('nodes that restart empty', () => {
  const cluster = useRedisCluster(3);

  it('a lock stays with its holder, whose keys are repaired, while three nodes restart empty one after another', async () => {
    const holder = await cluster.process({ ttl: '1h', restartGuard: true });
    const other = await cluster.process({ ttl: '1h', restartGuard: true });
    const key = cluster.newKey();
    await cluster.endGuards();
    const lock = await holder.redlock.acquire(key, { wait: '1m' });
    for (const [index, server] of cluster.servers.entries()) {
      await server.restart();
      // Both know the server that came back before its guard is ended: otherwise its marker seems to be older than the lock.
      await eventually(() => {
        for (const { redlock } of [holder, other])
          expect(redlock.status().nodes[index]?.state).toBe('quarantined');
      });
      await eventually(async () => {
        const got = await other.redlock.tryAcquire(key).catch((error: unknown) => {
          if (error instanceof QuorumUnavailableError) return null;
          throw error;
        });
        expect(got).toBeNull();
        await cluster.endGuards();
        await lock.extend();
        expect((await cluster.owners(key))[index]).toBe(lock.token.holder);
      });
      expect(lock.isHeld).toBe(true);
    }
    expect(lock.signal.aborted).toBe(false);
    await lock.release();
    const next = await other.redlock.acquire(key, { wait: '1m' });
    expect(next.token.value).toBeGreaterThan(lock.token.value);
  });

  it('nodes that all restarted at once may not vote during the restart guard, and errors say so', async () => {
    const { redlock } = await cluster.process({ ttl: '1h', restartGuard: true });
    await cluster.endGuards();
    await (await redlock.acquire(cluster.newKey(), { wait: '1m' })).release();
    await Promise.all(cluster.servers.map((server) => server.restart()));
    const error = await eventually(async () => {
      const caught = await redlock.acquire(cluster.newKey(), { wait: 0 }).catch((e: unknown) => e);
      expect((caught as Error).message).toContain('restart guard');
      return caught;
    });
    expect(error).toBeInstanceOf(QuorumUnavailableError);
    expect(error).not.toBeInstanceOf(LockBusyError);
    await cluster.endGuards();
    await (await redlock.acquire(cluster.newKey(), { wait: '1m' })).release();
  });
});

describe('three nodes without faults', () => {
  const cluster = useRedisCluster(3);

  it('several processes never hold one lock at once, and tokens grow', async () => {
    const processes = await Promise.all([1, 2, 3].map(() => cluster.process({ wait: '1m' })));
    const key = cluster.newKey();
    let inside = 0;
    let mostInside = 0;
    const tokens: number[] = [];
    await Promise.all(
      processes.flatMap(({ redlock }) =>
        Array.from({ length: 15 }, () =>
          redlock.withLock(key, async (lock) => {
            inside += 1;
            mostInside = Math.max(mostInside, inside);
            tokens.push(lock.token.value);
            await new Promise((resolve) => setTimeout(resolve, 1));
            inside -= 1;
          }),
        ),
      ),
    );
    expect(mostInside).toBe(1);
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => a - b));
    expect(tokens).toHaveLength(45);
  });

  it('a lock whose work, or process, ends before its minHold is kept for what is left of that, and not for its ttl', async () => {
    const { redlock } = await cluster.process({ ttl: '1h', minHold: '1m' });
    const [quick, closed] = [cluster.newKey(), cluster.newKey()];
    await redlock.withLock(quick, () => 'quick');
    await redlock.acquire(closed);
    await redlock.close();
    await eventually(async () => {
      const livesMs = [...(await cluster.livesMs(quick)), ...(await cluster.livesMs(closed))];
      expect(Math.max(...livesMs)).toBeLessThanOrEqual(61_000);
      expect(Math.min(...livesMs)).toBeGreaterThan(0);
    });
  });

  it('a grant without rivals takes one round trip', async () => {
    // However long a server pauses, it is not asked twice.
    const { redlock } = await cluster.process({ ttl: '1h', nodeTimeout: '20m', wait: '1h' });
    const before = await cluster.calls('evalsha');
    for (let round = 0; round < 10; round += 1)
      await (await redlock.acquire(cluster.newKey())).release();
    // An acquire and a release, on each server.
    await eventually(async () => {
      const after = await cluster.calls('evalsha');
      expect(after.map((calls, index) => calls - before[index]!)).toEqual([20, 20, 20]);
    });
  });
});
