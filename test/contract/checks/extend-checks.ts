import { expect } from '@jest/globals';
import { TTL_MS } from '../../support/node-driver.ts';
import { RETENTION_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

const GUARD_MS = 60_000;
const EXTENDED = { kind: 'extended', recreated: 0 };
const RECREATED = { kind: 'extended', recreated: 1 };

/** EXTEND on one key. */
export const extendChecks: readonly ContractCheck[] = [
  {
    name: 'extend: renews the lock and its floor, as often as it is asked',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.writeFloor(floor, { floor: ballot, previous: ballot - 3 }, TTL_MS);
      for (let message = 0; message < 2; message += 1)
        expect(await client.extend(names, 'holder', ballot, 3 * TTL_MS)).toEqual(EXTENDED);
      expect((await harness.readLock(lock))!.remainingMs).toBeGreaterThan(2 * TTL_MS);
      const renewed = await harness.readFloor(floor);
      expect(renewed).toMatchObject({ floor: ballot, previous: ballot - 3 });
      expect(renewed!.remainingMs).toBeGreaterThan(RETENTION_MS + 2 * TTL_MS);
    },
  },
  {
    name: 'extend: never shortens a floor',
    needs: ['forgets'],
    async run(harness) {
      const { names, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, TTL_MS);
      await harness.writeFloor(floor, { floor: ballot, previous: 0 }, 9 * RETENTION_MS);
      expect(await client.extend(names, 'holder', ballot, 1_000)).toEqual(EXTENDED);
      expect((await harness.readFloor(floor))!.remainingMs).toBeGreaterThan(8 * RETENTION_MS);
    },
  },
  {
    name: 'extend: never shortens a lock',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, TTL_MS);
      expect(await client.extend(names, 'holder', ballot, 1_000)).toEqual(EXTENDED);
      expect((await harness.readLock(lock))!.remainingMs).toBeGreaterThan(TTL_MS / 2);
      await harness.writeLock(lock, 'holder', null);
      expect(await client.extend(names, 'holder', ballot, 1_000)).toEqual(EXTENDED);
      expect(await harness.readLock(lock)).toEqual({ holder: 'holder', remainingMs: -1 });
    },
  },
  {
    name: 'extend: a missing lock is not set again once a newer ballot was accepted there',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(lock);
      await client.acquire(names, 'newer', ballot + 1);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      expect(await harness.readLock(lock)).toMatchObject({ holder: 'newer' });
      await harness.deleteLock(lock);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      expect(await harness.readLock(lock)).toBeNull();
      const kept = { floor: ballot + 1, previous: ballot };
      expect(await harness.readFloor(floor)).toMatchObject(kept);
      expect(await client.extend(names, 'newer', ballot + 1)).toEqual(RECREATED);
    },
  },
  {
    name: 'extend: sets a missing lock again; an abandoned holder can not lower its floor then',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      for (const before of [0, ballot, ballot - 8]) {
        if (before === 0) await harness.deleteFloor(floor);
        else await harness.writeFloor(floor, { floor: before, previous: 0 }, RETENTION_MS);
        expect(await client.extend(names, 'holder', ballot)).toEqual(RECREATED);
        expect((await harness.readLock(lock))!.remainingMs).toBeGreaterThan(TTL_MS / 2);
        const raised = (await harness.readFloor(floor))!;
        expect(raised).toMatchObject({ floor: ballot, previous: ballot });
        expect(raised.remainingMs).toBeGreaterThan(RETENTION_MS);
        await client.abandon(names, 'holder');
        expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot });
      }
    },
  },
  {
    name: 'extend: a floor that is set again is remembered for R past its ballot, also where that is ahead of the clock',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      const aheadMs = 10 * RETENTION_MS;
      const ahead = ballot + aheadMs * 1_000;
      await client.acquire(names, 'holder', ahead);
      await harness.deleteLock(lock);
      await harness.deleteFloor(floor);
      expect(await client.extend(names, 'holder', ahead)).toEqual(RECREATED);
      const { remainingMs } = (await harness.readFloor(floor))!;
      const goneAtMicros = (await harness.nowMicros()) + remainingMs * 1_000;
      expect(goneAtMicros).toBeGreaterThan(ahead + RETENTION_MS * 1_000);
    },
  },
  {
    name: 'extend: without the marker, too, a floor outlives its lock by as much as the vote said',
    needs: ['forgets'],
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteMarker();
      expect(await client.extend(names, 'holder', ballot, 3 * TTL_MS)).toEqual(EXTENDED);
      const ofFloor = (await harness.readFloor(floor))!.remainingMs;
      const ofLock = (await harness.readLock(lock))!.remainingMs;
      expect(ofLock).toBeGreaterThan(2 * TTL_MS);
      // The two lives are read one after the other.
      expect(ofFloor - ofLock).toBeGreaterThan(RETENTION_MS - TTL_MS / 2);
    },
  },
  {
    name: 'extend: attempts that gave up never stand in the way of the holder',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      for (let waiter = 1; waiter <= 4; waiter += 1) {
        const name = `waiter-${waiter}`;
        await harness.deleteLock(lock);
        expect(await client.acquire(names, name, ballot + waiter)).toEqual({ kind: 'accepted' });
        await client.acquire(names, name, ballot + 100 + waiter);
        await client.abandon(names, name);
        expect(await client.extend(names, 'holder', ballot)).toEqual(RECREATED);
      }
      expect(await harness.readLock(lock)).toMatchObject({ holder: 'holder' });
    },
  },
  {
    name: 'extend: setting again is a vote: UNJOINED and QUARANTINED where the node may not vote',
    needs: ['forgets'],
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteMarker();
      expect(await client.extend(names, 'holder', ballot)).toEqual(EXTENDED);
      await harness.deleteLock(lock);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'unjoined' });
      await client.join(GUARD_MS);
      const reply = await client.extend(names, 'holder', ballot);
      expect(reply.kind).toBe('quarantined');
      expect(reply.kind === 'quarantined' && reply.remainingMs).toBeGreaterThan(GUARD_MS / 2);
      expect(await harness.readLock(lock)).toBeNull();
      await harness.writeLock(lock, 'holder', TTL_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual(EXTENDED);
      // LOST comes before both.
      await harness.writeLock(lock, 'newer', TTL_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      await harness.deleteLock(lock);
      await harness.writeFloor(floor, { floor: ballot + 1, previous: 0 }, RETENTION_MS);
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
      await harness.deleteMarker();
      expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'lost' });
    },
  },
];
