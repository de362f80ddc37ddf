import { expect } from '@jest/globals';
import type { LockNames } from '../../../lib/core/nodes/lock-node.ts';
import { TTL_MS } from '../../support/node-driver.ts';
import { ContractClient, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck, ContractHarness } from '../contract-harness.ts';

/** Prefixes of the holders of three services. */
const [ANA, BOB, EVE] = ['ana.....', 'bob.....', 'eve.....'] as const;
const RELEASED = { kind: 'released', deleted: 1 };

/** A client that holds the lock, and two that wait for it and listen: Bob came first, by his ticket. */
async function inLine(harness: ContractHarness) {
  const { names, client, ballot } = await oneKey(harness);
  const bob = await ContractClient.joined(harness);
  const eve = await ContractClient.joined(harness);
  await client.listen(`turns:${ANA}`);
  await bob.listen(`turns:${BOB}`);
  await eve.listen(`turns:${EVE}`);
  await client.acquire(names, `${ANA}-1`, ballot);
  await eve.stand(names, EVE, { ticket: 20 });
  await bob.stand(names, BOB, { ticket: 10 });
  return { names, lock: names.locks[0]!, client, bob, eve, ballot };
}

const isFree = async (harness: ContractHarness, { locks }: LockNames) =>
  (await harness.readLock(locks[0]!)) === null;

