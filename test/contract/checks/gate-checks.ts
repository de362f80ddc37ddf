import { expect } from '@jest/globals';
import type { LockNames } from '../../../lib/core/nodes/lock-node.ts';
import { ContractClient, oneKey, RETENTION_MS } from '../contract-client.ts';
import type { ContractCheck, ContractHarness } from '../contract-harness.ts';

const TTL_MS = 10_000;
/** Expiries are whole milliseconds, and the server's clock is read beside them. */
const READING_MICROS = 3_000;

/** Changes that leave a gate beside no marker, or beside another one. */
const UNJOINED = (
  [
    [
      'gate: one that belongs to the data of another server opens nothing here',
      (harness) => harness.takeMarkerOfAnother(),
    ],
    ['gate: without a marker it opens nothing', (harness) => harness.deleteMarker()],
    ['gate: FLUSHALL closes it', (harness) => harness.flush()],
  ] satisfies [string, (harness: ContractHarness) => Promise<void>][]
).map(([name, change]): ContractCheck => ({
  name,
  needs: ['forgets'],
  run: (harness) => unjoinedAfter(harness, change),
}));

/** Checks of what a vote for a free key leaves behind so that the next one needs neither marker nor clock. */
export const gateChecks: readonly ContractCheck[] = [
  {
    name: 'gate: whatever is accepted is remembered for R past the ballot and past the clock',
    async run(harness) {
      const client = await ContractClient.joined(harness);
      await openGate(harness, client);
      const [halfMs, eighthMs] = [RETENTION_MS / 2, RETENTION_MS / 8];
      const aheadMs = [
        [-halfMs + 60_000, -1_000, 0, eighthMs / 2],
        [eighthMs - 1_000, eighthMs + 1_000, 2 * eighthMs, 3 * eighthMs, 8 * eighthMs, 43_200_000],
      ].flat();
      for (const [index, ahead] of aheadMs.entries()) {
        const names = harness.names(`a${index}`);
        const beforeMicros = await harness.nowMicros();
        const ballot = beforeMicros + ahead * 1000;
        expect(await client.acquire(names, 'holder', ballot, TTL_MS)).toEqual({ kind: 'accepted' });
        const floor = await harness.readFloor(names.pairs[1]!);
        const goneAtMicros = (await harness.nowMicros()) + floor!.remainingMs * 1000;
        const dueMicros = Math.max(ballot, beforeMicros) + RETENTION_MS * 1000;
        expect(goneAtMicros + READING_MICROS).toBeGreaterThanOrEqual(dueMicros);
      }
    },
  },
  {
    name: 'gate: a floor outlives its own lock by R, whatever the ttl of the vote that opened the gate',
    async run(harness) {
      const client = await ContractClient.joined(harness);
      await openGate(harness, client);
      for (const ttlMs of [100, 9_999, 10_000, 10_001, 600_000]) {
        const names = harness.names(`ttl${ttlMs}`);
        const ballot = await harness.nowMicros();
        expect(await client.acquire(names, 'holder', ballot, ttlMs)).toEqual({ kind: 'accepted' });
        const { remainingMs } = (await harness.readFloor(names.pairs[1]!))!;
        const goneAtMs = (await harness.nowMicros()) / 1000 + remainingMs;
        const leastMs = ballot / 1000 + ttlMs + RETENTION_MS - READING_MICROS / 1000;
        expect(goneAtMs).toBeGreaterThanOrEqual(leastMs);
        // The gate adds R/8, and what this test takes.
        expect(goneAtMs).toBeLessThan(leastMs + RETENTION_MS / 4);
      }
    },
  },
  {
    name: 'gate: it lets no ballot through that the clock refuses, up to its end and after it',
    async run(harness) {
      const retentionMs = 2_000;
      const client = await ContractClient.connect(harness);
      expect((await client.join(0, { floorRetentionMs: retentionMs })).kind).toBe('joined');
      const joinedAtMicros = await harness.nowMicros();
      // The clock, not the join, says what is too old from half of R after the join on; a gate lasts R/16.
      const untilMicros = joinedAtMicros + retentionMs * 750;
      let opened = 0;
      for (let nowMicros = joinedAtMicros; nowMicros < untilMicros || opened < 10;) {
        // Opens a gate, or finds it open; not where this machine pauses until the ballot is too old.
        const [own, other] = [harness.names(`own${opened}`), harness.names(`late${opened}`)];
        const { kind } = await client.acquire(own, 'gate', await harness.nowMicros());
        if (kind === 'accepted') opened += 1;
        nowMicros = await harness.nowMicros();
        const late = nowMicros - (retentionMs / 2) * 1000;
        const reply = await client.acquire(other, 'late', late, TTL_MS);
        // Ballot is no longer too late for a wall clock that is being set.
        if ((await harness.nowMicros()) < nowMicros) continue;
        expect(reply).toMatchObject({ kind: 'stale', byClock: true });
      }
    },
  },
  {
    name: 'gate: a larger guard closes it',
    needs: ['forgets'],
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
      await openGate(harness, client);
      expect((await client.join(60_000)).kind).toBe('joined');
      expect((await client.acquire(names, 'holder', ballot)).kind).toBe('quarantined');
    },
  },
  ...UNJOINED,
  {
    name: 'gate: a restart that keeps all data closes it',
    needs: ['forgets'],
    async run(harness) {
      const client = await ContractClient.joined(harness, 60_000);
      await harness.endGuard();
      await openGate(harness, client);
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      expect((await client.join(60_000)).kind).toBe('joined');
      const reply = await client.acquire(harness.names('a'), 'holder', await harness.nowMicros());
      expect(reply.kind).toBe('quarantined');
    },
  },
  {
    name: 'clock: a ballot that a gate accepted is refused for good, also after a step back of R/2',
    needs: ['clock', 'forgets'],
    async run(harness) {
      await harness.advance(1_000);
      const { names, client, ballot } = await oneKey(harness);
      await openGate(harness, client);
      const ahead = ballot + 70_000_000;
      expect(await client.acquire(names, 'holder', ahead, TTL_MS)).toEqual({ kind: 'accepted' });
      await refusedForGood(harness, client, names, ahead);
    },
  },
  {
    name: 'clock: a step back while a gate is open ends no floor sooner than R past its ballot',
    needs: ['clock', 'forgets'],
    async run(harness) {
      await harness.advance(1_000);
      const { names, client, ballot } = await oneKey(harness);
      await openGate(harness, client);
      const ahead = ballot + 70_000_000;
      await harness.advance(-1_200_000);
      const { kind } = await client.acquire(names, 'holder', ahead, TTL_MS);
      // Step is noticed if there is no gate.
      expect(['accepted', 'unjoined']).toContain(kind);
      if (kind === 'accepted') await refusedForGood(harness, client, names, ahead);
    },
  },
  {
    name: 'clock: a gate from a jump ahead during the quarantine does not end it',
    needs: ['clock', 'forgets'],
    async run(harness) {
      const guardMs = 60_000;
      const client = await ContractClient.joined(harness, guardMs);
      await harness.advance(guardMs - 25_000);
      await harness.advance(30_000);
      await openGate(harness, client);
      await harness.advance(-30_000);
      const reply = await client.acquire(harness.names('a'), 'holder', await harness.nowMicros());
      expect(reply.kind).toBe('quarantined');
    },
  },
];

