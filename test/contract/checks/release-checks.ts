import { expect } from '@jest/globals';
import { ContractClient, RETENTION_MS, TTL_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** The end of granted locks and of abandoned attempts. */
export const releaseChecks: readonly ContractCheck[] = [
  {
    name: 'release: deletes the own lock once, keeps the floor, and says how many it deleted',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await harness.writeFloor(names.pairs[1]!, { floor: ballot - 1, previous: 0 }, RETENTION_MS);
      await client.acquire(names, 'holder', ballot);
      expect(await client.release(names, 'holder')).toEqual({ kind: 'released', deleted: 1 });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      expect(await client.release(names, 'holder')).toEqual({ kind: 'released', deleted: 0 });
    },
  },
  {
    name: 'release: never touches what another holder owns, nor its floor',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'first', ballot);
      await harness.deleteLock(names.locks[0]!);
      await client.acquire(names, 'second', ballot + 5);
      expect(await client.release(names, 'first')).toEqual({ kind: 'released', deleted: 0 });
      expect(await client.abandon(names, 'first')).toEqual({ kind: 'released', deleted: 0 });
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'second' });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot + 5,
        previous: ballot,
      });
    },
  },
  {
    name: 'release: a granted lock is never forgotten, also when its holder is abandoned later',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await client.release(names, 'holder');
      await client.abandon(names, 'holder');
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      expect(await client.acquire(names, 'next', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
      });
    },
  },
  {
    name: 'abandon: the floor is again what it was, with at least the life it had',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await harness.writeFloor(names.pairs[1]!, { floor: ballot - 5, previous: 0 }, RETENTION_MS);
      await client.acquire(names, 'attempt', ballot);
      expect(await client.abandon(names, 'attempt')).toEqual({ kind: 'released', deleted: 1 });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      const floor = await harness.readFloor(names.pairs[1]!);
      expect(floor).toMatchObject({ floor: ballot - 5 });
      expect(floor!.remainingMs).toBeGreaterThan(RETENTION_MS - TTL_MS / 2);
      expect(await client.acquire(names, 'next', ballot - 4)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'abandon: restores what was before the attempt, also after several ballots',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await harness.writeFloor(
        names.pairs[1]!,
        { floor: ballot - 5, previous: ballot - 9 },
        RETENTION_MS,
      );
      for (const step of [0, 1, 2, 2]) await client.acquire(names, 'attempt', ballot + step);
      await client.abandon(names, 'attempt');
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot - 5 });
      expect(await client.acquire(names, 'next', ballot - 5)).toMatchObject({
        kind: 'stale',
        floor: ballot - 5,
      });
    },
  },
  {
    name: 'abandon: where there was no floor none stays',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'attempt', ballot);
      await client.acquire(names, 'attempt', ballot + 1);
      await client.abandon(names, 'attempt');
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
    },
  },
  {
    name: 'abandon: attempts one after the other never lower the floor of a granted lock',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await client.release(names, 'holder');
      for (let attempt = 1; attempt <= 4; attempt += 1) {
        await client.acquire(names, `attempt-${attempt}`, ballot + attempt);
        if (attempt % 2 === 0)
          await client.acquire(names, `attempt-${attempt}`, ballot + 10 + attempt);
        await client.abandon(names, `attempt-${attempt}`);
        expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      }
      expect(await client.acquire(names, 'next', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
      });
    },
  },
  {
    name: 'abandon: a late message of the attempt leaves at most a lock that ends with its ttl',
    async run(harness) {
      const names = harness.names('a');
      const [client, other] = [
        await ContractClient.joined(harness),
        await ContractClient.joined(harness),
      ];
      const ballot = await harness.nowMicros();
      await client.acquire(names, 'attempt', ballot);
      await client.abandon(names, 'attempt');
      expect(await other.acquire(names, 'attempt', ballot)).toEqual({ kind: 'accepted' });
      const orphan = await harness.readLock(names.locks[0]!);
      expect(orphan!.remainingMs).toBeLessThanOrEqual(TTL_MS);
      expect(orphan!.remainingMs).toBeGreaterThan(0);
    },
  },
  {
    name: 'release: works before the join, and where the server forgot the scripts',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      await client.acquire(names, 'holder', await harness.nowMicros());
      const stranger = await ContractClient.connect(harness);
      await harness.forgetScripts();
      expect(await stranger.release(names, 'holder')).toEqual({ kind: 'released', deleted: 1 });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
    },
  },
];
