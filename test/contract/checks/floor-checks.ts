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
      const { names, lock, floor, client } = await oneKey(harness);
      const acquire = (holder: string, below: number) =>
        client.acquire(names, holder, LARGEST - below);
      const [accepted, stale] = [{ kind: 'accepted' }, { kind: 'stale', byClock: false }];
      await harness.writeFloor(floor, { floor: LARGEST - 2, previous: LARGEST - 3 }, RETENTION_MS);
      expect(await acquire('a', 2)).toMatchObject({ ...stale, floor: LARGEST - 2 });
      expect(await acquire('a', 1)).toEqual(accepted);
      expect(await acquire('a', 1)).toEqual(accepted);
      const raised = { floor: LARGEST - 1, previous: LARGEST - 2 };
      expect(await harness.readFloor(floor)).toMatchObject(raised);
      expect(await acquire('b', 0)).toMatchObject({ kind: 'held', floor: LARGEST - 1 });
      await client.abandon(names, 'a');
      expect(await harness.readFloor(floor)).toMatchObject({ floor: LARGEST - 2 });
      expect(await acquire('b', 1)).toEqual(accepted);
      expect(await acquire('b', 0)).toEqual(accepted);
      expect(await acquire('b', 1)).toMatchObject({ ...stale, floor: LARGEST });
      expect(await client.inspect(names)).toMatchObject({ holder: 'b', floor: LARGEST });
      await harness.deleteLock(lock);
      expect(await client.extend(names, 'a', LARGEST - 1)).toEqual({ kind: 'lost' });
      expect(await client.extend(names, 'b', LARGEST)).toEqual({ kind: 'extended', recreated: 1 });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: LARGEST, previous: LARGEST });
      await client.release(names, 'b');
      expect(await acquire('c', 0)).toMatchObject({ ...stale, floor: LARGEST });
    },
  },
  {
    name: 'floor: once it has expired the clock refuses what it refused',
    needs: ['forgets'],
    async run(harness) {
      const names = harness.names('a');
      const retentionMs = 1_000;
      const client = await ContractClient.connect(harness);
      expect((await client.join(0, { floorRetentionMs: retentionMs })).kind).toBe('joined');
      // Far ahead, so that no pause of this machine makes it too old before it arrives.
      const ballot = (await harness.nowMicros()) + 6_000_000;
      expect(await client.acquire(names, 'holder', ballot, 50)).toEqual({ kind: 'accepted' });
      await eventually(
        'expiry of the floor',
        async () => (await harness.readFloor(names.pairs[1]!)) === null,
      );
      expect((await harness.nowMicros()) - ballot).toBeGreaterThanOrEqual(retentionMs * 1000);
      for (const late of [ballot, ballot + 1])
        expect(await client.acquire(names, 'late', late)).toMatchObject({
          kind: 'stale',
          byClock: true,
        });
      const next = (await harness.nowMicros()) + 30_000_000;
      expect(await client.acquire(names, 'next', next)).toEqual({ kind: 'accepted' });
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
    name: 'clock: a step back of up to R/2 after the expiry of a floor still refuses its ballot',
    needs: ['clock'],
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 10_000);
      await harness.advance(RETENTION_MS);
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot });
      expect(await harness.readLock(lock)).toBeNull();
      await harness.advance(20_000);
      expect(await harness.readFloor(floor)).toBeNull();
      const late = { kind: 'stale', byClock: true };
      expect(await client.acquire(names, 'late', ballot)).toMatchObject(late);
      await harness.advance(-RETENTION_MS / 2);
      expect(await client.acquire(names, 'late', ballot)).toMatchObject(late);
    },
  },
];
