import 'reflect-metadata';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import Database from 'better-sqlite3';
import { Fence, sqliteFence } from '../../lib/fencing/index.ts';
import { Fenced, FencingToken, RedlockModule } from '../../lib/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import {
  closeAll,
  closeLater,
  redlockInMemory,
  silentLogger,
  startModule,
} from './support/applications.ts';

type Connection = InstanceType<typeof Database>;

function openSeats(): { database: Connection; fence: Fence<Connection> } {
  const database = new Database(':memory:');
  closeLater({ close: async () => database.close() });
  const fence = sqliteFence(database);
  database.exec(fence.ddl());
  database.exec('CREATE TABLE seat (id TEXT PRIMARY KEY, owner TEXT)');
  return { database, fence };
}

let seenBeforeBody: unknown;

@Injectable()
class Seats {
  constructor(private readonly fence: Fence<Connection>) {}

  @Fenced((id: string) => `seat:${id}`)
  async book(id: string, owner: string, @FencingToken() token?: FencingToken): Promise<unknown> {
    return this.fence.transaction(token, (database) => {
      database.prepare('INSERT INTO seat VALUES (?, ?)').run(id, owner);
      return database
        .prepare('SELECT token, holder FROM redlock_fence WHERE resource = ?')
        .all(`seat:${id}`);
    });
  }

  @Fenced((id: string) => `seat:${id}`, { claim: true })
  async claimed(
    id: string,
    database: Connection,
    @FencingToken() token?: FencingToken,
  ): Promise<number> {
    seenBeforeBody = database
      .prepare('SELECT token, holder FROM redlock_fence WHERE resource = ?')
      .get(`seat:${id}`);
    return token!.value;
  }
}

describe('the fence of the module', () => {
  afterEach(closeAll);

  it('is injected by its class and takes the token of the method', async () => {
    const { fence, database } = openSeats();
    const module = await startModule({ providers: [Seats] }, { fence });
    const [row] = (await module.get(Seats).book('12A', 'ana')) as {
      token: number;
      holder: string;
    }[];
    expect(row?.token).toBeGreaterThan(1_700_000_000_000_000);
    expect(database.prepare('SELECT owner FROM seat').all()).toEqual([{ owner: 'ana' }]);
  });

  it('is injected from async options, too', async () => {
    const { fence } = openSeats();
    const imported = RedlockModule.forRootAsync({
      useFactory: () => ({ nodes: createMemoryNodes(3), restartGuard: false, fence }),
    });
    const module = closeLater(
      await Test.createTestingModule({ imports: [imported], providers: [Seats] })
        .setLogger(silentLogger)
        .compile(),
    );
    await module.init();
    expect(module.get(Fence)).toBe(fence);
    await module.get(Seats).book('12A', 'ana');
  });

  it('has the token before the body of a method with claim', async () => {
    const { fence, database } = openSeats();
    const module = await startModule({ providers: [Seats] }, { fence });
    const token = await module.get(Seats).claimed('12A', database);
    expect(seenBeforeBody).toEqual({ token, holder: expect.any(String) });
  });

  it('refuses a stale call with claim before its body', async () => {
    const { fence, database } = openSeats();
    const module = await startModule({ providers: [Seats] }, { fence });
    seenBeforeBody = 'not called';
    await fence.claim({
      value: 9_000_000_000_000_000n,
      keys: ['seat:12A'],
      holder: 'from the future',
    });
    await expect(module.get(Seats).claimed('12A', database)).rejects.toMatchObject({
      code: 'STALE_TOKEN',
      currentToken: '9000000000000000',
    });
    expect(seenBeforeBody).toBe('not called');
  });

  it('says what is missing when there is none, and the body does not run', async () => {
    const { database } = openSeats();
    const module = closeLater(
      await Test.createTestingModule({ imports: [redlockInMemory()], providers: [Seats] })
        .setLogger(silentLogger)
        .compile(),
    );
    await module.init();
    seenBeforeBody = 'not called';
    await expect(module.get(Seats).claimed('12A', database)).rejects.toThrow(
      /forRoot\(\{ nodes, fence/,
    );
    await expect(module.get(Seats).book('12A', 'ana')).rejects.toMatchObject({
      code: 'FENCED_USAGE',
    });
    expect(seenBeforeBody).toBe('not called');
  });
});
