import { expect } from '@jest/globals';
import { TTL_MS } from '../../support/node-driver.ts';
import { ContractClient, RETENTION_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** The end of granted locks and of abandoned attempts. */
export const releaseChecks: readonly ContractCheck[] = [
  {
    name: 'abandon: the floor is again what it was before the attempt, also after several ballots',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      for (const before of [0, ballot - 5]) {
        const value = { floor: before, previous: ballot - 9 };
        if (before > 0) await harness.writeFloor(floor, value, RETENTION_MS);
        for (const step of [0, 1, 2, 2]) await client.acquire(names, 'attempt', ballot + step);
        expect(await client.abandon(names, 'attempt')).toEqual({ kind: 'released', deleted: 1 });
        expect(await harness.readLock(lock)).toBeNull();
        const after = await harness.readFloor(floor);
        if (before === 0) expect(after).toBeNull();
        else {
          expect(after).toMatchObject({ floor: before });
          expect(after!.remainingMs).toBeGreaterThan(RETENTION_MS - TTL_MS / 2);
        }
      }
      const stale = { kind: 'stale', floor: ballot - 5 };
      expect(await client.acquire(names, 'next', ballot - 5)).toMatchObject(stale);
      expect(await client.acquire(names, 'next', ballot - 4)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'abandon: attempts one after the other never lower the floor of a granted lock',
    async run(harness) {
      const { names, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await client.release(names, 'holder');
      for (let attempt = 1; attempt <= 4; attempt += 1) {
        const holder = `attempt-${attempt}`;
        await client.acquire(names, holder, ballot + attempt);
        if (attempt % 2 === 0) await client.acquire(names, holder, ballot + 10 + attempt);
        await client.abandon(names, holder);
        expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot });
      }
    },
  },
  {
    name: 'abandon: a late message of the attempt leaves at most a lock that ends with its ttl',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      const other = await ContractClient.joined(harness);
      await client.acquire(names, 'attempt', ballot);
      await client.abandon(names, 'attempt');
      expect(await other.acquire(names, 'attempt', ballot)).toEqual({ kind: 'accepted' });
      const orphan = await harness.readLock(lock);
      expect(orphan!.remainingMs).toBeLessThanOrEqual(TTL_MS);
      expect(orphan!.remainingMs).toBeGreaterThan(0);
    },
  },
  {
    name: 'release: with a time the lock stays as long for its holder alone, and never longer than it would',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      const holder = 'holder..-1';
      await client.acquire(names, holder, ballot);
      const [later, other, kept, refused] = await Promise.all([
        client.release(names, holder, { keepMs: 10 * TTL_MS }),
        client.release(names, 'holder..-2', { keepMs: 1 }),
        client.release(names, holder, { keepMs: TTL_MS / 2 }),
        client.acquire(names, 'holder..-3', ballot + 1),
      ]);
      expect([later, other, kept]).toEqual(Array(3).fill({ kind: 'released', deleted: 0 }));
      expect(refused).toMatchObject({ kind: 'held', holder });
      const { remainingMs } = (await harness.readLock(lock))!;
      expect(remainingMs).toBeLessThanOrEqual(TTL_MS / 2);
      expect(remainingMs).toBeGreaterThan(0);
      expect(await client.release(names, holder)).toEqual({ kind: 'released', deleted: 1 });
    },
  },
  {
    name: 'release: works before the join, and where the server forgot the scripts',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      const stranger = await ContractClient.connect(harness);
      await harness.forgetScripts();
      expect(await stranger.release(names, 'holder')).toEqual({ kind: 'released', deleted: 1 });
      expect(await harness.readLock(lock)).toBeNull();
    },
  },
];
