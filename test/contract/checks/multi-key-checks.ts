import { expect } from '@jest/globals';
import { ContractClient } from '../contract-client.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** Several keys in one command: all or nothing. */
export const multiKeyChecks: readonly ContractCheck[] = [
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
    name: 'inspect: holder, life and floor of the longest; nothing is written',
    async run(harness) {
      const names = harness.names('a', 'b');
      const client = await ContractClient.joined(harness);
      const free = { kind: 'inspected', holder: null, remainingMs: 0, floor: 0, process: null };
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