async function unjoinedAfter(
  harness: ContractHarness,
  change: (harness: ContractHarness) => Promise<void>,
): Promise<void> {
  const { names, client, ballot } = await oneKey(harness);
  await openGate(harness, client);
  await change(harness);
  expect(await client.acquire(names, 'holder', ballot)).toEqual({ kind: 'unjoined' });
}

/** A plain vote for another key. */
async function openGate(harness: ContractHarness, client: ContractClient): Promise<void> {
  const reply = await client.acquire(harness.names('gate'), 'gate', await harness.nowMicros());
  expect(reply).toEqual({ kind: 'accepted' });
}

/** The ballot of a lock that was granted, once its floor has ended, and after a step back of R/2. */
async function refusedForGood(
  harness: ContractHarness,
  client: ContractClient,
  names: LockNames,
  ballot: number,
): Promise<void> {
  await untilForgotten(harness, names.pairs[1]!);
  expect((await harness.nowMicros()) - ballot).toBeGreaterThanOrEqual(RETENTION_MS * 1000);
  const late = { kind: 'stale', byClock: true };
  expect(await client.acquire(names, 'late', ballot)).toMatchObject(late);
  await harness.advance(-RETENTION_MS / 2);
  expect(await client.acquire(names, 'late', ballot)).toMatchObject(late);
}

async function untilForgotten(harness: ContractHarness, floorName: string): Promise<void> {
  const { remainingMs } = (await harness.readFloor(floorName))!;
  await harness.advance(remainingMs + 1);
  expect(await harness.readFloor(floorName)).toBeNull();
}
