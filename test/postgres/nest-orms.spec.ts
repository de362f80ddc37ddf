import 'reflect-metadata';
import { Inject, Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { PrismaPg } from '@prisma/adapter-pg';
import { DataSource } from 'typeorm';
import { Fence, typeormFence } from '../../lib/fencing/index.ts';
import { Fenced, FencingToken, fencingToken, RedlockModule } from '../../lib/index.ts';
import { postgresNode } from '../../lib/postgres/index.ts';
import { openPrismaClient } from '../fencing/support/prisma-client.ts';
import { silentLogger } from '../nest/support/applications.ts';
import { startPgBouncer, type PgBouncer } from '../support/databases/pgbouncer.ts';
import { usePostgres } from '../support/databases/use-databases.ts';

/** The accounts in the database of an ORM: what a repository of an application does. */
interface Accounts {
  readonly fence: Fence;
  read(account: string): Promise<number>;
  write(transaction: any, account: string, amount: number): Promise<unknown>;
  close(): Promise<unknown>;
}

const ACCOUNTS = 'Accounts';

@Injectable()
class Deposits {
  constructor(
    private readonly fence: Fence,
    @Inject(ACCOUNTS) private readonly accounts: Accounts,
  ) {}

  /** Reads, lets `pause` pass, and writes one more. */
  @Fenced('account:{0}', { wait: '60s' })
  async deposit(
    account: string,
    pause: () => unknown = () => undefined,
    @FencingToken() token = fencingToken(),
  ): Promise<void> {
    const amount = await this.accounts.read(account);
    await pause();
    await this.fence.transaction(token, (transaction) =>
      this.accounts.write(transaction, account, amount + 1),
    );
  }
}

type Open = (url: string, poolSize: number) => Promise<Accounts>;

const openTypeorm: Open = async (url, poolSize) => {
  const source = await new DataSource({ type: 'postgres', url, poolSize }).initialize();
  return {
    fence: typeormFence(source),
    read: async (account) => {
      const rows = await source.query('SELECT text FROM account WHERE resource = $1', [account]);
      return Number(rows[0].text);
    },
    write: (manager, account, amount) =>
      manager.query('UPDATE account SET text = $2 WHERE resource = $1', [account, amount]),
    close: () => source.destroy(),
  };
};

const openPrisma: Open = async (connectionString, max) => {
  const adapter = new PrismaPg({ connectionString, max });
  const { fence, outside, close } = await openPrismaClient(adapter, 'postgresql');
  const [prisma] = outside as [any];
  return {
    fence,
    read: async (resource) =>
      Number((await prisma.account.findUniqueOrThrow({ where: { resource } })).text),
    write: (tx, resource, amount) =>
      tx.account.update({ where: { resource }, data: { text: String(amount) } }),
    close: async () => close(),
  };
};

const ALL: readonly (readonly [name: string, size: number, open: Open])[] = [
  ['TypeORM', 1, openTypeorm],
  ['TypeORM', 10, openTypeorm],
  ['Prisma', 1, openPrisma],
  ['Prisma', 10, openPrisma],
];

const database = usePostgres(async (pool) => {
  await pool.query(postgresNode(pool).ddl());
  await pool.query('CREATE TABLE account (resource text PRIMARY KEY, text text NOT NULL)');
});

describe.each(ALL)(
  'two applications with %s and a pool of %d, behind a pooler in transaction mode',
  (name, size, openAccounts) => {
    let pooler: PgBouncer;
    const opened: { close(): Promise<unknown> }[] = [];
    const startApplication = async () => {
      const accounts = await openAccounts(pooler.url, size);
      const application = await Test.createTestingModule({
        imports: [RedlockModule.forRoot({ nodes: [postgresNode(accounts.fence)] })],
        providers: [Deposits, { provide: ACCOUNTS, useValue: accounts }],
      })
        .setLogger(silentLogger)
        .compile();
      await application.init();
      opened.push(application, accounts);
      expect(application.get(Fence)).toBe(accounts.fence);
      return application.get(Deposits);
    };
    let ours: Deposits;
    let theirs: Deposits;

    beforeAll(async () => {
      pooler = await startPgBouncer(database.url, size);
      [ours, theirs] = [await startApplication(), await startApplication()];
    });
    afterAll(async () => {
      for (const each of opened) await each.close();
      await pooler?.stop();
    });

    const accountOf = async (purpose: string) => {
      const account = `${name} ${size} ${purpose}`;
      await database.pool.query("INSERT INTO account VALUES ($1, '0')", [account]);
      const amount = async () => {
        const sql = 'SELECT text FROM account WHERE resource = $1';
        return Number((await database.pool.query(sql, [account])).rows[0].text);
      };
      return { account, amount };
    };

    it('lose no update', async () => {
      const { account, amount } = await accountOf('of many');
      const calls = Array.from({ length: 10 }, () => [
        ours.deposit(account),
        theirs.deposit(account),
      ]);
      await Promise.all(calls.flat());
      expect(await amount()).toBe(20);
    });

    it('refuse the write of a method that was overtaken', async () => {
      const { account, amount } = await accountOf('of one that is late');
      const overtake = async () => {
        await database.pool.query(
          'UPDATE redlock_lease SET valid_until = clock_timestamp() WHERE resource = $1',
          [`lock:account:${account}`],
        );
        await theirs.deposit(account);
      };
      await expect(ours.deposit(account, overtake)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
      expect(await amount()).toBe(1);
    });
  },
);
