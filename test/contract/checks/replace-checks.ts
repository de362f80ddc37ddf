import { expect } from '@jest/globals';
import { replacedValue } from '../../../lib/core/process-identity.ts';
import { TTL_MS } from '../../support/node-driver.ts';
import { ContractClient, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck, ContractHarness } from '../contract-harness.ts';

const [ANA, BOB, EVE] = ['ana.....', 'bob.....', 'eve.....'] as const;
const HOUR_MICROS = 3_600_000_000;

/** A client that holds the lock and listens, and one that is newer. */
async function held(harness: ContractHarness) {
  const { names, lock, floor, client, ballot } = await oneKey(harness);
  const newer = await ContractClient.joined(harness);
  await client.listen(`turns:${ANA}`);
  const holder = `${ANA}-1`;
  await client.acquire(names, holder, ballot);
  return { names, lock, floor, client, newer, ballot, holder };
}

/** What a node does for calls that replace holders. */
export const replaceChecks: readonly ContractCheck[] = [
  {
    name: 'replace: the number of a newer call takes the lock from its holder, who is told at once, and refuses older ones',
    async run(harness) {
      const { names, lock, floor, client, newer, ballot, holder } = await held(harness);
      const reply = await newer.revoke(names, holder, 0, ballot + 10);
      expect(reply).toMatchObject({ kind: 'revoked' });
      expect((reply as { remainingMs: number }).remainingMs).toBeGreaterThan(TTL_MS / 2);
      await client.untilTurn(lock, -1);
      const again = await newer.revoke(names, holder, 0, ballot + 10);
      expect(again).toEqual({ kind: 'outnumbered', limit: ballot + 10 });
      await eventually('a second message', () => client.turns.length === 2);
      expect(await client.extend(names, holder, ballot)).toEqual({
        kind: 'lost',
        revoked: replacedValue(holder),
      });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot + 10 });
      const refused = await newer.acquire(names, `${BOB}-1`, ballot + 11);
      expect(refused).toMatchObject({ kind: 'held', floor: ballot + 10 });
      await client.release(names, holder);
      expect(await newer.acquire(names, `${EVE}-1`, ballot + 10)).toMatchObject({ kind: 'stale' });
      expect(await newer.acquire(names, `${BOB}-1`, ballot + 11)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'replace: a newer number takes the place of an older one, and an older one nothing',
    async run(harness) {
      const { names, floor, newer, ballot, holder } = await held(harness);
      for (const number of [10, 20])
        expect(await newer.revoke(names, holder, 0, ballot + number)).toMatchObject({
          kind: 'revoked',
          remainingMs: expect.any(Number),
        });
      const limit = ballot + 20;
      // The call of that floor may be granted the number above it.
      for (const number of [limit - 1, limit, limit + 1])
        expect(await newer.revoke(names, holder, 0, number)).toEqual({
          kind: 'outnumbered',
          limit,
        });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: limit });
      const other = await newer.revoke(names, `${BOB}-1`, 0, limit + 1);
      expect(other).toEqual({ kind: 'revoked', remainingMs: null });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: limit });
    },
  },
  {
    name: 'replace: a number more than a day ahead is refused, and one above the limit that is named is not',
    async run(harness) {
      const { names, lock, floor, newer, ballot, holder } = await held(harness);
      const reply = await newer.revoke(names, holder, 0, ballot + 25 * HOUR_MICROS);
      if (reply.kind !== 'outnumbered') throw new Error(JSON.stringify(reply));
      expect(reply.limit).toBeGreaterThanOrEqual(ballot);
      expect(reply.limit).toBeLessThan(ballot + HOUR_MICROS);
      expect(await harness.readLock(lock)).toMatchObject({ holder });
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot });
      const mended = await newer.revoke(names, holder, 0, reply.limit + 2);
      expect(mended).toMatchObject({ kind: 'revoked' });
    },
  },
  {
    name: 'replace: a lock that was missing somewhere is not set again by its holder once a newer call has its floor',
    async run(harness) {
      const { names, lock, client, newer, ballot, holder } = await held(harness);
      await newer.revoke(names, holder, 0, ballot + 10);
      await harness.deleteLock(lock);
      expect(await client.extend(names, holder, ballot)).toEqual({ kind: 'lost' });
    },
  },
  {
    name: 'replace: an attempt that was replaced before its grant frees the lock, and never the floor of the newer call',
    async run(harness) {
      const { names, lock, floor, client, newer, ballot, holder } = await held(harness);
      await newer.revoke(names, holder, 0, ballot + 10);
      await client.abandon(names, holder);
      expect(await harness.readLock(lock)).toBeNull();
      expect(await harness.readFloor(floor)).toMatchObject({ floor: ballot + 10 });
    },
  },
  {
    name: 'replace: a release by anybody else, and that of a lock which people revoked, free nothing',
    async run(harness) {
      const { names, lock, client, newer, ballot, holder } = await held(harness);
      await newer.revoke(names, holder, 0, ballot + 10);
      await newer.release(names, `${BOB}-1`);
      expect(await harness.readLock(lock)).toMatchObject({ holder: replacedValue(holder) });
      await client.release(names, holder);
      await client.acquire(names, holder, ballot + 20);
      await newer.revoke(names, holder);
      await client.release(names, holder);
      expect(await harness.readLock(lock)).not.toBeNull();
    },
  },
  {
    name: 'turn: a ticket below zero goes ahead of all others, the lowest first',
    needs: ['reach'],
    async run(harness) {
      const { names, lock, client, holder } = await held(harness);
      const others = await Promise.all([BOB, EVE].map(() => ContractClient.joined(harness)));
      const [bob, eve] = others as [ContractClient, ContractClient];
      await bob.listen(`turns:${BOB}`);
      await eve.listen(`turns:${EVE}`);
      await bob.stand(names, BOB, { ticket: 10 });
      expect(await eve.stand(names, EVE, { ticket: -20 })).toMatchObject({ ticket: -20 });
      await bob.stand(names, BOB, { ticket: -10 });
      await client.release(names, holder);
      await eve.untilTurn(lock);
      expect(bob.turns.filter(([, keptMs]) => keptMs === 0)).toEqual([]);
    },
  },
];
