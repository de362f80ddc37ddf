import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type * as Main from '../../lib/index.ts';
import type * as Core from '../../lib/locks/index.ts';
import type * as Postgres from '../../lib/postgres/index.ts';
import { answerQuestions, programSettings } from '../../test/support/program.ts';

export interface FunctionSettings {
  readonly urls: readonly string[];
  readonly ttlMs: number;
  /** Starts a Nest application with the module in place of `createLocks`. */
  readonly isNest?: boolean;
}

/** What a step took, in ms: that of the processor does not depend on what else the machine does. */
export interface StepTime {
  readonly ms: number;
  readonly cpuMs: number;
}

export interface StartTimes {
  /** To load the package, and with it ioredis; in a Nest application also that. */
  readonly load: StepTime;
  readonly start: StepTime;
  readonly firstLock: StepTime;
}

/** The event for which the function is called. */
export interface FunctionCall {
  readonly key: string;
  readonly workMs?: number;
}

export interface CallResult {
  /** `locked`, or the code of the error. */
  readonly outcome: string;
  readonly ms: number;
}

/** The build that users install. */
const load = (entry: string): Promise<any> =>
  import(pathToFileURL(`dist/esm/${entry}index.js`).href);

let since = { ms: performance.now(), cpu: process.cpuUsage() };
/** The time since it was called before. */
const split = (): StepTime => {
  const { user, system } = process.cpuUsage(since.cpu);
  const ms = performance.now() - since.ms;
  since = { ms: performance.now(), cpu: process.cpuUsage() };
  return { ms, cpuMs: (user + system) / 1_000 };
};

const { urls, ttlMs, isNest = false } = programSettings<FunctionSettings>();

async function nodeOf(url: string) {
  if (url.startsWith('redis')) return url;
  const { postgresNode } = (await load('postgres/')) as typeof Postgres;
  const { default: pg } = await import('pg');
  // It replaces no connection that the network forgot: that is left to the locks.
  const pool = new pg.Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 });
  pool.on('error', () => undefined);
  return postgresNode(pool);
}

/** The locks of a Nest application that has nothing else. */
async function startNest() {
  const { RedlockModule, LockService } = (await load('')) as typeof Main;
  const { Module } = await import('@nestjs/common');
  const { NestFactory } = await import('@nestjs/core');
  const nodes = await Promise.all(urls.map(nodeOf));
  const loaded = split();
  class AppModule {}
  Module({ imports: [RedlockModule.forRoot({ nodes, ttl: ttlMs, restartGuard: false })] })(
    AppModule,
  );
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  return { loaded, locks: app.get(LockService) };
}

async function startCore() {
  const { createLocks } = (await load('locks/')) as typeof Core;
  const nodes = await Promise.all(urls.map(nodeOf));
  const loaded = split();
  const logger = { log: () => undefined, warn: () => undefined, error: () => undefined };
  return {
    loaded,
    locks: await createLocks({ nodes, ttl: ttlMs, restartGuard: false, logger }),
  };
}

const { loaded, locks } = await (isNest ? startNest() : startCore());
const start = split();
await locks.withLock('first', () => undefined);
const times: StartTimes = { load: loaded, start, firstLock: split() };

answerQuestions<FunctionCall>(times, async ({ key, workMs = 0 }): Promise<CallResult> => {
  const startedAtMs = performance.now();
  const outcome = await locks
    .withLock(key, () => (workMs > 0 ? sleep(workMs) : undefined), { wait: 0 })
    .then(
      () => 'locked',
      (error: Error & { code?: string }) => error.code ?? error.message,
    );
  return { outcome, ms: performance.now() - startedAtMs };
});
