import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Redis } from 'ioredis';
import { createPool, type Pool as MysqlPool } from 'mysql2/promise';
import pg from 'pg';
import { mysqlFence, postgresFence } from '../../lib/fencing/index.ts';
import { fenceConformance, type FenceStore } from '../../lib/testing/fencing.ts';
import type { DatabaseServer } from '../support/databases/database-server.ts';
import { startMariadb } from '../support/databases/mariadb-server.ts';
import { createPostgresDatabase, startPostgres } from '../support/databases/postgres-server.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { ACCOUNT_DDL } from './support/account-stores.ts';
import { httpStore, startGuardedInstance, type Pauses } from './support/http-resource.ts';
import { affectedRows, redisToNumber } from './support/wrong-other-stores.ts';
import {
  checkThenWrite,
  noHolder,
  numberToken,
  separateConnection,
} from './support/wrong-postgres-stores.ts';

// A kit that fails no wrong store proves nothing. Each of these is a fence people write; each must fail, in every run.

const RUNS = 10;

const PAUSED = /paused between/;
const OLDER = /older (claim|write) is refused/;

/** A store that is wrong here lets the newer holder through at once, however slow the machine; others wait for the gate. */
const gateMsFor = (because: RegExp): number => (because === PAUSED ? 20_000 : 50);

describe('the conformance kit fails', () => {
  const pauses: Pauses = new Map();
  let postgres: DatabaseServer;
  let mariadb: DatabaseServer;
  let redisServer: RedisServer;
  let pool: pg.Pool;
  let mysql: MysqlPool;
  let redis: Redis;
  const apps: INestApplication[] = [];

  beforeAll(async () => {
    [postgres, mariadb, [redisServer]] = (await Promise.all([
      startPostgres(),
      startMariadb(),
      startRedisServers(1),
    ])) as [DatabaseServer, DatabaseServer, [RedisServer]];
    const url = await createPostgresDatabase(postgres, `wrong_${Date.now()}_${process.pid}`);
    pool = new pg.Pool({ connectionString: url, max: 40 });
    // Connections that end with the server at the very end.
    await pool.query(ACCOUNT_DDL.postgresql);
    await pool.query(postgresFence(pool).ddl());
    pool.on('error', () => undefined);
    mysql = createPool({ uri: mariadb.url, connectionLimit: 40 });
    await mysql.query(ACCOUNT_DDL.mysql.replace('TABLE', 'TABLE IF NOT EXISTS'));
    await mysql.query(mysqlFence(mysql).ddl());
    redis = new Redis(redisServer.url);
    apps.push(
      await startGuardedInstance(pool, pauses, false),
      await startGuardedInstance(pool, pauses, true),
      await startGuardedInstance(pool, pauses, true),
    );
  }, 180_000);

  afterAll(async () => {
    redis?.disconnect();
    await Promise.all(apps.map((app) => app.close()));
    await Promise.all([pool?.end(), mysql?.end()]);
    await Promise.all([postgres?.stop(), mariadb?.stop(), redisServer?.stop()]);
  });

  const wrong: Record<string, [store: () => FenceStore | Promise<FenceStore>, because: RegExp]> = {
    'check, then write': [() => checkThenWrite(pool), PAUSED],
    'a check on a separate connection': [() => separateConnection(pool), PAUSED],
    'tokens as JavaScript numbers': [() => numberToken(pool), /beyond 2\^53/],
    'a fence without holders': [() => noHolder(pool), /same number/],
    'affectedRows of MariaDB': [() => affectedRows(mysql), OLDER],
    'tonumber in a Redis script': [() => redisToNumber(redis), /beyond 2\^53/],
    'a guard that remembers in the process': [
      async () => httpStore([await apps[0]!.getUrl()], pauses),
      PAUSED,
    ],
    'a guard before the handler, on two instances': [
      async () => httpStore([await apps[1]!.getUrl(), await apps[2]!.getUrl()], pauses),
      PAUSED,
    ],
  };

  it.each(Object.entries(wrong))(
    '%s, in every run',
    async (_name, [open, because]) => {
      const store = await open();
      for (let run = 0; run < RUNS; run += 1) {
        const { passed, cases } = await fenceConformance(store, {
          sessions: 30,
          gateMs: gateMsFor(because),
        });
        const failed = cases.filter((each) => each.failure !== undefined).map((each) => each.name);
        expect(passed).toBe(false);
        expect(failed).toContainEqual(expect.stringMatching(because));
      }
    },
    120_000,
  );
});
