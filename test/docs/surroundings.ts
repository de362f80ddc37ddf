/** Code that excerpts and examples leave out, for the compiler. Beside the folders of the pages. */
export const SURROUNDINGS_FILE = `
import type { INestApplication } from '@nestjs/common';
import { Logger } from '@nestjs/common';
import type { MikroORM } from '@mikro-orm/core';
import Database from 'libsql';
import type { HealthCheckService } from '@nestjs/terminus';
import { expect } from 'expect';
import { Redis } from 'ioredis';
import type { Knex } from 'knex';
import type { Kysely } from 'kysely';
import { Pool, type PoolClient } from 'pg';
import type { FencingToken, LockService } from 'nestjs-fenced-lock';
import { postgresFence, type Fence } from 'nestjs-fenced-lock/fencing';
import type { OnceService } from 'nestjs-fenced-lock/once';
import type { DataSource } from 'typeorm';
import type { LockHealthIndicator } from 'nestjs-fenced-lock/terminus';

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
export declare const app: INestApplication;
export declare const locks: LockService;
export declare const token: FencingToken;
export declare const dataSource: DataSource;
export declare const prisma: PrismaClient;
export declare const knex: Knex;
export declare const kysely: Kysely<{ seat: { id: string; customer: string } }>;
export declare const orm: MikroORM;
export class Seat {}
export const work = async (_argument?: unknown): Promise<void> => {};
export const codeOfOthers = work;

/** A provider, of which a page shows some members. */
export class Surroundings {
  readonly locks!: LockService;
  fence!: Fence<PoolClient>;
  readonly health!: HealthCheckService;
  readonly lockHealth!: LockHealthIndicator;
  readonly logger!: Logger;
  readonly once!: OnceService<PoolClient>;
  readonly pool!: Pool;
  payments!: { charge(customer: string): Promise<void> };
  provider!: { charge(order: string, options: { idempotencyKey: string }): Promise<string> };
  pricing!: { quote(seat: unknown): Promise<number> };
  readonly refunds!: RefundService;
  seats!: { find(id: string): Promise<unknown>; assign(id: string, customer: string): Promise<void> };
  transactionHost!: { readonly tx: PoolClient };
  urlOf(id: string): string {
    return id;
  }
}

`;

/**
 * Names that blocks with imports may leave out: what test runners declare, modules of the application, and the client that Prisma generates.
 */
export const AMBIENT = `
declare class AppModule {}
declare class DatabaseModule {}
declare const it: typeof import('@jest/globals').it;
declare const expect: typeof import('@jest/globals').expect;
declare const beforeEach: typeof import('@jest/globals').beforeEach;
declare const afterEach: typeof import('@jest/globals').afterEach;
declare const jest: typeof import('@jest/globals').jest;
declare const vi: typeof jest;
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
  mongoose: `{
  interface ClientSession {
    withTransaction<Result>(work: () => Promise<Result>, options?: object): Promise<Result>;
    endSession(): Promise<void>;
  }
  interface Collection<Row> {
    bulkWrite(writes: object[], options?: object): Promise<unknown>;
    findOne(filter: object, options?: object): Promise<Row | null>;
    updateOne(filter: object, update: object, options?: object): Promise<{ readonly matchedCount: number }>;
  }
  interface Connection {
    collection<Row>(name: string): Collection<Row>;
    startSession(): Promise<ClientSession>;
    asPromise(): Promise<this>;
    close(): Promise<void>;
  }
  function createConnection(url: string): Connection;
}`,
  '@nestjs/config': `{
  class ConfigModule {}
  class ConfigService { getOrThrow<Value>(name: string): Value }
}`,
  // The plug as 4.6.0 declares it.
  'node-cron': `{
  interface RunCoordinator {
    shouldRun(key: string, ttlMs: number): boolean | Promise<boolean>;
    onComplete?(key: string): void | Promise<void>;
  }
  function setRunCoordinator(coordinator: RunCoordinator | undefined): void;
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
