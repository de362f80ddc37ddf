import { expect } from '@jest/globals';
import { ContractClient, TTL_MS } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** Order, hints, and the life of the connection. */
export const connectionChecks: readonly ContractCheck[] = [
  {
    name: 'connection: opened is told later than open; before it commands fail and have written nothing',
    async run(harness) {
      const names = harness.names('a');
      const node = harness.createNode();
      const heard: string[] = [];
      node.open({
        opened: () => heard.push('opened'),
        closed: () => heard.push('closed'),
        hint: () => undefined,
      });
      expect(heard).toEqual([]);
      const request = { names, holder: 'early', ballot: await harness.nowMicros(), ttlMs: TTL_MS };
      const early = harness.createNode();
      const reply = await new Promise((settle) => early.acquire(request, settle));
      expect(reply).toMatchObject({ kind: 'failed', reason: 'unreachable', nothingWritten: true });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      await eventually('opened', () => heard.length > 0);
      expect(heard).toEqual(['opened']);
      await node.close();
      await early.close();
    },
  },
  {
    name: 'connection: commands are executed in the order in which they were given',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      const replies = await Promise.all(
        Array.from({ length: 20 }, (_, round) => [
          client.acquire(names, `holder-${round}`, ballot + round),
          client.inspect(names),
          client.release(names, `holder-${round}`),
        ]).flat(),
      );
      for (let round = 0; round < 20; round += 1) {
        expect(replies[3 * round]).toEqual({ kind: 'accepted' });
        expect(replies[3 * round + 1]).toMatchObject({
          holder: `holder-${round}`,
          floor: ballot + round,
        });
        expect(replies[3 * round + 2]).toEqual({ kind: 'released', deleted: 1 });
      }
    },
  },
  {
    name: 'connection: reset makes a new one; every open command is settled, once',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const settlesBefore = client.settles;
      const open = Array.from({ length: 8 }, () => client.inspect(names));
      client.node.reset();
      for (const reply of await Promise.all(open))
        expect(['failed', 'inspected']).toContain(reply.kind);
      await client.untilOpened(2);
      expect(client.closes).toBe(1);
      expect((await client.inspect(names)).kind).toBe('inspected');
      expect(client.settles).toBe(settlesBefore + 9);
    },
  },
  {
    name: 'connection: after close nothing is heard and commands fail',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const open = client.inspect(names);
      await client.node.close();
      expect(['failed', 'inspected']).toContain((await open).kind);
      expect(await client.inspect(names)).toMatchObject({
        kind: 'failed',
        reason: 'unreachable',
        nothingWritten: true,
      });
      await client.node.close();
    },
  },
  {
    name: 'hints: one per deleted lock with its holder; none without notify, without a deletion, or after unwatch',
    async run(harness) {
      const names = harness.names('a', 'b', 'c');
      const [a, b, c] = names.locks as [string, string, string];
      const [client, watcher] = [
        await ContractClient.joined(harness),
        await ContractClient.joined(harness),
      ];
      const ballot = await harness.nowMicros();
      for (const lock of [a, b, c]) await watcher.watch(lock);
      watcher.node.unwatch(c);
      await client.acquire(names, 'silent', ballot);
      await client.release(names, 'silent', false);
      await client.release(names, 'nobody', true);
      await client.acquire(harness.names('a'), 'first', ballot + 1);
      await client.abandon(names, 'first', true);
      await client.acquire(names, 'second', ballot + 2);
      await client.release(names, 'second', true);
      await client.release(names, 'second', true);
      await client.acquire(harness.names('b'), 'last', ballot + 3);
      await client.release(harness.names('b'), 'last', true);
      await watcher.untilHint(b, 'last');
      const told = watcher.hints.filter((hint) => hint.holder !== null);
      expect(told).toEqual([
        { lockName: a, holder: 'first' },
        { lockName: a, holder: 'second' },
        { lockName: b, holder: 'second' },
        { lockName: b, holder: 'last' },
      ]);
    },
  },
  {
    name: 'hints: a watch that becomes active, first or again, tells that the past is unknown',
    async run(harness) {
      const lockName = harness.names('a').locks[0]!;
      const client = await ContractClient.joined(harness);
      await client.watch(lockName);
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      const unknown = (): number => client.hints.filter((hint) => hint.holder === null).length;
      await eventually('the watch after the reconnect', () => unknown() >= 2);
      await client.join();
      await client.acquire(harness.names('a'), 'holder', await harness.nowMicros());
      await client.release(harness.names('a'), 'holder', true);
      await client.untilHint(lockName, 'holder');
      expect(client.hints.at(-1)).toEqual({ lockName, holder: 'holder' });
    },
  },
];
