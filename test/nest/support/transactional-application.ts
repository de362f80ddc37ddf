// An application with `@Transactional` of nestjs-cls on a real PostgreSQL, and what happened in it, step by step.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
  type TransactionalAdapter,
} from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import pg from 'pg';
import { Fence, postgresFence } from '../../../lib/fencing/index.ts';
import {
  Fenced,
  FencingToken,
  inClsTransaction,
  isRedlockError,
  RedlockModule,
  type LockEvent,
} from '../../../lib/index.ts';
import { createMemoryNodes } from '../../../lib/testing/index.ts';

/** What was seen in one case: steps in their order, and how the call ended. */
export interface Played {
  readonly steps: readonly string[];
  readonly outcome: string;
  /** Message of the error, if it ended with one. */
  readonly message?: string;
  readonly owner: string | null;
}

const journal: string[] = [];

type Options = Record<string, never>;
type Adapter = TransactionalAdapter<pg.Pool, pg.Pool | pg.PoolClient, Options>;

/** What the adapters of nestjs-cls do, for the plain driver. */
function adapterOf(pool: pg.Pool): Adapter {
  return {
    connection: pool,
    optionsFactory: () => ({
      async wrapWithTransaction(_options, work, setTransaction) {
        const client = await pool.connect();
        const say = async (command: string): Promise<void> => {
          await client.query(command);
          journal.push(command);
        };
        try {
          await say('BEGIN');
          setTransaction(client);
          const result: unknown = await work();
          await say('COMMIT');
          return result;
        } catch (error) {
          await say('ROLLBACK');
          throw error;
        } finally {
          client.release();
        }
      },
      getFallbackInstance: () => pool,
    }),
  };
}

@Injectable()
class Seats {
  constructor(
    private readonly transactions: TransactionHost<Adapter>,
    private readonly fence: Fence<pg.Pool | pg.PoolClient>,
  ) {}

  private async take(id: string, token?: FencingToken): Promise<void> {
    const { tx } = this.transactions;
    await this.fence.advance(tx, token);
    await tx.query("UPDATE seat SET owner = 'ana' WHERE id = $1", [id]);
    journal.push('work');
  }

  @Fenced('seat:{0}', { nested: 'join' })
  @Transactional()
  async fencedAbove(id: string, @FencingToken() token?: FencingToken): Promise<void> {
    await this.take(id, token);
  }

  @Transactional()
  @Fenced('seat:{0}')
  async fencedBelow(id: string, @FencingToken() token?: FencingToken): Promise<void> {
    await this.take(id, token);
  }

  @Transactional()
  async callerInTransaction(id: string): Promise<void> {
    await this.fencedAbove(id);
  }

  @Fenced('seat:{0}', { allowInTransaction: true })
  @Transactional(Propagation.RequiresNew)
  async independent(id: string, @FencingToken() token?: FencingToken): Promise<void> {
    await this.take(id, token);
  }

  @Transactional()
  async callerOfIndependent(id: string): Promise<void> {
    await this.independent(id);
    journal.push('outer work');
  }

  @Fenced('seat:{0}')
  @Transactional()
  async joining(id: string): Promise<void> {
    await this.fencedAbove(id);
  }

  @Fenced('seat:{0}')
  @Transactional()
  async failing(id: string, @FencingToken() token?: FencingToken): Promise<void> {
    await this.take(id, token);
    throw new Error('changed our mind');
  }
}

/** Plays each case on a seat of its own, in the database at `url`, which has the tables of `startFencedDatabase`. */
export async function playTransactions(url: string): Promise<Record<string, Played>> {
  const pool = new pg.Pool({ connectionString: url });
  const steps: Partial<Record<LockEvent['type'], string>> = {
    acquired: 'lock',
    released: 'unlock',
  };

  @Module({
    imports: [
      ClsModule.forRoot({
        global: true,
        plugins: [new ClsPluginTransactional({ adapter: adapterOf(pool) })],
      }),
      RedlockModule.forRoot({
        nodes: createMemoryNodes(3),
        restartGuard: false,
        fence: postgresFence(pool),
        isInTransaction: inClsTransaction(TransactionHost),
        onEvent: ({ type }) => {
          const step = steps[type];
          if (step !== undefined) journal.push(step);
        },
      }),
    ],
    providers: [Seats],
  })
  class AppModule {}

  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const seats = app.get(Seats);
  const play = async (call: (id: string) => Promise<void>, id: string): Promise<Played> => {
    await pool.query('INSERT INTO seat (id) VALUES ($1)', [id]);
    journal.length = 0;
    const ended = await call(id).then(
      () => ({ outcome: 'resolved' }),
      (error: Error) => ({
        outcome: isRedlockError(error) ? error.code : error.name,
        message: error.message,
      }),
    );
    const { rows } = await pool.query('SELECT owner FROM seat WHERE id = $1', [id]);
    return { ...ended, steps: [...journal], owner: rows[0].owner };
  };
  try {
    const played: Record<string, Played> = {};
    for (const name of [
      'fencedAbove',
      'fencedBelow',
      'callerInTransaction',
      'callerOfIndependent',
      'joining',
      'failing',
    ] as const) {
      played[name] = await play((id) => seats[name](id), name);
    }
    return played;
  } finally {
    await app.close();
    await pool.end();
  }
}
