import { fragmentNameOf } from './pages.ts';

/** What a block without imports leaves to its reader: the package, Nest and drivers. */
const IMPORTS = `
import { ConflictException, Controller, Get, Inject, Injectable, Logger, Module, Param, Post, Put, UseFilters, Body } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { Redis } from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import { Transactional, TransactionHost } from '@nestjs-cls/transactional';
import {
  Fenced, FencingToken, FencingTokenHeader, LockService, RedlockModule, LockExceptionFilter, LockSignal, lockSignal, fencingToken, ClientSignal, REDLOCK_NODES, fencingTokenHeader, inClsTransaction,
  isRedlockError, parseFencingTokenHeader, RedlockError, type ReceivedFencingToken, REDLOCK_DEFAULTS, FENCING_TOKEN_HEADER,
  type LockEvent, type RedlockModuleOptions, type RedlockOptionsFactory, type TokenSource, type TokenRequest,
} from 'nestjs-fenced-lock';
import {
  Fence, isStaleTokenError, postgresFence, postgresTokenSource, redisFence, sqliteFence, type PostgresFence, type RedisFence,
} from 'nestjs-fenced-lock/fencing';
import { assertFenceConformance, createFencingToken, createMemoryNodes, occupy, fenceConformance, MemoryLockNode, MemoryLockServer, type FenceStore } from 'nestjs-fenced-lock/testing';
`;

/** The objects that every application has, which {@link SURROUNDINGS_FILE} makes. */
const OBJECTS = `
import { app, codeOfOthers, database, expect, fence, locks, logger, metrics, nodes, payments, pool, redis, refusals, RefundService, seats, Surroundings, token, work } from '../surroundings.js';
declare const error: unknown;
declare const payment: string;
declare const store: FenceStore;
`;

/** An application on a real PostgreSQL and a real Redis, with its locks in memory. Beside the folders of the pages. */
export const SURROUNDINGS_FILE = `
import type { INestApplication, Type } from '@nestjs/common';
import { Logger } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import Database from 'better-sqlite3';
import { expect } from 'expect';
import { Redis } from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import { FencingToken, LockService, RedlockModule } from 'nestjs-fenced-lock';
import { Fence, postgresFence, sqliteFence } from 'nestjs-fenced-lock/fencing';
import { createFencingToken, createMemoryNodes } from 'nestjs-fenced-lock/testing';

export { expect };
export class RefundService {
  async refund(_payment: string): Promise<void> {}
  async refundBookingOf(_key: string, _holder: string): Promise<void> {}
}
export const pool = new Pool({ connectionString: process.env.DATABASE_URL });
export const fence = postgresFence(pool);
export const redis = new Redis(process.env.REDIS_URL!, { lazyConnect: true });
export const database = new Database(':memory:');
export const nodes = createMemoryNodes(3);
export const logger = new Logger();
export const metrics = { increment: (_name: string): void => {} };
export const refusals = { inc: (): void => {} };
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
  readonly fence!: Fence<PoolClient>;
  readonly logger!: Logger;
  readonly pool!: Pool;
  readonly pricing!: { quote(seat: unknown): Promise<number> };
  readonly refunds!: RefundService;
  readonly seats!: { find(id: string): Promise<unknown>; assign(id: string, customer: string): Promise<void> };
  readonly transactionHost!: { readonly tx: PoolClient };
  urlOf(id: string): string {
    return id;
  }
}

/** Starts an application with this provider: what stands above its methods is checked there. */
export async function boot(provider: Type): Promise<void> {
  const locking = RedlockModule.forRoot({ nodes: createMemoryNodes(1), fence });
  const providers = [{ provide: Surroundings, useClass: provider }];
  const root = { module: class {}, imports: [locking], providers };
  const application = await NestFactory.createApplicationContext(root as never, { logger: false, abortOnError: false });
  await application.close();
}

export async function start(): Promise<void> {
  app = await NestFactory.create(RedlockModule.forRoot({ nodes }) as never, { logger: false });
  await app.init();
  locks = app.get(LockService);
  database.exec(sqliteFence(database).ddl());
  database.exec('CREATE TABLE seat (id text PRIMARY KEY, owner text)');
  await pool.query('CREATE TABLE seat (id text PRIMARY KEY, owner text, price integer)');
}

/** Nothing of one fragment is left when the next one runs. */
export async function reset(): Promise<void> {
  await pool.query('DROP TABLE IF EXISTS redlock_fence');
  await pool.query(fence.ddl());
  token = createFencingToken('seat:12A', Date.now() * 1_000);
}

export async function stop(): Promise<void> {
  await app.close();
  await Promise.all([pool.end(), redis.quit()]);
  database.close();
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

/** What an example in a docstring may leave out although it has imports. */
export const GIVEN_TO_EXAMPLES = `
declare const token: import('nestjs-fenced-lock').FencingToken;
declare const pool: import('pg').Pool;
`;

const MEMBERS = /^(?:@\w+\((?!\s*\{\s*imports)|constructor\(|async \w+\()/;
const PROPERTIES = /^\w+: /;

const withoutComments = (code: string): string => code.replace(/^(?:\/\/[^\n]*\n)+/, '');

/** A block that is no module of its own, as one: statements, members of a class, properties of an object, or the end of a try. */
export function moduleOf(code: string): string {
  const ownImports = [...code.matchAll(/^import \{ (.+) \} from .+\n/gm)];
  if (/^import /m.test(code) && fragmentNameOf(code) === undefined) return code;
  let imports = IMPORTS;
  for (const [, names] of ownImports)
    for (const name of names!.split(', '))
      imports = imports.replace(new RegExp(`\\b${name}\\b, ?`), '');
  const rest = code.replaceAll(/^import .+\n/gm, '');
  return imports + ownImports.map(([line]) => line).join('') + OBJECTS + embed(rest);
}

/** How the module of an excerpt runs: statements as they are, members of a class in a provider of an application. */
export function runnerOf(code: string): string | undefined {
  const module = moduleOf(code);
  if (module.includes('export async function run()')) return 'run()';
  return module.includes('export class Example extends') ? 'boot(Example)' : undefined;
}

function embed(code: string): string {
  const start = withoutComments(code);
  if (/^(?:export )?class /m.test(code)) return code;
  if (start.startsWith('} catch'))
    return `async function example(this: Surroundings) {\ntry {\n${code}}\n`;
  if (MEMBERS.test(start)) return `export class Example extends Surroundings {\n${code}}\n`;
  if (PROPERTIES.test(start)) return `export const example = ({\n${code}});\n`;
  return `export async function run() {\n${code}}\n`;
}