/** The line of those that wait for a lock. What a lock is kept for is asked in one go: no time passes within a batch. */
export const waitChecks: readonly ContractCheck[] = [
  {
    name: 'wait: the ticket is the time of the server until another one is asked for, and says how long the lock is held',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, `${ANA}-1`, ballot);
      await client.listen(`turns:${BOB}`);
      const before = await harness.nowMicros();
      const first = await client.stand(names, BOB);
      if (first.kind !== 'waiting') throw new Error(JSON.stringify(first));
      expect(first.ticket).toBeGreaterThanOrEqual(before - 1_000);
      expect(first.ticket).toBeLessThanOrEqual((await harness.nowMicros()) + 1_000);
      expect(first.freeInMs).toBeGreaterThan(TTL_MS / 2);
      expect(first.freeInMs).toBeLessThanOrEqual(TTL_MS);
      expect(await client.stand(names, BOB, { ticket: 7 })).toMatchObject({ ticket: 7 });
      const again = await client.stand(names, BOB);
      expect((again as typeof first).ticket).toBeGreaterThanOrEqual(first.ticket);
    },
  },
  {
    name: 'wait: a free lock is free for one that does not listen, and its own vote for one that gives it back',
    needs: ['reach'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      expect(await client.stand(names, BOB)).toMatchObject({ freeInMs: 0 });
      await client.acquire(names, `${BOB}-1`, ballot);
      expect(await client.stand(names, BOB)).toMatchObject({ freeInMs: 0 });
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: `${BOB}-1` });
    },
  },
  {
    name: 'wait: data without an end under the name of the lock are no reason to ask again soon',
    async run(harness) {
      const { names, client } = await oneKey(harness);
      await client.listen(`turns:${BOB}`);
      await harness.writeLock(names.locks[0]!, 'of somebody else', null);
      expect(await client.stand(names, BOB)).toMatchObject({ freeInMs: 86_400_000 });
    },
  },
  {
    name: 'turn: a release names the first in line and keeps the lock for it alone, and the second hears when that is over',
    async run(harness) {
      const { names, lock, client, bob, eve, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.acquire(names, `${EVE}-1`, ballot + 1),
        client.stand(names, BOB, { ticket: 10 }),
        client.acquire(names, `${BOB}-1`, ballot + 1),
      ]);
      expect(replies).toMatchObject([
        RELEASED,
        { kind: 'held', holder: `#${BOB}` },
        { freeInMs: -1 },
        { kind: 'accepted' },
      ]);
      await bob.untilTurn(lock);
      await eve.untilTurn(lock, 200);
      expect([bob.turns.length, eve.turns.length]).toEqual([1, 1]);
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({
        floor: ballot + 1,
        previous: ballot,
      });
    },
  },
  {
    name: 'inspect: a lock that is kept for somebody is free',
    async run(harness) {
      const { names, client } = await oneKey(harness);
      await harness.writeLock(names.locks[0]!, `#${BOB}`, TTL_MS);
      expect(await client.inspect(names)).toMatchObject({ holder: null, remainingMs: 0 });
    },
  },
  {
    name: 'turn: a lock that nobody takes is free after its grace, at most 200 ms',
    async run(harness) {
      const { names, client, ballot } = await inLine(harness);
      const [released, refused] = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.acquire(names, `${EVE}-1`, ballot + 1),
      ]);
      expect([released, refused]).toMatchObject([RELEASED, { kind: 'held', holder: `#${BOB}` }]);
      expect((refused as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(200);
      await eventually('a free lock', () => isFree(harness, names));
    },
  },
  {
    name: 'turn: of those behind it only the first in line has to ask when it is over',
    async run(harness) {
      const { names, client } = await inLine(harness);
      const [released, first, second] = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.stand(names, EVE, { ticket: 20 }),
        client.stand(names, ANA, { ticket: 30 }),
      ]);
      expect(released).toMatchObject(RELEASED);
      expect((first as { freeInMs: number }).freeInMs).toBeLessThanOrEqual(200);
      expect(second).toMatchObject({ freeInMs: 86_400_000 });
    },
  },
  {
    name: 'turn: one that was first in line has to ask when it is over, though it goes behind another one, who did not hear',
    async run(harness) {
      const { names, client } = await inLine(harness);
      const [, behind, first] = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.stand(names, ANA, { ticket: 30 }),
        client.stand(names, EVE),
      ]);
      expect(behind).toMatchObject({ freeInMs: 86_400_000 });
      expect((first as { freeInMs: number }).freeInMs).toBeLessThanOrEqual(200);
    },
  },
  {
    name: 'turn: a service that releases what other servers granted it has no place in line any more',
    async run(harness) {
      const { names, client, bob, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${BOB}-1`),
        client.release(names, `${ANA}-1`),
        client.acquire(names, `${EVE}-1`, ballot + 1),
      ]);
      expect(replies).toMatchObject([{ deleted: 0 }, RELEASED, { kind: 'accepted' }]);
      expect(bob.turns).toEqual([]);
    },
  },
  {
    name: 'turn: that of a service which releases what other servers granted it goes to the next',
    async run(harness) {
      const { names, lock, client, eve, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.release(names, `${BOB}-1`, { pass: false }),
        client.acquire(names, `${EVE}-1`, ballot + 1),
        client.release(names, `${BOB}-1`),
        client.acquire(names, `${EVE}-2`, ballot + 1),
      ]);
      expect(replies).toMatchObject([
        RELEASED,
        { deleted: 0 },
        { kind: 'held', holder: `#${BOB}` },
        { deleted: 0 },
        { kind: 'accepted' },
      ]);
      await eve.untilTurn(lock);
    },
  },
  {
    name: 'turn: one that does not listen any more costs nothing',
    async run(harness) {
      const { names, lock, client, bob, eve } = await inLine(harness);
      await bob.node.close();
      await eventually('Bob is gone', async () => {
        await client.stand(names, ANA, { ticket: 1 });
        await client.release(names, `${ANA}-1`);
        return eve.turns.some(([, keptMs]) => keptMs === 0);
      });
      expect(eve.turns.at(-1)).toEqual([lock, 0]);
    },
  },
  {
    name: 'turn: one that is given back goes to the next',
    async run(harness) {
      const { names, lock, client, eve, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.release(names, `#${ANA}`),
        client.release(names, `#${BOB}`),
        client.acquire(names, `${EVE}-1`, ballot + 1),
      ]);
      expect(replies).toMatchObject([RELEASED, { deleted: 0 }, RELEASED, { kind: 'accepted' }]);
      await eve.untilTurn(lock);
    },
  },
  {
    name: 'turn: a service has one place in line, though it asks for another grace than before',
    async run(harness) {
      const { names, client, bob } = await inLine(harness);
      await bob.stand(names, BOB, { ticket: 30, graceMs: 200 });
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.release(names, `#${EVE}`),
        client.release(names, `#${BOB}`),
        client.release(names, `#${BOB}`),
      ]);
      expect(replies).toMatchObject([RELEASED, RELEASED, RELEASED, { deleted: 0 }]);
    },
  },
  {
    name: 'turn: without pass the lock stays with its own service for a moment, where others wait',
    async run(harness) {
      const { names, client, bob, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`, { pass: false }),
        client.acquire(names, `${BOB}-1`, ballot + 1),
        client.acquire(names, `${ANA}-2`, ballot + 1),
      ]);
      expect(replies).toMatchObject([RELEASED, { kind: 'held' }, { kind: 'accepted' }]);
      expect((replies[1] as { remainingMs: number }).remainingMs).toBeLessThanOrEqual(20);
      const alone = harness.names('b');
      await client.acquire(alone, `${ANA}-3`, ballot);
      expect(await client.release(alone, `${ANA}-3`, { pass: false })).toEqual({
        kind: 'released',
        deleted: 1,
      });
      expect(await isFree(harness, alone)).toBe(true);
      expect(bob.turns).toEqual([]);
    },
  },
  {
    name: 'turn: an abandoned attempt names the first in line if it is asked to, and forgets its ballot',
    async run(harness) {
      const { names, client, ballot } = await inLine(harness);
      await client.release(names, `#${ANA}`);
      await harness.deleteLock(names.locks[0]!);
      const replies = await Promise.all([
        client.acquire(names, `${ANA}-2`, ballot + 5),
        client.abandon(names, `${ANA}-2`, false),
        client.acquire(names, `${ANA}-3`, ballot + 6),
        client.abandon(names, `${ANA}-3`, true),
        client.acquire(names, `${BOB}-1`, ballot + 1),
      ]);
      expect(replies).toMatchObject([
        { kind: 'accepted' },
        { kind: 'released', deleted: 1 },
        { kind: 'accepted' },
        RELEASED,
        { kind: 'accepted' },
      ]);
    },
  },
  {
    name: 'turn: an extension finds a lock that is kept for somebody missing, and sets it again',
    async run(harness) {
      const { names, client, ballot } = await inLine(harness);
      const replies = await Promise.all([
        client.release(names, `${ANA}-1`),
        client.extend(names, `${ANA}-1`, ballot),
        client.acquire(names, `${BOB}-1`, ballot + 1),
      ]);
      expect(replies).toMatchObject([
        RELEASED,
        { kind: 'extended', recreated: 1 },
        { kind: 'held' },
      ]);
    },
  },
  {
    name: 'wait: a line in which nobody stands again is forgotten, and no later one shortens its life',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      const [long, short] = [harness.names('b'), names];
      for (const each of [long, short]) await client.acquire(each, `${ANA}-1`, ballot);
      await client.listen(`turns:${BOB}`);
      await client.stand(long, BOB);
      await client.stand(long, BOB, { lifeMs: 30 });
      await client.stand(short, BOB, { lifeMs: 30 });
      await new Promise((resolve) => setTimeout(resolve, 60));
      for (const each of [short, long])
        expect(await client.release(each, `${ANA}-1`)).toEqual(RELEASED);
      await client.untilTurn(long.locks[0]!);
      expect(client.turns).toHaveLength(1);
    },
  },
  {
    name: 'wait: a line has 1,000 places',
    needs: ['reach'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      const last = await ContractClient.joined(harness);
      await last.listen(`turns:${EVE}`);
      await client.acquire(names, `${ANA}-1`, ballot);
      const waits = Array.from({ length: 1_000 }, (_, place) =>
        client.stand(names, `x${place}`.padEnd(8, '.'), { ticket: place + 1 }),
      );
      await Promise.all(waits);
      await last.stand(names, EVE, { ticket: 5_000 });
      expect(await client.release(names, `${ANA}-1`)).toEqual(RELEASED);
      await client.acquire(names, `${ANA}-2`, ballot + 1);
      await last.stand(names, EVE, { ticket: 5_000 });
      expect(await client.release(names, `${ANA}-2`)).toEqual(RELEASED);
      await last.untilTurn(names.locks[0]!);
      expect(last.turns).toHaveLength(1);
    },
  },
];
