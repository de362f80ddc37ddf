import { isDeepStrictEqual } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { postgresNode } from '../../lib/postgres/index.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import pg from 'pg';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { ContractClient } from './contract-client.ts';
import type { ContractHarness } from './contract-harness.ts';
import { createMemoryHarness } from './memory-harness.ts';
import { createPostgresHarness } from './postgres-harness.ts';
import { play, randomCommands, type RandomCommand } from './random-commands.ts';
import { createRedisHarness } from './redis-harness.ts';

const COMMANDS = Number(process.env.RANDOM_COMMANDS);
/** Ahead of every join of the run: other ballots take no gate. */
const AHEAD_MICROS = 30_000_000;
const SEEDS = [1, 2, 3, 4];
/** A run is worth something only when it met these replies. */
const THAT_MATTER = [
  'accepted',
  'held',
  'stale',
  'extended',
  'lost',
  'released',
  'revoked',
  'outnumbered',
  'waiting',
  'inspected',
];

let server: RedisServer;
const database = usePostgres((pool) => pool.query(postgresNode(pool).ddl()));

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
  isPlayed: (command: RandomCommand) => boolean = () => true,
): Promise<Set<string>> {
  const clients = [
    await ContractClient.joined(expected),
    await ContractClient.joined(actual),
  ] as const;
  for (const client of clients) await client.listen('turns:listened');
  const kinds = new Set<string>();
  const base = (await expected.nowMicros()) + AHEAD_MICROS;
  for (const [step, command] of randomCommands(seed, COMMANDS, base).filter(isPlayed).entries()) {
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
    expect([...kinds]).toEqual(expect.arrayContaining([...THAT_MATTER, 'joined']));
  });

  it.each(SEEDS)('get the same answers in memory and from PostgreSQL, seed %i', async (seed) => {
    const run = (sql: string, values: readonly unknown[]) => database.pool.query(sql, [...values]);
    const listen = () => new pg.Client({ connectionString: database.url });
    const makeNode = () => postgresNode(database.pool, { listen });
    const postgres = opened(createPostgresHarness(run, makeNode, `seed${seed}:`));
    // A lock whose row is gone has not been held for so long that no holder can come back for it.
    for (const [index, floor] of postgres.names('a', 'b', 'c').pairs.entries())
      if (index % 2 === 1) await postgres.deleteFloor(floor);
    const isOfBoth = ({ kind }: RandomCommand) =>
      !['unguard', 'flush', 'join', 'otherRetention'].includes(kind);
    const kinds = await compare(seed, opened(createMemoryHarness()), postgres, isOfBoth);
    expect([...kinds]).toEqual(expect.arrayContaining(THAT_MATTER));
  });
});
