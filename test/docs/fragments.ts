/**
 * What a block without imports leaves to its reader: the package, Nest, and the objects that every application has. A block that
 * imports what it uses gets nothing of this.
 */
const SURROUNDINGS = `
import { ConflictException, Controller, Get, Inject, Injectable, Logger, Module, Param, Post, Put, UseFilters, Body, type INestApplication } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import type { Database } from 'better-sqlite3';
import { Redis } from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import { TransactionHost } from '@nestjs-cls/transactional';
import {
  Fenced, FencingToken, FencingTokenHeader, LockService, RedlockModule, LockExceptionFilter, LockSignal, lockSignal, fencingToken, ClientSignal, REDLOCK_NODES, fencingTokenHeader, inClsTransaction,
  isRedlockError, parseFencingTokenHeader, RedlockError, type ReceivedFencingToken, REDLOCK_DEFAULTS, FENCING_TOKEN_HEADER,
  type LockEvent, type RedlockModuleOptions, type RedlockOptionsFactory, type TokenSource, type TokenRequest,
} from 'nestjs-fenced-lock';
import {
  Fence, isStaleTokenError, postgresFence, postgresTokenSource, redisFence, type PostgresFence, type RedisFence, type SqliteFence,
} from 'nestjs-fenced-lock/fencing';
import { assertFenceConformance, createFencingToken, createMemoryNodes, occupy, fenceConformance, MemoryLockNode, MemoryLockServer, type FenceStore } from 'nestjs-fenced-lock/testing';

declare class RefundService {
  refund(payment: string): Promise<void>;
  refundBookingOf(key: string, holder: string): Promise<void>;
}
declare class Surroundings {
  urlOf(id: string): string;
  readonly locks: LockService;
  readonly fence: Fence<PoolClient>;
  readonly logger: Logger;
  readonly pool: Pool;
  readonly refunds: RefundService;
}
declare const app: INestApplication;
declare const nodes: MemoryLockNode[];
declare const pool: Pool;
declare const fence: PostgresFence<PoolClient> & Pick<SqliteFence<Database>, 'advanceSync'>;
declare const locks: LockService;
declare const token: FencingToken;
declare const redis: Redis;
declare const database: Database;
declare const logger: Logger;
declare const metrics: { increment(name: string): void };
declare const refusals: { inc(): void };
declare const payments: RefundService;
declare const payment: string;
declare const error: unknown;
declare const seats: { book(id: string, customer: string): Promise<string>; write(id: string, token: FencingToken): Promise<void> };
declare const store: FenceStore;
declare function work(argument?: unknown): Promise<void>;
declare function codeOfOthers(transaction: unknown): Promise<void>;
`;

/**
 * What blocks with imports may leave out: what test runners declare, three names that every application has, and the shapes of
 * packages that recipes use and this repository does not install.
 */
export const AMBIENT = `
declare const pool: import('pg').Pool;
declare const token: import('nestjs-fenced-lock').FencingToken;
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
declare module '@mikro-orm/core' {
  class MikroORM { readonly em: any }
}
declare module 'postgres' {
  interface TransactionSql { unsafe(text: string, parameters: unknown[]): Promise<Record<string, unknown>[]> }
  interface Sql { begin<Result>(options: string, work: (tx: TransactionSql) => Promise<Result>): Promise<Result> }
  export default function postgres(url: string): Sql;
}
declare module 'sequelize' {
  interface Transaction { rollback(): Promise<void> }
  namespace Transaction { enum ISOLATION_LEVELS { SERIALIZABLE = 'SERIALIZABLE' } }
  class Sequelize {
    constructor(url: string);
    query(text: string, options: { bind: unknown[]; transaction: Transaction }): Promise<[Record<string, unknown>[], unknown]>;
    transaction<Result>(options: { isolationLevel?: string }, work: (tx: Transaction) => Promise<Result>): Promise<Result>;
  }
}
`;

const MEMBERS = /^(?:@\w+\((?!\s*\{\s*imports)|constructor\(|async \w+\()/;
const PROPERTIES = /^\w+: /;

/** A block that is no module of its own, as one: statements, members of a class, properties of an object, or the end of a try. */
export function moduleOf(code: string): string {
  if (/^import /m.test(code)) return code;
  return SURROUNDINGS + embed(code);
}

function embed(code: string): string {
  const start = code.replace(/^(?:\/\/[^\n]*\n)+/, '');
  if (/^(?:export )?class /m.test(code)) return code;
  if (start.startsWith('} catch'))
    return `async function example(this: Surroundings) {\ntry {\n${code}}\n`;
  if (MEMBERS.test(start)) return `class Example extends Surroundings {\n${code}}\n`;
  if (PROPERTIES.test(start)) return `export const example = ({\n${code}});\n`;
  return `{\n${code}}\n`;
}
