import { expect } from '@jest/globals';
import { ContractClient, RETENTION_MS, TTL_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

const GUARD_MS = 60_000;

/** EXTEND on one key. */
export const extendChecks: readonly ContractCheck[] = [
  {
    name: 'extend: renews the lock and its floor, as often as it is asked',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 20_000);
      await harness.writeFloor(names.pairs[1]!, { floor: ballot, previous: ballot - 3 }, 10_000);
      for (let message = 0; message < 2; message += 1) {
        expect(await client.extend(names, 'holder', ballot, 90_000)).toEqual({
          kind: 'extended',
          recreated: 0,
        });
      }
      expect((await harness.readLock(names.locks[0]!))!.remainingMs).toBeGreaterThan(60_000);
      const floor = await harness.readFloor(names.pairs[1]!);
      expect(floor).toMatchObject({ floor: ballot, previous: ballot - 3 });
      expect(floor!.remainingMs).toBeGreaterThan(RETENTION_MS + 60_000);
    },
  },
  {
    name: 'extend: never shortens a lock or a floor',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, TTL_MS);
      await harness.writeFloor(names.pairs[1]!, { floor: ballot, previous: 0 }, 9 * RETENTION_MS);
      expect(await client.extend(names, 'holder', ballot, 1_000)).toEqual({
        kind: 'extended',
        recreated: 0,
      });
      expect((await harness.readLock(names.locks[0]!))!.remainingMs).toBeGreaterThan(TTL_MS / 2);
      expect((await harness.readFloor(names.pairs[1]!))!.remainingMs).toBeGreaterThan(
        8 * RETENTION_MS,
      );
      await harness.writeLock(names.locks[0]!, 'holder', null);
      expect(await client.extend(names, 'holder', ballot, 1_000)).toEqual({
        kind: 'extended',
        recreated: 0,
      });
      expect(await harness.readLock(names.locks[0]!)).toEqual({
        holder: 'holder',
        remainingMs: -1,
      });
    },
  },
  {
    name: 'extend: LOST where another holder owns the lock, and nothing changes',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(names.locks[0]!);
      await client.acquire(names, 'newer', ballot + 1);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'newer' });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot + 1,
        previous: ballot,
      });
    },
  },
  {
    name: 'extend: a missing lock is not set again once a newer ballot was accepted there',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(names.locks[0]!);
      await client.acquire(names, 'newer', ballot + 1);
      await harness.deleteLock(names.locks[0]!);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot + 1 });
      expect(await client.extend(names, 'newer', ballot + 1)).toEqual({
        kind: 'extended',
        recreated: 1,
      });
    },
  },
  {
    name: 'extend: sets a missing lock again; an abandoned holder can not lower its floor then',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      const before = [
        null,
        { floor: ballot, previous: 0 },
        { floor: ballot - 8, previous: ballot - 9 },
      ];
      for (const floor of before) {
        if (floor === null) await harness.deleteFloor(names.pairs[1]!);
        else await harness.writeFloor(names.pairs[1]!, floor, RETENTION_MS);
        expect(await client.extend(names, 'holder', ballot)).toEqual({
          kind: 'extended',
          recreated: 1,
        });
        expect((await harness.readLock(names.locks[0]!))!.remainingMs).toBeGreaterThan(TTL_MS / 2);
        expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
          floor: ballot,
          previous: ballot,
        });
        expect((await harness.readFloor(names.pairs[1]!))!.remainingMs).toBeGreaterThan(
          RETENTION_MS,
        );
        await client.abandon(names, 'holder');
        expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      }
    },
  },
  {
    name: 'extend: attempts that gave up never stand in the way of the holder',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      for (let waiter = 1; waiter <= 4; waiter += 1) {
        await harness.deleteLock(names.locks[0]!);
        expect(await client.acquire(names, `waiter-${waiter}`, ballot + waiter)).toEqual({
          kind: 'accepted',
        });
        await client.acquire(names, `waiter-${waiter}`, ballot + 100 + waiter);
        await client.abandon(names, `waiter-${waiter}`);
        expect(await client.extend(names, 'holder', ballot)).toEqual({
          kind: 'extended',
          recreated: 1,
        });
      }
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'holder' });
    },
  },
  {
    name: 'extend: setting again is a vote: UNJOINED and QUARANTINED where the node may not vote',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteMarker();
      expect(await client.extend(names, 'holder', ballot)).toEqual({
        kind: 'extended',
        recreated: 0,
      });
      await harness.deleteLock(names.locks[0]!);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'unjoined' });
      await client.join(GUARD_MS);
      const reply = await client.extend(names, 'holder', ballot);
      expect(reply.kind).toBe('quarantined');
      expect(reply.kind === 'quarantined' && reply.remainingMs).toBeGreaterThan(GUARD_MS / 2);
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      await harness.writeLock(names.locks[0]!, 'holder', TTL_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual({
        kind: 'extended',
        recreated: 0,
      });
    },
  },
  {
    name: 'extend: LOST comes before UNJOINED and QUARANTINED',
    async run(harness) {
      const names = harness.names('mine', 'taken');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await harness.writeLock(names.locks[1]!, 'newer', TTL_MS);
      await harness.deleteMarker();
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      await client.join(GUARD_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      await harness.deleteLock(names.locks[1]!);
      await harness.writeFloor(names.pairs[3]!, { floor: ballot + 1, previous: 0 }, RETENTION_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
    },
  },
  {
    name: 'extend: a floor that was lost or rolled back under a held lock is raised again',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteFloor(names.pairs[1]!);
      await client.extend(names, 'holder', ballot);
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
      await harness.writeFloor(names.pairs[1]!, { floor: ballot - 50, previous: 0 }, RETENTION_MS);
      await client.extend(names, 'holder', ballot);
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
    },
  },
];
