import { expect } from '@jest/globals';
import { TTL_MS } from '../../support/node-driver.ts';
import { RETENTION_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

const HOUR_MICROS = 3_600_000_000;

/** The replies of ACQUIRE on one key. */
export const acquireChecks: readonly ContractCheck[] = [
  {
    name: 'acquire: a free lock is accepted; holder, floor and their lives are written',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
      const { holder, remainingMs } = (await harness.readLock(lock))!;
      expect(holder).toBe('holder');
      expect(remainingMs).toBeLessThanOrEqual(TTL_MS);
      expect(remainingMs).toBeGreaterThan(TTL_MS / 2);
      const written = await harness.readFloor(floor);
      expect(written).toMatchObject({ floor: ballot, previous: 0 });
      expect(written!.remainingMs).toBeGreaterThan(RETENTION_MS + TTL_MS / 2);
    },
  },
  {
    name: 'acquire: HELD names the holder, its remaining life and the floor, and writes nothing',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 50_000);
      // HELD comes before STALE and AHEAD.
      for (const other of [ballot + 10, ballot - 1, ballot + 30 * HOUR_MICROS]) {
        const reply = await client.acquire(names, 'waiter', other);
        expect(reply).toMatchObject({ kind: 'held', index: 0, holder: 'holder', floor: ballot });
        const remainingMs = reply.kind === 'held' ? reply.remainingMs : 0;
        expect(remainingMs).toBeGreaterThan(20_000);
        expect(remainingMs).toBeLessThanOrEqual(50_000);
      }
      expect(await harness.readLock(lock)).toMatchObject({ holder: 'holder' });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot, previous: 0 });
      // Locks of other programs may have no expiry.
      await harness.writeLock(lock, 'other-program', null);
      const held = { kind: 'held', holder: 'other-program', remainingMs: -1 };
      expect(await client.acquire(names, 'waiter', ballot + 10)).toMatchObject(held);
    },
  },
  {
    name: 'revoke: puts its value in place of a holder, and never in place of what no vote wrote',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      const noLock = {
        kind: 'failed',
        nothingWritten: true,
        reason: 'error',
        message: `WRONGTYPE ${lock} holds data that is no lock`,
      };
      for (const ttlMs of [null, 50_000]) {
        await harness.writeLock(lock, 'other-program', ttlMs);
        expect(await client.revoke(names, 'other-program')).toEqual(noLock);
        expect(await harness.readLock(lock)).toMatchObject({ holder: 'other-program' });
      }
      await harness.deleteLock(lock);
      await client.acquire(names, 'holder', ballot, 50_000);
      expect(await client.revoke(names, 'another')).toEqual({ kind: 'revoked', remainingMs: null });
      expect(await client.revoke(names, 'holder')).toMatchObject({ kind: 'revoked' });
      expect(await harness.readLock(lock)).not.toMatchObject({ holder: 'holder' });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot });
      await harness.writeLock(lock, 'other-program', null);
      expect(await client.revoke(names, 'other-program')).toEqual(noLock);
    },
  },
  {
    name: 'acquire: AHEAD beyond a day past the clock, also above a floor within that day, and writes nothing',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      const reply = await client.acquire(names, 'fast', ballot + 25 * HOUR_MICROS);
      expect(reply).toMatchObject({ kind: 'ahead', floor: 0 });
      expect(reply.kind === 'ahead' && Math.abs(reply.nowMicros - ballot)).toBeLessThan(
        HOUR_MICROS,
      );
      expect(await harness.readLock(lock)).toBeNull();
      expect(await harness.readFloor(floor)).toBeNull();
      const value = { floor: ballot + 2 * HOUR_MICROS, previous: 0 };
      await harness.writeFloor(floor, value, RETENTION_MS);
      const far = await client.acquire(names, 'fast', ballot + 25 * HOUR_MICROS);
      expect(far).toMatchObject({ kind: 'ahead', floor: value.floor });
      expect(await client.acquire(names, 'fast', value.floor + 1)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'acquire: a floor more than a day ahead, of a clock that was set back, is passed by a second at most',
    async run(harness) {
      const { names, floor, client, ballot } = await oneKey(harness);
      const far = ballot + 30 * HOUR_MICROS;
      await harness.writeFloor(floor, { floor: far, previous: 0 }, RETENTION_MS);
      const reply = await client.acquire(names, 'fast', far + 1_000_001);
      expect(reply).toMatchObject({ kind: 'ahead', floor: far });
      expect(await client.acquire(names, 'fast', far + 1_000_000)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'acquire and extend: a ttl that is no whole number of milliseconds fails and writes nothing',
    async run(harness) {
      const { names, lock, floor, client, ballot } = await oneKey(harness);
      const refused = { kind: 'failed', reason: 'error', nothingWritten: false };
      expect(await client.acquire(names, 'holder', ballot, TTL_MS + 0.5)).toMatchObject(refused);
      expect(await harness.readLock(lock)).toBeNull();
      expect(await harness.readFloor(floor)).toBeNull();
      await client.acquire(names, 'holder', ballot);
      expect(await client.extend(names, 'holder', ballot, 2 * TTL_MS + 0.5)).toMatchObject(refused);
      expect((await harness.readLock(lock))!.remainingMs).toBeLessThanOrEqual(TTL_MS);
    },
  },
  {
    name: 'acquire: a ballot is accepted for one holder only, also when the lock key vanished',
    async run(harness) {
      const { names, lock, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(lock);
      for (const holder of ['thief', 'holder']) {
        const reply = await client.acquire(names, holder, ballot);
        expect(reply).toMatchObject({ kind: 'stale', floor: ballot });
      }
      expect(await client.acquire(names, 'thief', ballot + 1)).toEqual({ kind: 'accepted' });
    },
  },
];
