import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import pg from 'pg';
import { Fence, postgresFence, postgresTokenSource } from '../../lib/fencing/index.ts';
import { Fenced, FencingToken, RedlockModule } from '../../lib/index.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';
import { startFencedDatabase, type FencedDatabase } from './support/fenced-database.ts';

@Injectable()
class Seats {
  constructor(private readonly fence: Fence<pg.PoolClient>) {}

  /** Appends a mark, from a read that the write depends on. */
  @Fenced('seat:{0}', { wait: '25s' })
  async append(id: string, mark: string, @FencingToken() token?: FencingToken): Promise<number> {
    await this.write(id, (before) => before + mark, token);
    return token!.value;
  }

  async write(id: string, change: (before: string) => string, token?: FencingToken): Promise<void> {
    await this.fence.transaction(token, async (tx) => {
      const { rows } = await tx.query('SELECT owner FROM seat WHERE id = $1', [id]);
      const after = change(rows[0].owner ?? '');
      await tx.query('UPDATE seat SET owner = $2 WHERE id = $1', [id, after]);
    });
  }
}

describe('two applications over Redis whose tokens PostgreSQL issues', () => {
  let servers: RedisServer[];
  let database: FencedDatabase;
  const pools: pg.Pool[] = [];
  // The servers may be shared with other specs.
  const keyPrefix = `lock:${randomUUID()}:`;
  let id: string;
  let count = 0;

  beforeAll(async () => {
    [servers, database] = await Promise.all([
      startRedisServers(3),
      startFencedDatabase('postgres_tokens'),
    ]);
  }, 120_000);
  afterAll(async () => {
    await Promise.all((servers ?? []).map((server) => server.stop()));
    await database?.stop();
  });
  afterEach(async () => {
    await closeAll();
    await Promise.all(pools.splice(0).map((pool) => pool.end()));
  });
  beforeEach(async () => {
    id = String((count += 1));
    await database.pool.query('INSERT INTO seat (id) VALUES ($1)', [id]);
  });

  async function start(): Promise<TestingModule> {
    const pool = new pg.Pool({ connectionString: database.url });
    pool.on('error', () => undefined);
    pools.push(pool);
    const module = await Test.createTestingModule({
      imports: [
        RedlockModule.forRootAsync({
          useFactory: () => ({
            nodes: servers.map(({ url }) => url),
            restartGuard: false,
            keyPrefix,
            tokens: postgresTokenSource(pool),
            fence: postgresFence(pool),
          }),
        }),
      ],
      providers: [Seats],
    })
      .setLogger(silentLogger)
      .compile();
    return closeLater(await module.init());
  }

  const owner = async (): Promise<string> =>
    (await database.pool.query('SELECT owner FROM seat WHERE id = $1', [id])).rows[0].owner;

  it('count 1, 2, 3 … in one row for both, and lose no update', async () => {
    const seats = [(await start()).get(Seats), (await start()).get(Seats)];
    const marks = ['a', 'b', 'c', 'd', 'e', 'f'];
    const tokens = await Promise.all(
      marks.map((mark, index) => seats[index % 2]!.append(id, mark)),
    );
    expect(new Set(tokens)).toEqual(new Set([1, 2, 3, 4, 5, 6]));
    // Marks stand in the order of their tokens.
    const ordered = tokens.map((_token, index) => marks[tokens.indexOf(index + 1)]);
    await expect(owner()).resolves.toBe(ordered.join(''));
  });

  it('are not given when PostgreSQL is not there: the lock is let go of', async () => {
    const module = await start();
    await pools[0]!.end();
    pools.length = 0;
    await expect(module.get(Seats).append(id, 'a')).rejects.toThrow(/pool/i);
    const other = await start();
    await expect(other.get(Seats).append(id, 'b')).resolves.toBe(1);
  });
});
