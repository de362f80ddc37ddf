import { describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Redis } from 'ioredis';
import { fenceConformance, type FenceStore } from '../../lib/testing/index.ts';
import { useMariadb, usePostgres } from '../support/databases/use-databases.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { createMariadbAccounts, createPostgresAccounts } from './support/accounts.ts';
import { httpStore, startGuardedInstance, type Pauses } from './support/http-resource.ts';
import { affectedRows, redisToNumber } from './support/wrong-other-stores.ts';
import { checkThenWrite, separateConnection } from './support/wrong-postgres-stores.ts';

// Fences that people write, on real servers. What each is found by needs no chance: the others, also those that are wrong about
// ages, are in conformance-cases and conformance-ages.

const PAUSED = /paused between/;
const OLDER = /older (claim|write) is rejected/;

/** A store that is wrong here lets the newer holder through at once, however slow the machine; others wait for the gate. */
const gateMsFor = (because: RegExp): number => (because === PAUSED ? 20_000 : 50);

describe('the conformance kit fails', () => {
  const pauses: Pauses = new Map();
  let redis: Redis;
  useRedisServers(1, {}, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });
  const mariadb = useMariadb(createMariadbAccounts);
  const apps: INestApplication[] = [];
  const postgres = usePostgres(
    async (pool) => {
      await createPostgresAccounts(pool);
      for (let instance = 0; instance < 2; instance += 1)
        apps.push(await startGuardedInstance(pool, pauses));
      return () => Promise.all(apps.map((app) => app.close()));
    },
    { max: 40 },
  );

  const guarded = async (): Promise<FenceStore> =>
    httpStore(await Promise.all(apps.map((app) => app.getUrl())), pauses);

  it.each<[string, because: RegExp, open: () => FenceStore | Promise<FenceStore>]>([
    ['check, then write', PAUSED, () => checkThenWrite(postgres.pool)],
    ['a check on a separate connection', PAUSED, () => separateConnection(postgres.pool)],
    ['affectedRows of MariaDB', OLDER, () => affectedRows(mariadb.pool)],
    ['tonumber in a Redis script', /beyond 2\^53/, () => redisToNumber(redis)],
    ['a guard before the handler, on two instances', PAUSED, guarded],
  ])('%s', async (_name, because, open) => {
    const { passed, cases } = await fenceConformance(await open(), {
      sessions: 30,
      gateMs: gateMsFor(because),
    });
    const failed = cases.filter((each) => each.failure !== undefined).map((each) => each.name);
    expect(passed).toBe(false);
    expect(failed).toContainEqual(expect.stringMatching(because));
  });
});
