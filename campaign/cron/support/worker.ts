import 'reflect-metadata';
import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import pg from 'pg';
import { postgresFence, type FencingToken } from '../../../lib/fencing/index.ts';
import { Fenced, LockService, RedlockModule } from '../../../lib/index.ts';
import { postgresNode } from '../../../lib/postgres/index.ts';
import { FencedCron, type CronRun } from '../../../lib/schedule/index.ts';
import { answerQuestions, programSettings } from '../../../test/support/program.ts';
import { INTERVAL_MS, type WorkerSettings } from './settings.ts';

const { redisUrl, databaseUrl, jobs, host } = programSettings<WorkerSettings>();
const pool = new pg.Pool({ connectionString: databaseUrl, max: 12 });
pool.on('error', () => undefined);
const fence = postgresFence(pool);
const INSERT = 'INSERT INTO effect (kind, job, scheduled, host) VALUES ($1, $2, $3, $4)';

/** The slow work outside of the database. */
const work = () => sleep(50 + Math.random() * 300);

@Injectable()
class Jobs {
  constructor(@Inject(LockService) readonly locks: LockService) {}
}

function addJob(
  name: string,
  method: (...args: any[]) => unknown,
  ...decorators: MethodDecorator[]
) {
  const descriptor: TypedPropertyDescriptor<any> = {
    value: method,
    writable: true,
    configurable: true,
  };
  for (const decorate of decorators) decorate(Jobs.prototype, name, descriptor);
  Object.defineProperty(Jobs.prototype, name, descriptor);
}

for (let job = 0; job < jobs; job += 1) {
  const expression = `${job % 10}-59/10 * * * * *`;
  const inLedger = async (run: CronRun<pg.PoolClient>) => {
    await work();
    const parameters = ['ledger', job, run.scheduled.getTime(), host];
    await run.commit((tx) => tx.query(INSERT, parameters));
  };
  addJob(
    `ledger${job}`,
    inLedger,
    FencedCron(expression, { name: `job-${job}`, missed: 'all' }) as MethodDecorator,
  );

  // The recipe without a ledger. Its timer fires at its time, or a little later, by the clock of this process.
  const byRecipe = async function (this: Jobs) {
    const sinceMs = (job % 10) * 1_000;
    const scheduled = Math.round((Date.now() - sinceMs) / INTERVAL_MS) * INTERVAL_MS + sinceMs;
    const token: FencingToken = this.locks.current()!.token;
    await work();
    await fence.transaction(token, (tx) => tx.query(INSERT, ['recipe', job, scheduled, host]));
  };
  const locked = Fenced(`recipe-${job}`, { onBusy: 'skip', minHold: '5s' });
  addJob(`recipe${job}`, byRecipe, locked as MethodDecorator, Cron(expression));
}

@Module({
  imports: [
    ScheduleModule.forRoot(),
    RedlockModule.forRoot({
      nodes: [redisUrl ?? postgresNode(fence)],
      fence,
      nodeTimeout: '2s',
    }),
  ],
  providers: [Jobs],
})
class AppModule {}

process.on('unhandledRejection', (error) => {
  process.stderr.write(`unhandled: ${String(error)}\n`);
  process.exit(7);
});
process.once('disconnect', () => process.exit());
await NestFactory.createApplicationContext(AppModule, { logger: false });
answerQuestions(undefined, () => Date.now());
