/** An application on a real PostgreSQL and a real Redis. Beside the folders of the pages. */
export const SURROUNDINGS_FILE = `
import type { DynamicModule, INestApplication, ModuleMetadata, Type } from '@nestjs/common';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import Database from 'better-sqlite3';
import { expect } from 'expect';
import { Redis } from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import { FencingToken, LockService, RedlockModule, type RedlockModuleOptions } from 'nestjs-fenced-lock';
import { Fence, postgresFence, sqliteFence } from 'nestjs-fenced-lock/fencing';
import { createFencingToken } from 'nestjs-fenced-lock/testing';

export { expect };
export class RefundService {
  async refund(_payment: string): Promise<void> {}
  async refundBookingOf(_key: string, _holder: string): Promise<void> {}
}
export const pool = new Pool({ connectionString: process.env.DATABASE_URL });
export const fence = postgresFence(pool);
export const redis = new Redis(process.env.REDIS_URL!, { lazyConnect: true });
export const database = new Database(':memory:');
export const nodes = [process.env.REDIS_URL!];
export const logger = new Logger();
export const metrics = { increment: (_name: string): void => {} };
export const refusals = { inc: (): void => {} };
export const payment = 'payment of ana';
export const payments = new RefundService();
export const seats = {
  book: async (_id: string, _customer: string): Promise<string> => 'booked',
  write: async (_id: string, _token: FencingToken): Promise<void> => {},
};
export let app: INestApplication;
export let locks: LockService;
export let token: FencingToken;
export const work = async (_argument?: unknown): Promise<void> => {};
export const codeOfOthers = work;

/** A provider, of which a page shows some members. */
export class Surroundings {
  readonly locks!: LockService;
  fence!: Fence<PoolClient>;
  readonly logger!: Logger;
  readonly pool!: Pool;
  pricing!: { quote(seat: unknown): Promise<number> };
  readonly refunds!: RefundService;
  seats!: { find(id: string): Promise<unknown>; assign(id: string, customer: string): Promise<void> };
  transactionHost!: { readonly tx: PoolClient };
  urlOf(id: string): string {
    return id;
  }
}

/** An application with an excerpt as its provider. To the locks above it is another process. */
export async function boot<Provider>(
  provider: Type<Provider>,
  options: Partial<RedlockModuleOptions> = {},
  root: ModuleMetadata = {},
): Promise<{ app: INestApplication; provider: Provider }> {
  const locking = RedlockModule.forRoot({ nodes, fence, ...options });
  const all = { providers: [provider], ...root, imports: [locking, ...(root.imports ?? [])] };
  const app = await NestFactory.create({ module: class {}, ...all } as never, { logger: false, abortOnError: false });
  await app.init();
  return { app, provider: app.get(provider) };
}

/** Starts an application that imports this, and locks in it. */
export async function use(imported: DynamicModule, work?: () => Promise<void>): Promise<void> {
  const context = await NestFactory.createApplicationContext(imported as never, { logger: false, abortOnError: false });
  const done = await context.get(LockService).withLock('imported', () => 'done', { wait: '1m' });
  expect(done).toBe('done');
  await work?.();
  await context.close();
}

export async function valueOf(sql: string): Promise<unknown> {
  const { rows } = await pool.query({ text: sql, rowMode: 'array' });
  return rows[0]?.[0];
}

export async function start(): Promise<void> {
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, owner text, price integer)');
  await reset();
  app = await NestFactory.create(RedlockModule.forRoot({ nodes, fence }) as never, { logger: false });
  await app.init();
  locks = app.get(LockService);
  database.exec(sqliteFence(database).ddl());
  database.exec('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
}

/** Nothing of one fragment is left when the next one runs. */
export async function reset(): Promise<void> {
  await pool.query('DROP TABLE IF EXISTS redlock_fence; ' + fence.ddl());
  await pool.query("DELETE FROM seat; INSERT INTO seat VALUES ('12A')");
  token = createFencingToken('seat:12A', Date.now() * 1_000);
}

let hasFailed = false;
export async function step(name: string, file: string): Promise<void> {
  await reset();
  const { call } = await import(file);
  await call().then(
    () => console.log(name),
    (error: unknown) => {
      hasFailed = true;
      console.log(name, String(error));
    },
  );
}

export async function stop(): Promise<void> {
  await app.close();
  await Promise.all([pool.end(), redis.quit()]);
  database.close();
  // An excerpt that failed left its application open.
  if (hasFailed) process.exit();
}
`;

/**
 * What blocks with imports may leave out: what test runners declare, the root module, and the client that Prisma generates.
 */
export const AMBIENT = `
declare class AppModule {}
declare const it: typeof import('@jest/globals').it;
declare const expect: typeof import('@jest/globals').expect;
declare const beforeEach: typeof import('@jest/globals').beforeEach;
declare const afterEach: typeof import('@jest/globals').afterEach;
declare const adapter: object;
declare class PrismaClient {
  constructor(options: { adapter: object });
  $transaction(work: any, options?: any): Promise<any>;
  $queryRawUnsafe<Result>(sql: string, ...parameters: any[]): Promise<Result>;
  $executeRawUnsafe(sql: string, ...parameters: any[]): Promise<number>;
  readonly seat: { update(change: { where: object; data: object }): Promise<object> };
}
`;

/** The shapes of packages that pages and examples use, for a project in which they are not installed. */
export const SHAPES: Readonly<Record<string, string>> = {
  '@mikro-orm/core': `{
  class MikroORM { readonly em: any }
}`,
  postgres: `{
  interface TransactionSql { unsafe(text: string, parameters: unknown[]): Promise<Record<string, unknown>[]> }
  interface Sql { begin<Result>(options: string, work: (tx: TransactionSql) => Promise<Result>): Promise<Result> }
  export default function postgres(url: string): Sql;
}`,
  sequelize: `{
  interface Transaction { rollback(): Promise<void> }
  namespace Transaction { enum ISOLATION_LEVELS { SERIALIZABLE = 'SERIALIZABLE' } }
  class Sequelize {
    constructor(url: string);
    query(text: string, options: { bind: unknown[]; transaction: Transaction }): Promise<[Record<string, unknown>[], unknown]>;
    transaction<Result>(options: { isolationLevel?: string }, work: (tx: Transaction) => Promise<Result>): Promise<Result>;
  }
}`,
};
