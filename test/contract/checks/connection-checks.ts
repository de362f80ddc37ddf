import { expect } from '@jest/globals';
import type { AcquireRequest, LockNames, ReleaseReply } from '../../../lib/core/nodes/lock-node.ts';
import { joinRequest } from '../../support/join-request.ts';
import { ContractClient, TTL_MS, oneKey } from '../contract-client.ts';
import { eventually } from '../contract-harness.ts';
import type { ContractCheck } from '../contract-harness.ts';

/** Order, hints, and the life of the connection. */
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
          hint: () => undefined,
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
    async run(harness) {
      const [first, second] = [harness.names('a'), harness.names('b')];
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      const replies: unknown[] = [];
      const note = (reply: unknown) => replies.push(reply);
      client.node.acquire(voteOf(first, 'first', ballot), note);
      client.node.acquire(voteOf(second, 'second', ballot), note);
      await eventually('the first answer', () => replies.length === 1);
      // No answer is due now, so a release by itself would go out at once.
      client.node.release({ names: second, holder: 'second', granted: false, notify: false }, note);
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
    name: 'connection: a collected vote can be withdrawn: it never arrives and is never settled',
    async run(harness) {
      const [first, second] = [harness.names('a'), harness.names('b')];
      const client = await ContractClient.joined(harness);
      const ballot = await harness.nowMicros();
      const replies: unknown[] = [];
      const [sent, unsent] = [voteOf(first, 'first', ballot), voteOf(second, 'second', ballot)];
      for (const vote of [sent, unsent]) client.node.acquire(vote, (reply) => replies.push(reply));
      expect(client.node.withdraw(sent)).toBe(false);
      expect(client.node.withdraw(unsent)).toBe(true);
      expect(client.node.withdraw(unsent)).toBe(false);
      expect(await client.inspect(second)).toMatchObject({ holder: null, floor: 0 });
      expect(replies).toEqual([{ kind: 'accepted' }]);
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
      const release = { names, holder: 'holder', granted: true, notify: false };
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
      const received = watcher.hints.filter((hint) => hint.holder !== null);
      expect(received).toEqual([
        { lockName: a, holder: 'first' },
        { lockName: a, holder: 'second' },
        { lockName: b, holder: 'second' },
        { lockName: b, holder: 'last' },
      ]);
    },
  },
  {
    name: 'hints: none of a release whose lock a vote of the same batch takes again, where it asks for that',
    async run(harness) {
      const names = harness.names('a');
      const [lock] = names.locks as [string];
      const [client, watcher] = [
        await ContractClient.joined(harness),
        await ContractClient.joined(harness),
      ];
      await watcher.watch(lock);
      const ballot = await harness.nowMicros();
      const handOver = async (from: string, to: string, nextBallot: number): Promise<unknown[]> => {
        const replies: unknown[] = [];
        const release = { names, holder: from, granted: true, notify: true, unlessTaken: true };
        // While its answer is due, what follows is collected.
        client.node.inspect({ names }, (reply) => replies.push(reply.kind));
        client.node.release(release, (reply) => replies.push(reply));
        client.node.acquire(voteOf(names, to, nextBallot), ({ kind }) => replies.push(kind));
        client.node.flush();
        await eventually('three answers', () => replies.length === 3);
        return replies.slice(1);
      };
      await client.acquire(names, 'first', ballot);
      const released = { kind: 'released', deleted: 1 };
      expect(await handOver('first', 'second', ballot + 1)).toEqual([released, 'accepted']);
      // A ballot that is refused leaves it free.
      const answered = { ...released, listeners: 1 };
      expect(await handOver('second', 'third', ballot)).toEqual([answered, 'stale']);
      await client.acquire(names, 'last', ballot + 3);
      await new Promise<void>((resolve) => {
        const alone = { names, holder: 'last', granted: true, notify: true, unlessTaken: true };
        client.node.release(alone, () => resolve());
        client.node.flush();
      });
      await watcher.untilHint(lock, 'last');
      const received = watcher.hints.flatMap(({ holder }) => holder ?? []);
      expect(received).toEqual(['second', 'last']);
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

function voteOf(names: LockNames, holder: string, ballot: number): AcquireRequest {
  return { names, holder, ballot, ttlMs: TTL_MS };
}
