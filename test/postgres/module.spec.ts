import 'reflect-metadata';
import { Inject, Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { PGlite } from '@electric-sql/pglite';
import { afterAll, afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Fence, pgliteFence, sqliteFence } from '../../lib/fencing/index.ts';
import {
  REDLOCK_NODES,
  RedlockModule,
  LockService,
  type RedlockModuleOptions,
} from '../../lib/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { startPglite } from '../support/databases/start-pglite.ts';
import { closeAll, closeLater } from '../nest/support/applications.ts';
import { Recorder } from '../nest/support/recorder.ts';

let lite: PGlite;
beforeAll(async () => {
  lite = await startPglite();
});
afterEach(closeAll);
afterAll(() => lite.close());

@Injectable()
class Seats {
  constructor(
    @Inject(Fence) readonly fence: Fence,
    @Inject(LockService) readonly locks: LockService,
  ) {}
}

async function start(options: RedlockModuleOptions) {
  const recorder = new Recorder();
  const module = await Test.createTestingModule({
    imports: [RedlockModule.forRoot(options)],
    providers: [Seats],
  })
    .setLogger(recorder)
    .compile();
  const seats = closeLater(await module.init()).get(Seats);
  return { seats: Object.assign(seats, { close: () => module.close() }), recorder };
}

/** The statements that a piece of work sends to the database. */
async function statementsOf(work: () => Promise<unknown>): Promise<number> {
  const query = jest.spyOn(lite, 'query');
  try {
    await work();
    return query.mock.calls.length;
  } finally {
    query.mockRestore();
  }
}

describe('RedlockModule over one database', () => {
  it('does not start without the tables, and says how to make them', async () => {
    await expect(start({ nodes: [postgresNode(lite)] })).rejects.toThrow(/ddl\(\)/);
    await lite.exec(postgresNode(lite).ddl());
    await lite.exec(postgresNode(lite).ddl());
  });

  it('has the fence of that database, where none is given, and a claim of a lock costs no statement', async () => {
    const { seats } = await start({ nodes: [postgresNode(lite)] });
    const { fence, locks } = seats;
    const plain = await statementsOf(() =>
      locks.withLock('seat', () => undefined, { release: 'confirmed' }),
    );
    const claimed = await statementsOf(() =>
      locks.withLock('seat', () => undefined, { release: 'confirmed', claim: true }),
    );
    expect(claimed).toBe(plain);
    const late = await locks.withLock('seat', ({ token }) => token, { claim: true });
    await locks.withLock('seat', () => undefined);
    await expect(fence.claim(late)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('claims by a statement where tokens come from another source, or the fence is another one', async () => {
    let tokens = 0;
    const source = { issue: async () => Date.now() * 1_000 + (tokens += 1_000_000) };
    const own = pgliteFence(lite);
    const { seats } = await start({ nodes: [postgresNode(own)], fence: own, tokens: source });
    const token = await seats.locks.withLock('counted', (lock) => lock.token, { claim: true });
    const { rows } = await lite.query('SELECT token FROM redlock_fence WHERE resource = $1', [
      'counted',
    ]);
    expect(rows).toEqual([{ token: token.value }]);
    await closeAll();
    const Database = (await import('libsql')).default;
    const file = new Database(':memory:');
    const elsewhere = sqliteFence(file);
    file.exec(elsewhere.ddl());
    const other = await start({ nodes: [postgresNode(lite)], fence: elsewhere });
    expect(other.seats.fence).toBe(elsewhere);
    const there = await other.seats.locks.withLock('there', (lock) => lock.token, { claim: true });
    expect(file.prepare('SELECT token FROM redlock_fence').all()).toEqual([{ token: there.value }]);
    file.close();
  });

  it('keeps that fence where a test replaces the nodes', async () => {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot({ nodes: [postgresNode(lite)] })],
      providers: [Seats],
    })
      .overrideProvider(REDLOCK_NODES)
      .useValue(createMemoryNodes(1))
      .compile();
    const { fence, locks } = closeLater(await module.init()).get(Seats);
    const token = await locks.withLock('replaced', (lock) => lock.token, { claim: true });
    const newer = { value: token.value + 1, keys: ['replaced'], holder: 'newer' };
    await fence.claim(newer);
    await expect(fence.claim(token)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });

  it('gives two applications over one node a node each', async () => {
    const node = postgresNode(lite);
    const [one, two] = [await start({ nodes: [node] }), await start({ nodes: [node] })];
    await one.seats.locks.withLock('seat', async () => {
      await expect(
        two.seats.locks.withLock('seat', () => undefined, { wait: 0 }),
      ).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    });
    await one.seats.close();
    await two.seats.locks.withLock('seat', () => undefined);
  });
});
