import { expect } from '@jest/globals';
import { TTL_MS } from '../../support/node-driver.ts';
import { ContractClient, RETENTION_MS } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** Several keys in one command: all or nothing. */
export const multiKeyChecks: readonly ContractCheck[] = [
  {
    name: 'several keys: one ballot is accepted on all of them',
    async run(harness) {
      const names = harness.names('a', 'b', 'c');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await harness.writeFloor(names.pairs[3]!, { floor: ballot - 4, previous: 0 }, RETENTION_MS);
      expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
      expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
      for (const [index, previous] of [0, ballot - 4, 0].entries()) {
        expect(await harness.readLock(names.locks[index]!)).toMatchObject({ holder: 'holder' });
        expect(await harness.readFloor(names.pairs[2 * index + 1]!)).toMatchObject({
          floor: ballot,
          previous,
        });
      }
    },
  },
  {
    name: 'several keys: one that is held refuses all, and HELD names the first',
    async run(harness) {
      const names = harness.names('a', 'b', 'c', 'd');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await harness.writeLock(names.locks[1]!, 'first', 30_000);
      await harness.writeLock(names.locks[2]!, 'longer', 900_000);
      await harness.writeFloor(names.pairs[7]!, { floor: ballot + 3, previous: 0 }, RETENTION_MS);
      const reply = await client.acquire(names, 'waiter', ballot);
      expect(reply).toMatchObject({ kind: 'held', index: 1, holder: 'first', floor: ballot + 3 });
      expect(reply.kind === 'held' && reply.remainingMs).toBeLessThanOrEqual(30_000);
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      await harness.writeLock(names.locks[0]!, 'for-ever', null);
      expect(await client.acquire(names, 'waiter', ballot)).toMatchObject({
        kind: 'held',
        index: 0,
        holder: 'for-ever',
        remainingMs: -1,
      });
      await client.acquire(harness.names('d'), 'waiter', ballot + 4);
      expect(await client.acquire(harness.names('d', 'c'), 'waiter', ballot)).toMatchObject({
        kind: 'held',
        index: 1,
        holder: 'longer',
      });
    },
  },
  {
    name: 'several keys: one floor that is not below the ballot refuses all, with the highest floor',
    async run(harness) {
      const names = harness.names('a', 'b', 'c');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await harness.writeFloor(names.pairs[3]!, { floor: ballot + 7, previous: 0 }, RETENTION_MS);
      await harness.writeFloor(names.pairs[5]!, { floor: ballot, previous: 0 }, RETENTION_MS);
      expect(await client.acquire(names, 'holder', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot + 7,
        byClock: false,
      });
      for (const lock of names.locks) expect(await harness.readLock(lock)).toBeNull();
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
      expect(await client.acquire(names, 'holder', ballot + 8)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'several keys: a duplicate is refused where the holder lost one of the keys',
    async run(harness) {
      const names = harness.names('a', 'b');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await client.acquire(names, 'holder', ballot);
      await harness.deleteLock(names.locks[1]!);
      expect(await client.acquire(names, 'holder', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
        byClock: false,
      });
      expect(await client.acquire(names, 'holder', ballot + 1)).toEqual({ kind: 'accepted' });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot + 1,
        previous: 0,
      });
      expect(await harness.readFloor(names.pairs[3]!)).toMatchObject({
        floor: ballot + 1,
        previous: ballot,
      });
    },
  },
  {
    name: 'several keys: a grant of the set orders each key on its own',
    async run(harness) {
      const [set, single] = [harness.names('a', 'b'), harness.names('b')];
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await client.acquire(set, 'holder', ballot);
      await client.release(set, 'holder');
      expect(await client.acquire(single, 'next', ballot)).toMatchObject({
        kind: 'stale',
        floor: ballot,
      });
      expect(await client.acquire(single, 'next', ballot + 1)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'several keys: extend renews and sets again all of them or none',
    async run(harness) {
      const names = harness.names('a', 'b', 'c');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await client.acquire(names, 'holder', ballot, 20_000);
      await harness.deleteLock(names.locks[0]!);
      await harness.deleteLock(names.locks[1]!);
      await harness.writeLock(names.locks[1]!, 'newer', TTL_MS);
      expect(await client.extend(names, 'holder', ballot, 90_000)).toEqual({ kind: 'lost' });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      expect((await harness.readLock(names.locks[2]!))!.remainingMs).toBeLessThanOrEqual(20_000);
      await harness.deleteLock(names.locks[1]!);
      expect(await client.extend(names, 'holder', ballot, 90_000)).toEqual({
        kind: 'extended',
        recreated: 2,
      });
      for (const lock of names.locks) {
        const held = await harness.readLock(lock);
        expect(held).toMatchObject({ holder: 'holder' });
        expect(held!.remainingMs).toBeGreaterThan(60_000);
      }
    },
  },
  {
    name: 'several keys: release deletes only the own ones and restores each floor on its own',
    async run(harness) {
      const names = harness.names('a', 'b', 'c');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await harness.writeFloor(names.pairs[1]!, { floor: ballot - 4, previous: 0 }, RETENTION_MS);
      await client.acquire(names, 'attempt', ballot);
      await harness.deleteLock(names.locks[2]!);
      await client.acquire(harness.names('c'), 'newer', ballot + 2);
      expect(await client.abandon(names, 'attempt')).toEqual({ kind: 'released', deleted: 2 });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot - 4 });
      expect(await harness.readFloor(names.pairs[3]!)).toBeNull();
      expect(await harness.readFloor(names.pairs[5]!)).toMatchObject({
        floor: ballot + 2,
        previous: ballot,
      });
      expect(await harness.readLock(names.locks[2]!)).toMatchObject({ holder: 'newer' });
    },
  },
  {
    name: 'inspect: holder, life and floor of the longest; nothing is written',
    async run(harness) {
      const names = harness.names('a', 'b');
      const client = await ContractClient.joined(harness);
      const free = { kind: 'inspected', holder: null, remainingMs: 0, floor: 0 };
      expect(await client.inspect(names)).toEqual(free);
      const ballot = await harness.nowMicros();
      await client.acquire(harness.names('a'), 'holder', ballot, 50_000);
      const held = await client.inspect(names);
      expect(held).toMatchObject({ kind: 'inspected', holder: 'holder', floor: ballot });
      expect(held.kind === 'inspected' && held.remainingMs).toBeGreaterThan(20_000);
      await harness.writeLock(names.locks[1]!, 'for-ever', null);
      expect(await client.inspect(names)).toMatchObject({
        holder: 'for-ever',
        remainingMs: -1,
        floor: ballot,
      });
      await harness.deleteLock(names.locks[1]!);
      await client.release(harness.names('a'), 'holder');
      expect(await client.inspect(names)).toEqual({ ...free, floor: ballot });
    },
  },
];
