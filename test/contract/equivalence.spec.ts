import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';
import { createMemoryHarness } from './memory-harness.ts';
import { play, randomCommands } from './random-commands.ts';
import { createRedisHarness } from './redis-harness.ts';

const COMMANDS = 1_200;
/** Ahead of every join of the run: other ballots take no gate. */
const AHEAD_MICROS = 30_000_000;
const SEEDS = [1, 2, 3, 4];

let server: RedisServer;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
});

afterAll(async () => {
  await server?.stop();
});

/** Plays the same commands on both and fails at the first difference. Returns the kinds of replies that were met. */
async function compare(
  seed: number,
  expected: ContractHarness,
  actual: ContractHarness,
): Promise<Set<string>> {
  const clients = [
    await ContractClient.joined(expected),
    await ContractClient.joined(actual),
  ] as const;
  for (const client of clients) await client.listen('turns:listened');
  const kinds = new Set<string>();
  for (const [step, command] of randomCommands(
    seed,
    COMMANDS,
    (await expected.nowMicros()) + AHEAD_MICROS,
  ).entries()) {
    const outcome = await play(command, clients[0], expected);
    const other = await play(command, clients[1], actual);
    if (!isDeepStrictEqual(other, outcome)) {
      const texts = [command, outcome, other].map((value) => JSON.stringify(value));
      throw new Error(
        `Seed ${seed}, step ${step}, ${texts[0]}\nexpected ${texts[1]}\nreceived ${texts[2]}`,
      );
    }
    kinds.add(outcome.kind);
  }
  return kinds;
}

describe('random commands', () => {
  const harnesses: ContractHarness[] = [];
  const opened = (harness: ContractHarness): ContractHarness => {
    harnesses.push(harness);
    return harness;
  };

  afterEach(async () => {
    await Promise.all(harnesses.splice(0).map((harness) => harness.close()));
  });

  it.each(SEEDS)('get the same answers in memory and from real Redis, seed %i', async (seed) => {
    const redis = opened(await createRedisHarness(server));
    const kinds = await compare(seed, redis, opened(createMemoryHarness()));
    // The run is worth something only when it met the replies that matter.
    expect([...kinds]).toEqual(
      expect.arrayContaining([
        'accepted',
        'held',
        'stale',
        'extended',
        'lost',
        'released',
        'revoked',
        'waiting',
        'inspected',
        'joined',
      ]),
    );
  });
});
