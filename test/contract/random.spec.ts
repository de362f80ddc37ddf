import { isDeepStrictEqual } from 'node:util';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { AcquireReply } from '../../lib/core/nodes/lock-node.ts';
import { keptFor } from '../../lib/testing/memory/memory-state.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { brokenServer, FLAWS, type Flaw } from './broken-servers.ts';
import { ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';
import { createMemoryHarness } from './memory-harness.ts';
import {
  endTurns,
  perform,
  randomCommands,
  stateOf,
  withoutClocks,
  type RandomCommand,
} from './random-commands.ts';
import { createRedisHarness } from './redis-harness.ts';

const COMMANDS = 1_200;
/** Ahead of every join of the run: other ballots take no gate. */
const AHEAD_MICROS = 30_000_000;
const SEEDS = [1, 2, 3, Date.now() % 1_000_000];
const STEPS = Number(process.env['BATCH_RUNS']) * 5;
const LIMIT_MS = 900_000;

const servers = useRedisServers(1);
const harnesses: ContractHarness[] = [];

afterEach(async () => {
  await Promise.all(harnesses.splice(0).map((harness) => harness.close()));
});

/** One command in two ways: what came of it in each. */
type Compare = (command: RandomCommand) => Promise<readonly [expected: unknown, received: unknown]>;

/** Fails at the first difference. */
async function compare(
  seed: number,
  steps: number,
  first: ContractHarness,
  second: ContractHarness,
  compareWith: (clients: readonly [ContractClient, ContractClient]) => Compare,
): Promise<void> {
  harnesses.push(first, second);
  const clients = [
    await ContractClient.joined(first),
    await ContractClient.joined(second),
  ] as const;
  for (const client of clients) await client.listen('turns:listened');
  const compareOne = compareWith(clients);
  const base = (await first.nowMicros()) + AHEAD_MICROS;
  for (const [step, command] of randomCommands(seed, steps, base).entries()) {
    const [expected, received] = await compareOne(command);
    if (isDeepStrictEqual(expected, received)) continue;
    const texts = [command, expected, received].map((value) => JSON.stringify(value));
    throw new Error(
      `Seed ${seed}, step ${step}, ${texts[0]}\nexpected ${texts[1]}\nreceived ${texts[2]}`,
    );
  }
}

describe('random commands', () => {
  /** Returns the kinds of replies that were met. */
  async function compareAll(seed: number, first: ContractHarness, second: ContractHarness) {
    const kinds = new Set<unknown>();
    await compare(seed, COMMANDS, first, second, (clients) => async (command) => {
      const play = async (client: ContractClient, harness: ContractHarness) => {
        const reply = withoutClocks(await perform(command, client, harness));
        kinds.add(reply?.['kind']);
        const state = await stateOf(harness);
        await endTurns(harness);
        return { reply, state };
      };
      const [expected, received] = [await play(clients[0], first), await play(clients[1], second)];
      // How long a lock is kept for somebody depends on a clock: on a busy machine it is over in one of them.
      for (const [index, { holder }] of expected.state.entries()) {
        const other = received.state[index]!;
        const isOver = (value: string | null) => value === null || value.startsWith('#');
        const isOverInOne = (holder === null) !== (other.holder === null);
        if (isOverInOne && isOver(holder) && isOver(other.holder)) other.holder = holder;
      }
      return [expected, received];
    });
    return kinds;
  }

  it.each(SEEDS)('get the same answers in memory and from real Redis, seed %i', async (seed) => {
    const kinds = await compareAll(
      seed,
      await createRedisHarness(servers[0]!),
      createMemoryHarness(),
    );
    // The run is worth something only when it met the replies that matter.
    const wanted = 'accepted held stale extended lost released waiting inspected joined'.split(' ');
    expect([...kinds]).toEqual(expect.arrayContaining(wanted));
  });

  it.each([
    'takes its own earlier ballot for what was before',
    'extends the keys it can',
    'ignores tickets',
  ] as const)('tell a server that %s from a whole one', async (name) => {
    const broken = createMemoryHarness(brokenServer(FLAWS[name].flaw));
    await expect(compareAll(1, createMemoryHarness(), broken)).rejects.toThrow(/Seed 1, step/);
  });
});

// The order of those that wait is no part of what makes locks safe: where a lock that is kept for somebody reads as no lock, a
// server with lines does what one without them does, or refuses.
describe('a server with lines', () => {
  const plain = (reply: unknown) => {
    const { othersWait: _othersWait, ...rest } = withoutClocks(reply) ?? {};
    return rest;
  };

  /** Returns how often a lock was kept from somebody. */
  async function compareLines(
    seed: number,
    steps: number,
    waiting: ContractHarness,
    other: ContractHarness,
  ) {
    let refused = 0;
    await compare(seed, steps, waiting, other, (clients) => async (command) => {
      const reply = (await perform(command, clients[0], waiting)) as AcquireReply | undefined;
      const isRefused = reply?.kind === 'held' && reply.holder.startsWith('#');
      if (isRefused) refused += 1;
      const isOfLines = command.kind === 'wait' || command.kind === 'giveBack';
      const isStep = !isOfLines && !isRefused;
      const expected = isStep ? await perform(command, clients[1], other) : reply;
      const state = await stateOf(waiting);
      const withoutTurns = state.map(({ holder, ...rest }) => ({
        ...rest,
        holder: holder?.startsWith('#') ? null : holder,
      }));
      return [
        [plain(expected), await stateOf(other)],
        [plain(reply), withoutTurns],
      ];
    });
    return refused;
  }

  it(
    `does what one without them does, or refuses, in ${STEPS} steps`,
    async () => {
      const [waiting, other] = [
        await createRedisHarness(servers[0]!),
        await createRedisHarness(servers[0]!),
      ];
      const refused = await compareLines(Date.now() % 1_000_000, STEPS, waiting, other);
      expect(refused).toBeGreaterThan(STEPS / 200);
    },
    LIMIT_MS,
  );

  const FLAWS_OF_LINES: Readonly<Record<string, Flaw>> = {
    'takes a lock that is kept for it for one that it holds': {
      acquire(request, whole, { locks }) {
        for (const lock of request.names.locks)
          if (locks.get(lock) === keptFor(request.holder))
            locks.set(lock, request.holder, request.ttlMs);
        return whole(request);
      },
    },
    'takes a lock that is kept for somebody for one that is held': {
      extend(request, whole, { locks }) {
        const isKept = request.names.locks.some((lock) => locks.get(lock)?.startsWith('#'));
        return isKept ? { kind: 'lost' } : whole(request);
      },
    },
    'forgets the ballot of the holder before it was kept for the one that gives it back': {
      release(request, whole) {
        return whole({ ...request, granted: request.granted && !request.holder.startsWith('#') });
      },
    },
  };

  it.each(Object.entries(FLAWS_OF_LINES))('would be noticed if it %s', async (_name, flaw) => {
    const broken = createMemoryHarness(brokenServer(flaw));
    const compared = compareLines(1, 30_000, broken, createMemoryHarness());
    await expect(compared).rejects.toThrow(/^Seed 1, step/);
  });
});
