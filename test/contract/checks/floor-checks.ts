import { expect } from '@jest/globals';
import { ContractClient, RETENTION_MS, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck } from '../contract-harness.ts';

const LARGEST = Number.MAX_SAFE_INTEGER;

/** Checks of what a floor is worth: exact numbers, and nothing lost when it expires. */
export const floorChecks: readonly ContractCheck[] = [
  {
    name: 'numbers: exact up to 2^53-1 in every command',
    async run(harness) {
      const names = harness.names('a');
      const [lock, floor] = names.pairs as [string, string];
      const client = await ContractClient.joined(harness);
      await harness.writeFloor(floor, { floor: LARGEST - 2, previous: LARGEST - 3 }, RETENTION_MS);
      expect(await client.acquire(names, 'a', LARGEST - 2)).toMatchObject({
        kind: 'stale',
        floor: LARGEST - 2,
        byClock: false,
      });
      expect(await client.acquire(names, 'a', LARGEST - 1)).toEqual({ kind: 'accepted' });
      expect(await client.acquire(names, 'a', LARGEST - 1)).toEqual({ kind: 'accepted' });
      expect(await harness.readFloor(floor)).toMatchObject({
        floor: LARGEST - 1,
        previous: LARGEST - 2,
      });
      expect(await client.acquire(names, 'b', LARGEST)).toMatchObject({
        kind: 'held',
        floor: LARGEST - 1,
      });
      await client.abandon(names, 'a');
      expect(await harness.readFloor(floor)).toMatchObject({ floor: LARGEST - 2 });
      expect(await client.acquire(names, 'b', LARGEST - 1)).toEqual({ kind: 'accepted' });
      expect(await client.acquire(names, 'b', LARGEST)).toEqual({ kind: 'accepted' });
      expect(await client.acquire(names, 'b', LARGEST - 1)).toMatchObject({
        kind: 'stale',
        floor: LARGEST,
      });
      expect(await client.inspect(names)).toMatchObject({ holder: 'b', floor: LARGEST });
      await harness.deleteLock(lock);
      expect(await client.extend(names, 'a', LARGEST - 1)).toEqual({ kind: 'lost' });
      expect(await client.extend(names, 'b', LARGEST)).toEqual({ kind: 'extended', recreated: 1 });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: LARGEST, previous: LARGEST });
      await client.release(names, 'b');
      expect(await client.acquire(names, 'c', LARGEST)).toMatchObject({
        kind: 'stale',
        floor: LARGEST,
        byClock: false,
      });
    },
  },
  {
    name: 'floor: once it has expired the clock refuses what it refused',
    async run(harness) {
      const names = harness.names('a');
      const retentionMs = 1_000;
      const client = await ContractClient.connect(harness);
      expect((await client.join(0, retentionMs)).kind).toBe('joined');
      // Ahead, so that a pause of this machine can't make it too old.
      const ballot = (await harness.nowMicros()) + 1_000_000;
      expect(await client.acquire(names, 'holder', ballot, 50)).toEqual({ kind: 'accepted' });
      await eventually(
        'expiry of the floor',
        async () => (await harness.readFloor(names.pairs[1]!)) === null,
      );
      expect((await harness.nowMicros()) - ballot).toBeGreaterThanOrEqual(retentionMs * 1000);
      expect(await client.acquire(names, 'late', ballot)).toMatchObject({
        kind: 'stale',
        byClock: true,
      });
      expect(await client.acquire(names, 'late', ballot + 1)).toMatchObject({
        kind: 'stale',
        byClock: true,
      });
      expect(await client.acquire(names, 'next', (await harness.nowMicros()) + 30_000_000)).toEqual(
        {
          kind: 'accepted',
        },
      );
    },
  },
  {
    name: 'lock: expires by itself, and its floor still refuses the old ballot',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 50);
      await eventually(
        'expiry of the lock',
        async () => (await harness.readLock(names.locks[0]!)) === null,
      );
      expect(await client.acquire(names, 'holder', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
        byClock: false,
      });
      expect(await client.extend(names, 'holder', ballot)).toEqual({
        kind: 'extended',
        recreated: 1,
      });
    },
  },
  {
    name: 'clock: ten minutes and a ttl later the floor is gone, and the old ballot is refused all the same',
    needs: ['clock'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 10_000);
      await harness.advance(RETENTION_MS);
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      await harness.advance(20_000);
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      expect(await client.acquire(names, 'late', ballot)).toMatchObject({
        kind: 'stale',
        byClock: true,
      });
    },
  },
  {
    name: 'clock: a step back of up to R/2 after the expiry of a floor still refuses its ballot',
    needs: ['clock'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 10_000);
      await harness.advance(RETENTION_MS + 20_000);
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      await harness.advance(-RETENTION_MS / 2);
      expect(await client.acquire(names, 'late', ballot)).toMatchObject({
        kind: 'stale',
        byClock: true,
      });
    },
  },
];
