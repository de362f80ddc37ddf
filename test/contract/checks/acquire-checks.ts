import { expect } from '@jest/globals';
import { ContractClient, RETENTION_MS, TTL_MS, oneKey } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

const HOUR_MICROS = 3_600_000_000;

/** The replies of ACQUIRE on one key. */
export const acquireChecks: readonly ContractCheck[] = [
  {
    name: 'acquire: a free lock is accepted; holder, floor and their lives are written',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
      const lock = await harness.readLock(names.locks[0]!);
      expect(lock).toMatchObject({ holder: 'holder' });
      expect(lock!.remainingMs).toBeLessThanOrEqual(TTL_MS);
      expect(lock!.remainingMs).toBeGreaterThan(TTL_MS / 2);
      const floor = await harness.readFloor(names.pairs[1]!);
      expect(floor).toMatchObject({ floor: ballot, previous: 0 });
      expect(floor!.remainingMs).toBeGreaterThan(RETENTION_MS + TTL_MS / 2);
    },
  },
  {
    name: 'acquire: a duplicate is accepted again and changes nothing',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await harness.writeFloor(names.pairs[1]!, { floor: ballot - 9, previous: 0 }, RETENTION_MS);
      for (let message = 0; message < 3; message += 1) {
        expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
        expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
          floor: ballot,
          previous: ballot - 9,
        });
      }
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'holder' });
    },
  },
  {
    name: 'acquire: HELD names the holder, its remaining life and the floor, and writes nothing',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot, 50_000);
      const reply = await client.acquire(names, 'waiter', ballot + 10);
      expect(reply).toMatchObject({ kind: 'held', index: 0, holder: 'holder', floor: ballot });
      const remainingMs = reply.kind === 'held' ? reply.remainingMs : 0;
      expect(remainingMs).toBeGreaterThan(20_000);
      expect(remainingMs).toBeLessThanOrEqual(50_000);
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'holder' });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot,
        previous: 0,
      });
    },
  },
  {
    name: 'acquire: HELD with -1 where another program holds the lock without expiry',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      await harness.writeLock(names.locks[0]!, 'other-program', null);
      expect(await client.acquire(names, 'waiter', await harness.nowMicros())).toEqual({
        kind: 'held',
        index: 0,
        holder: 'other-program',
        remainingMs: -1,
        floor: 0,
      });
    },
  },
  {
    name: 'acquire: HELD comes before STALE and AHEAD',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      expect((await client.acquire(names, 'waiter', ballot - 1)).kind).toBe('held');
      expect((await client.acquire(names, 'waiter', ballot + 30 * HOUR_MICROS)).kind).toBe('held');
    },
  },
  {
    name: 'acquire: STALE at and below the floor, with floor and clock, and writes nothing',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await client.release(names, 'holder');
      for (const refused of [ballot, ballot - 1]) {
        const reply = await client.acquire(names, 'next', refused);
        expect(reply).toMatchObject({ kind: 'stale', floor: ballot, byClock: false });
        expect(reply.kind === 'stale' && reply.nowMicros).toBeGreaterThan(ballot - HOUR_MICROS);
      }
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot,
        previous: 0,
      });
      expect(await client.acquire(names, 'next', ballot + 1)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'acquire: without a floor the clock refuses what is older than R/2',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const oldest = (await harness.nowMicros()) - RETENTION_MS * 500;
      const reply = await client.acquire(names, 'late', oldest - 1);
      expect(reply).toMatchObject({ kind: 'stale', byClock: true });
      const { floor, nowMicros } = reply as { floor: number; nowMicros: number };
      expect(floor).toBe(nowMicros - RETENTION_MS * 500);
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      expect(await client.acquire(names, 'late', oldest + 120_000_000)).toEqual({
        kind: 'accepted',
      });
    },
  },
  {
    name: 'acquire: AHEAD beyond a day past the clock, also above a floor within that day, and writes nothing',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const nowMicros = await harness.nowMicros();
      const reply = await client.acquire(names, 'fast', nowMicros + 25 * HOUR_MICROS);
      expect(reply).toMatchObject({ kind: 'ahead', floor: 0 });
      expect(reply.kind === 'ahead' && Math.abs(reply.nowMicros - nowMicros)).toBeLessThan(
        HOUR_MICROS,
      );
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      const floor = nowMicros + 2 * HOUR_MICROS;
      await harness.writeFloor(names.pairs[1]!, { floor, previous: 0 }, RETENTION_MS);
      const far = await client.acquire(names, 'fast', nowMicros + 25 * HOUR_MICROS);
      expect(far).toMatchObject({ kind: 'ahead', floor });
      expect(await client.acquire(names, 'fast', floor + 1)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'acquire: a floor more than a day ahead, of a clock that was set back, is passed by a second at most',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const floor = (await harness.nowMicros()) + 30 * HOUR_MICROS;
      await harness.writeFloor(names.pairs[1]!, { floor, previous: 0 }, RETENTION_MS);
      const far = await client.acquire(names, 'fast', floor + 1_000_001);
      expect(far).toMatchObject({ kind: 'ahead', floor });
      expect(await client.acquire(names, 'fast', floor + 1_000_000)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'acquire: a ballot far ahead is remembered for R past it',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const ballot = (await harness.nowMicros()) + 23 * HOUR_MICROS;
      expect(await client.acquire(names, 'fast', ballot)).toEqual({ kind: 'accepted' });
      const floor = await harness.readFloor(names.pairs[1]!);
      expect(floor!.remainingMs).toBeGreaterThan((23 * HOUR_MICROS) / 1000 + RETENTION_MS);
    },
  },
  {
    name: 'acquire: a higher ballot of the same attempt raises the floor and keeps what was before',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await harness.writeFloor(
        names.pairs[1]!,
        { floor: ballot - 5, previous: ballot - 7 },
        RETENTION_MS,
      );
      for (const higher of [ballot, ballot + 1, ballot + 9]) {
        expect(await client.acquire(names, 'holder', higher)).toEqual({ kind: 'accepted' });
        expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
          floor: higher,
          previous: ballot - 5,
        });
      }
      const late = await client.acquire(names, 'holder', ballot);
      expect(late).toMatchObject({ kind: 'stale', floor: ballot + 9, byClock: false });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot + 9,
        previous: ballot - 5,
      });
    },
  },
  {
    name: 'acquire: after release the same message is refused, on this and on another connection',
    async run(harness) {
      const names = harness.names('a');
      const [client, other] = [
        await ContractClient.joined(harness),
        await ContractClient.joined(harness),
      ];
      const ballot = await harness.nowMicros();
      await client.acquire(names, 'holder', ballot);
      await client.release(names, 'holder');
      for (const late of [client, other]) {
        expect(await late.acquire(names, 'holder', ballot)).toMatchObject({
          kind: 'stale',
          floor: ballot,
        });
      }
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
    },
  },
  {
    name: 'acquire and extend: a ttl that is no whole number of milliseconds fails and writes nothing',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      const refused = { kind: 'failed', reason: 'error', nothingWritten: false };
      expect(await client.acquire(names, 'holder', ballot, TTL_MS + 0.5)).toMatchObject(refused);
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      await client.acquire(names, 'holder', ballot, 1_000);
      expect(await client.extend(names, 'holder', ballot, TTL_MS + 0.5)).toMatchObject(refused);
      expect((await harness.readLock(names.locks[0]!))!.remainingMs).toBeLessThanOrEqual(1_000);
    },
  },
  {
    name: 'acquire: a ballot is accepted for one holder only, also when the lock key vanished',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(names.locks[0]!);
      expect(await client.acquire(names, 'thief', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
      });
      expect(await client.acquire(names, 'holder', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
      });
      expect(await client.acquire(names, 'thief', ballot + 1)).toEqual({ kind: 'accepted' });
    },
  },
];
