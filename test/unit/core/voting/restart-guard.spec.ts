import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();
const TTL_MS = 3_000;

/** Two processes on a cluster that has been up long enough to vote; the first holds `a`. */
async function guarded(restartGuard = true) {
  const cluster = await newCluster();
  const holder = await cluster.process({ restartGuard });
  const other = await cluster.process({ restartGuard });
  await cluster.advance(TTL_MS);
  const lock = await cluster.settle(holder.redlock.acquire('a'));
  const isTaken = async () => {
    const taken = other.redlock.tryAcquire('a').catch(() => null);
    return (await cluster.settle<Lock | null>(taken)) !== null;
  };
  /** Its process hangs, but its validity still runs. */
  const hang = () => holder.nodes.forEach((node) => node.freeze());
  return { cluster, other, lock, isTaken, hang };
}

describe('nodes that restart without their data', () => {
  it.each([
    ['restart', 2],
    ['flush', 3],
  ] as const)('do not give away a lock that they forgot: %s', async (how, count) => {
    const { cluster, lock, isTaken, hang } = await guarded();
    hang();
    for (const server of cluster.servers.slice(0, count)) server[how]({ keepData: false });
    await cluster.advance(50);
    let asked = 0;
    for (; lock.isHeld; asked += 1) {
      expect(await isTaken()).toBe(false);
      await cluster.advance(100);
    }
    expect(asked).toBeGreaterThan(10);
  });

  it('would give it away without the guard: what it is for', async () => {
    const { cluster, lock, isTaken, hang } = await guarded(false);
    hang();
    for (const index of [0, 1]) cluster.servers[index]?.restart({ keepData: false });
    await cluster.advance(50);
    expect([await isTaken(), lock.isHeld]).toEqual([true, true]);
  });

  it('one after another leave the lock to its holder, and to no one else', async () => {
    const { cluster, other, lock, isTaken } = await guarded();
    for (const server of cluster.servers) {
      server.restart({ keepData: false });
      for (let step = 0; step < 45; step += 1) {
        await cluster.advance(100);
        expect([await isTaken(), lock.isHeld]).toEqual([false, true]);
      }
    }
    expect(cluster.holdersOf('a')).toEqual(cluster.servers.map(() => lock.token.holder));
    await cluster.settle(lock.release());
    const next = await cluster.settle(other.redlock.acquire('a'));
    expect(next.token.value).toBeGreaterThan(lock.token.value);
  });

  it('all at once give no lock until the guard has passed, then with a larger token', async () => {
    const { cluster, other, lock } = await guarded();
    const restartedAtMs = cluster.nowMs;
    for (const server of cluster.servers) server.restart({ keepData: false });
    await cluster.advance(50);
    const error = await cluster.failure(other.redlock.acquire('a', { wait: 0 }));
    const message = expect.stringMatching(/started or joined [\d.]+ s ago \(restart guard\)/);
    expect(error).toMatchObject({ code: 'QUORUM_UNAVAILABLE', message });
    const next = await cluster.settle(other.redlock.acquire('a', { wait: '10s' }));
    const tookMs = cluster.nowMs - restartedAtMs;
    expect([tookMs >= TTL_MS, tookMs < TTL_MS + 500, lock.isHeld]).toEqual([true, true, false]);
    expect(next.token.value).toBeGreaterThan(lock.token.value);
  });

  it('are all named with the time that is left when the call fails, not when they were asked', async () => {
    const { cluster, other } = await guarded();
    for (const server of cluster.servers) server.restart({ keepData: false });
    await cluster.advance(50);
    const error = await cluster.failure(other.redlock.acquire('b', { wait: 1_500 }));
    const causes = cluster.servers.map(() => ({
      reason: 'quarantined',
      message: 'may not vote for 1.5 s more: it started or joined 1.5 s ago (restart guard)',
    }));
    expect(error).toMatchObject({ causes });
  });

  it.each([
    ['shorter', { restartGuard: true }, 'is 3 s'],
    ['off', { restartGuard: false }, 'is off'],
  ])(
    'name the longer guard of another process where the own one is %s',
    async (_how, own, said) => {
      const cluster = await newCluster();
      await cluster.process({ restartGuard: true, maxTtl: '20s' });
      const { redlock } = await cluster.process(own);
      const error = await cluster.failure(redlock.acquire('a', { wait: 0 }));
      expect(error).toMatchObject({ causes: { length: 3 } });
      expect((error as Error).message).toMatch(
        new RegExp(
          `may not vote for (19\\.\\d|20) s more: another process with this keyPrefix has set a longer restart guard \\(the one here ${said}\\)`,
        ),
      );
    },
  );
});
