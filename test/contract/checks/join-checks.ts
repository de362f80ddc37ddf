import { expect } from '@jest/globals';
import { PROTOCOL_VERSIONS } from '../../../lib/core/options/options.ts';
import { ContractClient, RETENTION_MS, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck, ContractHarness } from '../contract-harness.ts';

const GUARD_MS = 60_000;

/** JOIN, quarantine, and what brings a node back into it. */
export const joinChecks: readonly ContractCheck[] = [
  {
    name: 'join: with a guard the node is in quarantine first, and writes nothing',
    needs: ['forgets'],
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.connect(harness);
      const joined = await client.join(GUARD_MS);
      expect(joined).toMatchObject({ kind: 'joined', quarantineMs: GUARD_MS });
      const reply = await client.acquire(names, 'holder', await harness.nowMicros());
      expect(reply.kind).toBe('quarantined');
      const remainingMs = reply.kind === 'quarantined' ? reply.remainingMs : 0;
      expect(remainingMs).toBeLessThanOrEqual(GUARD_MS);
      expect(remainingMs).toBeGreaterThan(GUARD_MS / 2);
      await harness.writeLock(names.locks[0]!, 'other', null);
      expect((await client.acquire(names, 'holder', await harness.nowMicros())).kind).toBe(
        'quarantined',
      );
      expect(await harness.readFloor(names.pairs[1]!)).toBeNull();
    },
  },
  {
    name: 'join: the quarantine ends by itself; joining again does not prolong it; older ballots stay refused',
    needs: ['forgets'],
    async run(harness) {
      const names = harness.names('a');
      const guardMs = 400;
      const client = await ContractClient.connect(harness);
      const beforeMicros = await harness.nowMicros();
      await client.join(guardMs);
      const afterMicros = await harness.nowMicros();
      await eventually('the end of the quarantine', async () => {
        await client.join(guardMs);
        return (
          (await client.acquire(names, 'holder', await harness.nowMicros())).kind === 'accepted'
        );
      });
      expect((await harness.nowMicros()) - beforeMicros).toBeGreaterThanOrEqual(
        guardMs * 1000 - 1000,
      );
      await client.abandon(names, 'holder');
      // Refused is what came before the middle of the quarantine.
      const middleMicros = guardMs * 500;
      const slow = await client.acquire(names, 'slow', beforeMicros + middleMicros - 1000);
      expect(slow).toMatchObject({ kind: 'stale', floor: 0, byClock: true });
      const quick = await client.acquire(names, 'quick', afterMicros + middleMicros + 1);
      expect(quick).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'join: the node follows the larger guard, counted from the first join',
    needs: ['forgets'],
    async run(harness) {
      const client = await ContractClient.connect(harness);
      expect(await client.join(GUARD_MS)).toMatchObject({ kind: 'joined', quarantineMs: GUARD_MS });
      await new Promise((resolve) => setTimeout(resolve, 20));
      const larger = await client.join(3 * GUARD_MS);
      const largerMs = larger.kind === 'joined' ? larger.quarantineMs : 0;
      expect(largerMs).toBeGreaterThan(2 * GUARD_MS);
      expect(largerMs).toBeLessThanOrEqual(3 * GUARD_MS - 15);
      const smaller = await client.join(GUARD_MS);
      expect(smaller.kind === 'joined' && smaller.quarantineMs).toBeGreaterThan(2 * GUARD_MS);
    },
  },
  {
    name: 'join: another floor retention is refused and changes nothing',
    needs: ['forgets'],
    async run(harness) {
      const client = await ContractClient.joined(harness);
      expect(await client.join(GUARD_MS, { floorRetentionMs: RETENTION_MS / 2 })).toEqual({
        kind: 'disagree',
        versions: PROTOCOL_VERSIONS,
        floorRetentionMs: RETENTION_MS,
      });
      expect(await client.acquire(harness.names('a'), 'holder', await harness.nowMicros())).toEqual(
        { kind: 'accepted' },
      );
    },
  },
  {
    name: 'join: versions of the protocol that this process does not speak are refused, and others are no restart',
    needs: ['forgets'],
    async run(harness) {
      const client = await ContractClient.joined(harness, GUARD_MS);
      await harness.endGuard();
      await harness.writeVersions(2, 3);
      const refused = { kind: 'disagree', versions: [2, 3], floorRetentionMs: RETENTION_MS };
      expect(await client.join(GUARD_MS)).toEqual(refused);
      expect(await client.join(GUARD_MS)).toEqual(refused);
      const vote = await client.acquire(harness.names('b'), 'b', await harness.nowMicros());
      expect(vote).toEqual({ kind: 'accepted' });
      await harness.writeVersions(1, 2);
      expect(await client.join(GUARD_MS)).toMatchObject({ kind: 'joined', quarantineMs: 0 });
    },
  },
  {
    name: 'join: the node names the other configurations, in the order of their latest joins',
    async run(harness) {
      const client = await ContractClient.connect(harness);
      const joinWith = (configuration: string) => client.join(0, { configuration });
      const [one, two, three] = ['1 a', '2 a b c', '2 b c d'];
      expect(await joinWith(one!)).not.toHaveProperty('others');
      expect(await joinWith(two!)).toMatchObject({ others: [one] });
      expect(await joinWith(one!)).toMatchObject({ others: [two] });
      expect(await joinWith(three!)).toMatchObject({ others: [two, one] });
      for (let number = 0; number < 20; number += 1) await joinWith(`1 node${number}`);
      const reply = await joinWith('1 last');
      expect(reply).toMatchObject({ others: { length: 16, 15: '1 node19' } });
    },
  },
  {
    name: 'clock: the node names a configuration for a day after its latest join, and no longer',
    needs: ['clock'],
    async run(harness) {
      const client = await ContractClient.connect(harness);
      const joinWith = (configuration: string) => client.join(0, { configuration });
      const halfADayMs = 12 * 3_600_000;
      await joinWith('1 a');
      await harness.advance(halfADayMs);
      expect(await joinWith('1 b')).toMatchObject({ others: ['1 a'] });
      await harness.advance(halfADayMs + 1);
      expect(await joinWith('1 c')).toMatchObject({ others: ['1 b'] });
    },
  },
  {
    name: 'join: after FLUSHALL the node does not vote before a new join, and is in quarantine again',
    needs: ['forgets'],
    run: (harness) => forgottenBy(harness, () => harness.flush()),
  },
  {
    name: 'join: a node with the data of another one does not vote before a new join, and is in quarantine again',
    needs: ['forgets'],
    run: (harness) => forgottenBy(harness, () => harness.takeMarkerOfAnother()),
  },
  {
    name: 'join: a server that forgot the scripts asks for a join, and has written nothing',
    needs: ['forgets'],
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      await harness.forgetScripts();
      const ballot = await harness.nowMicros();
      const refused = { kind: 'failed', mustJoin: true, nothingWritten: true, reason: 'error' };
      expect(await client.acquire(names, 'holder', ballot)).toMatchObject(refused);
      expect(await client.extend(names, 'holder', ballot)).toMatchObject(refused);
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      await client.join();
      expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'accepted' });
    },
  },
  {
    name: 'restart empty: no vote before the join, quarantine after it',
    needs: ['forgets'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await client.acquire(names, 'holder', ballot);
      await harness.restart({ keepData: false });
      await client.untilOpened(2);
      expect(await client.acquire(names, 'thief', ballot + 1)).toMatchObject({
        kind: 'failed',
        mustJoin: true,
      });
      expect(await client.join(GUARD_MS)).toMatchObject({ kind: 'joined', quarantineMs: GUARD_MS });
      expect((await client.acquire(names, 'thief', ballot + 1)).kind).toBe('quarantined');
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
    },
  },
  {
    name: 'restart with its data: quarantine again, held locks are still extended and released',
    needs: ['forgets'],
    async run(harness) {
      const [names, free] = [harness.names('a'), harness.names('b')];
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      await client.acquire(names, 'holder', ballot);
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      expect(await harness.readLock(names.locks[0]!)).toMatchObject({ holder: 'holder' });
      expect(await client.acquire(free, 'next', ballot)).toMatchObject({
        kind: 'failed',
        mustJoin: true,
      });
      expect(await client.join(GUARD_MS)).toMatchObject({ kind: 'joined', quarantineMs: GUARD_MS });
      expect((await client.acquire(free, 'next', ballot)).kind).toBe('quarantined');
      expect(await client.extend(names, 'holder', ballot)).toEqual({
        kind: 'extended',
        recreated: 0,
      });
      expect(await client.release(names, 'holder')).toEqual({ kind: 'released', deleted: 1 });
      expect(await harness.readFloor(names.pairs[1]!)).toMatchObject({ floor: ballot });
    },
  },
  {
    name: 'examine: run id changes with a restart, and the facts are those of a plain master',
    needs: ['restart'],
    async run(harness) {
      const client = await ContractClient.connect(harness);
      const before = await client.examine();
      expect(before).toMatchObject({
        kind: 'facts',
        role: 'master',
        clusterEnabled: false,
        missingRights: [],
      });
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      const after = await client.examine();
      const [first, second] = [before, after].map((facts) =>
        facts.kind === 'facts' ? facts.runId : '',
      );
      expect(first).not.toBe('');
      expect(second).not.toBe('');
      expect(second).not.toBe(first);
    },
  },
  {
    name: 'clock: a node whose clock went back by more than is left asks for a join and starts over',
    needs: ['clock', 'forgets'],
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness, GUARD_MS);
      await harness.advance(2 * GUARD_MS);
      expect(await client.acquire(names, 'holder', await harness.nowMicros())).toEqual({
        kind: 'accepted',
      });
      await client.release(names, 'holder');
      await harness.advance(-4 * GUARD_MS);
      expect(await client.acquire(names, 'next', await harness.nowMicros())).toEqual({
        kind: 'unjoined',
      });
      expect(await client.join(GUARD_MS / 2)).toMatchObject({
        kind: 'joined',
        quarantineMs: GUARD_MS,
      });
      expect((await client.acquire(names, 'next', await harness.nowMicros())).kind).toBe(
        'quarantined',
      );
    },
  },
];

async function forgottenBy(harness: ContractHarness, change: () => Promise<void>): Promise<void> {
  const { names, lock, client, ballot } = await oneKey(harness);
  await client.acquire(names, 'holder', ballot);
  await change();
  await harness.deleteLock(lock);
  expect(await client.acquire(names, 'thief', ballot + 1)).toEqual({ kind: 'unjoined' });
  expect(await client.extend(names, 'holder', ballot)).toEqual({ kind: 'unjoined' });
  expect(await harness.readLock(lock)).toBeNull();
  expect(await client.join(GUARD_MS)).toMatchObject({ kind: 'joined', quarantineMs: GUARD_MS });
  expect((await client.acquire(names, 'thief', ballot + 1)).kind).toBe('quarantined');
  expect((await client.extend(names, 'holder', ballot)).kind).toBe('quarantined');
}
