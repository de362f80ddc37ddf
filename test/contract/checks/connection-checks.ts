import { expect } from '@jest/globals';
import type { AcquireRequest, LockNames, ReleaseReply } from '../../../lib/core/nodes/lock-node.ts';
import { joinRequest } from '../../support/join-request.ts';
import { TTL_MS } from '../../support/node-driver.ts';
import { ContractClient, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** Order, turns, and the life of the connection. */
export const connectionChecks: readonly ContractCheck[] = [
  {
    name: 'connection: opened is called later than open; commands before it fail and have written nothing',
    async run(harness) {
      const names = harness.names('a');
      const node = harness.createNode();
      const received: string[] = [];
      const join = joinRequest({ markerName: harness.markerName });
      node.open(
        {
          opened: () => received.push('opened'),
          closed: () => received.push('closed'),
          turn: () => undefined,
          listening: () => undefined,
        },
        { silenceLimitMs: 60_000, join },
      );
      expect(received).toEqual([]);
      const request = voteOf(names, 'early', await harness.nowMicros());
      const early = harness.createNode();
      const reply = await new Promise((settle) => early.acquire(request, settle));
      expect(reply).toMatchObject({ kind: 'failed', reason: 'unreachable', nothingWritten: true });
      expect(await harness.readLock(names.locks[0]!)).toBeNull();
      await eventually('opened', () => received.length > 0);
      expect(received).toEqual(['opened']);
      await node.close();
      await early.close();
    },
  },
  {
    name: 'connection: commands are executed in the order in which they were given',
    async run(harness) {
      const { names, client, ballot } = await oneKey(harness);
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
    name: 'connection: votes are collected while an answer is due, and written by flush or by 32 of them',
    needs: ['batches'],
    async run(harness) {
      const client = await ContractClient.joined(harness);
      const votes = await Promise.all(
        Array.from({ length: 34 }, async (_, index) =>
          voteOf(harness.names(`k${index}`), `o${index}`, await harness.nowMicros()),
        ),
      );
      const replies: unknown[] = [];
      const give = (vote: AcquireRequest) =>
        client.node.acquire(vote, (reply) => replies.push(reply));
      const locks = async () =>
        (await Promise.all(votes.map(({ names }) => harness.readLock(names.locks[0]!)))).filter(
          (lock) => lock !== null,
        ).length;
      // True: it was collected, and the caller has to flush.
      expect(votes.slice(0, 3).map(give)).toEqual([false, true, true]);
      await eventually('the first answer', () => replies.length > 0);
      expect(await locks()).toBe(1);
      client.node.flush();
      await eventually('all answers', () => replies.length === 3);
      const given = [votes[0]!, ...votes.slice(2)].map(give);
      expect(given).toEqual([false, ...Array<boolean>(31).fill(true), false]);
      await eventually('32 in one', () => replies.length === 3 + 1 + 32);
      expect(await locks()).toBe(34);
    },
  },
  {
    name: 'connection: a release never overtakes an acquire that is still collected',
    needs: ['batches'],
    async run(harness) {
      const [first, second] = [harness.names('a'), harness.names('b')];
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      const replies: unknown[] = [];
      const note = (reply: unknown) => replies.push(reply);
      client.node.acquire(voteOf(first, 'first', ballot), note);
      client.node.acquire(voteOf(second, 'second', ballot), note);
      await eventually('the first answer', () => replies.length === 1);
      // Answers are not due now, so a release by itself would go out at once.
      client.node.release({ names: second, holder: 'second', granted: false, pass: false }, note);
      client.node.flush();
      await eventually('all answers', () => replies.length === 3);
      expect(replies).toEqual([
        { kind: 'accepted' },
        { kind: 'accepted' },
        { kind: 'released', deleted: 1 },
      ]);
      expect(await harness.readLock(second.locks[0]!)).toBeNull();
    },
  },
  {
    name: 'connection: a join, a look and the facts write first what was collected',
    async run(harness) {
      const client = await ContractClient.joined(harness);
      const { node } = client;
      const join = joinRequest({ markerName: harness.markerName });
      const others: [string, (settle: (reply: { kind: string }) => void) => void][] = [
        ['joined', (settle) => node.join(join, settle)],
        ['inspected', (settle) => node.inspect({ names: harness.names('a') }, settle)],
        ['facts', (settle) => node.examine(settle)],
      ];
      for (const [kind, ask] of others) {
        const kinds: string[] = [];
        const note = (reply: { kind: string }) => kinds.push(reply.kind);
        for (const key of [`${kind}:1`, `${kind}:2`])
          node.acquire(voteOf(harness.names(key), key, await harness.nowMicros()), note);
        ask(note);
        await eventually('all answers', () => kinds.length === 3);
        expect(kinds).toEqual(['accepted', 'accepted', kind]);
      }
    },
  },
  {
    name: 'connection: close writes what was collected',
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      await client.acquire(names, 'holder', await harness.nowMicros());
      const settled: ReleaseReply[] = [];
      const release = { names, holder: 'holder', granted: true, pass: false };
      client.node.acquire(
        voteOf(harness.names('b'), 'other', await harness.nowMicros()),
        () => undefined,
      );
      client.node.release(release, (reply) => settled.push(reply));
      await client.node.close();
      await eventually(
        'the release',
        async () => (await harness.readLock(names.locks[0]!)) === null,
      );
      expect(settled).toHaveLength(1);
      // Written: the caller must not believe that nothing was done.
      expect(settled[0]).not.toMatchObject({ kind: 'failed', nothingWritten: true });
    },
  },
  {
    name: 'connection: what was only collected when the connection broke was not sent',
    needs: ['batches', 'restart'],
    async run(harness) {
      const names = harness.names('a', 'b');
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      const replies: unknown[] = [];
      client.node.acquire(voteOf(harness.names('a'), 'a', ballot), () => undefined);
      client.node.acquire(voteOf(harness.names('b'), 'b', ballot), (reply) => replies.push(reply));
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      expect(replies).toEqual([
        expect.objectContaining({ kind: 'failed', reason: 'unreachable', nothingWritten: true }),
      ]);
      expect(await harness.readLock(names.locks[1]!)).toBeNull();
    },
  },
  {
    name: 'connection: after close nothing is received and commands fail',
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
    name: 'turns: a service listens again after a reconnect, and says so',
    needs: ['restart'],
    async run(harness) {
      const names = harness.names('a');
      const client = await ContractClient.joined(harness);
      const mark = 'service1';
      await client.listen(`turns:${mark}`);
      await harness.restart({ keepData: true });
      await client.untilOpened(2);
      await eventually('the second time', () => client.listens >= 2);
      await client.join();
      await client.acquire(names, 'holder', await harness.nowMicros());
      await client.stand(names, mark);
      expect(await client.release(names, 'holder')).toMatchObject({ deleted: 1 });
      await client.untilTurn(names.locks[0]!);
    },
  },
];

function voteOf(names: LockNames, holder: string, ballot: number): AcquireRequest {
  return { names, holder, ballot, ttlMs: TTL_MS };
}
