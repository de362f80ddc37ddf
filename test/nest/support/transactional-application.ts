// A process with `@Transactional` of nestjs-cls that prints what happened in it, step by step.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { Fenced, inClsTransaction, isRedlockError, RedlockModule } from '../../../lib/index.ts';
import { createMemoryNodes } from '../../../lib/testing/index.ts';

const journal: string[] = [];
const STEPS: Record<string, string> = { acquired: 'lock', released: 'unlock' };

/** Adapter that does what those of nestjs-cls do, without a database. */
const adapter = {
  connection: {},
  optionsFactory: () => ({
    async wrapWithTransaction(
      _options: unknown,
      work: () => Promise<unknown>,
      setTransaction: (client: object) => void,
    ) {
      journal.push('BEGIN');
      setTransaction({});
      const result = await work().catch((error: unknown) => {
        journal.push('ROLLBACK');
        throw error;
      });
      journal.push('COMMIT');
      return result;
    },
    getFallbackInstance: () => ({}),
  }),
};

@Injectable()
class Seats {
  @Fenced('seat', { nested: 'join' })
  @Transactional()
  async fencedAbove(): Promise<void> {
    journal.push('work');
  }

  @Transactional()
  @Fenced('seat')
  async fencedBelow(): Promise<void> {
    journal.push('work');
  }

  @Transactional()
  async callerInTransaction(): Promise<void> {
    await this.fencedAbove();
  }

  @Fenced('seat', { allowInTransaction: true })
  @Transactional(Propagation.RequiresNew)
  async independent(): Promise<void> {
    journal.push('work');
  }

  @Transactional()
  async callerOfIndependent(): Promise<void> {
    await this.independent();
    journal.push('outer work');
  }

  @Fenced('seat')
  @Transactional()
  async joining(): Promise<void> {
    await this.fencedAbove();
  }

  @Fenced('seat')
  @Transactional()
  async failing(): Promise<void> {
    throw new Error('changed our mind');
  }
}

@Module({
  imports: [
    ClsModule.forRoot({
      global: true,
      plugins: [new ClsPluginTransactional({ adapter })],
    }),
    RedlockModule.forRoot({
      nodes: createMemoryNodes(3),
      isInTransaction: inClsTransaction(TransactionHost),
      onEvent: ({ type }) => {
        const step = STEPS[type];
        if (step !== undefined) journal.push(step);
      },
    }),
  ],
  providers: [Seats],
})
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
const seats = app.get(Seats);
const played: Record<string, readonly string[]> = {};
for (const name of process.argv.slice(2)) {
  const call = seats[name as 'joining']();
  const outcome = await call.then(
    () => 'resolved',
    (error: Error) => (isRedlockError(error) ? `${error.code} ${error.where}` : error.message),
  );
  // A release that the call did not wait for belongs to it.
  const count = (step: string) => journal.filter((each) => each === step).length;
  while (count('lock') > count('unlock')) await new Promise((resolve) => setImmediate(resolve));
  played[name] = [...journal.splice(0), outcome];
}
await app.close();
process.stdout.write(JSON.stringify(played));
