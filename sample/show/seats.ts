import { Global, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import {
  Fenced,
  FencingToken,
  fencingToken,
  RedlockModule,
  StaleTokenError,
} from 'nestjs-fenced-lock';
import { Fence, postgresFence } from 'nestjs-fenced-lock/fencing';
import { postgresNode } from 'nestjs-fenced-lock/postgres';
import { Pool, type PoolClient } from 'pg';

/** The locks are short, so that the story is: a holder that stops has lost its lock after two seconds. */
const TTL = '2s';

/** Who asks for the seat of a holder that was stopped waits for longer than its lock lives. */
const WAIT = '4s';

/** The Redis servers that keep the locks; empty where the database does. */
const REDIS_NODES = process.env['REDIS_NODES'] ?? '';

/** How long the payment provider takes to answer. */
const PAYMENT_MS = Number(process.env['PAYMENT_MS'] ?? 60);

/** The steps of a booking, in the order in which it takes them. */
export type StepName =
  /** The lock is held, and with the fence the database knows its token. */
  | 'claimed'
  /** The seat was sold before: nothing was charged. */
  | 'taken'
  | 'paid'
  | 'booked'
  /** The database has seen a newer token: nothing was written. */
  | 'rejected'
  | 'refunded';

export interface Step {
  readonly name: StepName;
  readonly seat: string;
  readonly customer: string;
  /** Decimal. */
  readonly token: string;
  /** The newer token that a rejected holder met, decimal. */
  readonly newerToken?: string;
}

/** Where the service writes down what it does. The show holds a booking back here, as a slow payment provider would. */
export abstract class Journal {
  abstract record(step: Step): Promise<void>;
}

/** Runs the statements that write. */
type Write = (work: (client: Pick<PoolClient, 'query'>) => Promise<unknown>) => Promise<unknown>;

@Injectable()
export class Seats {
  constructor(
    private readonly fence: Fence<PoolClient>,
    private readonly pool: Pool,
    private readonly journal: Journal,
  ) {}

  /**
   * Books a seat for a customer, who pays first. One process at a time per seat, and the database has the last word.
   * @returns `'taken'` when the seat was sold before; nothing was charged then.
   * @throws StaleTokenError when a newer holder took over meanwhile: nothing was written, and the customer was refunded.
   */
  @Fenced('seat:{0}', { claim: true })
  async book(seat: string, customer: string, @FencingToken() token = fencingToken()) {
    return this.#sell(seat, customer, token, (work) => this.fence.transaction(token, work));
  }

  /**
   * The same with the lock alone, to show what a lock can't do: the process may stop between any two lines, also right after a
   * check that the lock is still held, and go on when somebody else has the seat.
   * @throws LockLostError when the lock was lost meanwhile; the write is done by then.
   */
  @Fenced('seat:{0}')
  async bookWithoutFence(seat: string, customer: string, @FencingToken() token = fencingToken()) {
    return this.#sell(seat, customer, token, (work) => work(this.pool));
  }

  async #sell(
    seat: string,
    customer: string,
    token: FencingToken,
    write: Write,
  ): Promise<'booked' | 'taken'> {
    const tell = (name: StepName, newerToken?: string): Promise<void> =>
      this.journal.record({ name, seat, customer, token: String(token), newerToken });

    await tell('claimed');
    const sold = await this.pool.query('SELECT FROM seat_sample.ticket WHERE seat = $1', [seat]);
    if (sold.rows.length > 0) {
      await tell('taken');
      return 'taken';
    }
    const payment = await this.#charge(seat, customer);
    await tell('paid');
    try {
      await write((client) =>
        client.query('INSERT INTO seat_sample.ticket (seat, customer) VALUES ($1, $2)', [
          seat,
          customer,
        ]),
      );
    } catch (error) {
      if (error instanceof StaleTokenError) {
        await tell('rejected', error.currentToken);
        await this.pool.query('UPDATE seat_sample.payment SET refunded = true WHERE id = $1', [
          payment,
        ]);
        await tell('refunded');
      }
      throw error;
    }
    await tell('booked');
    return 'booked';
  }

  /** Charges at another company: its books commit on their own, and only a refund brings the money back. */
  async #charge(seat: string, customer: string): Promise<string> {
    const { rows } = await this.pool.query<{ id: string }>(
      'INSERT INTO seat_sample.payment (seat, customer) VALUES ($1, $2) RETURNING CAST(id AS text) AS id',
      [seat, customer],
    );
    await new Promise((resolve) => setTimeout(resolve, PAYMENT_MS));
    return rows[0]!.id;
  }
}

/** The fence of the seats: the database remembers the newest token of each key, and rejects holders with an older one. */
export function seatFence(pool: Pool): Fence<PoolClient> {
  return postgresFence(pool, { table: 'seat_sample.fence' });
}

@Global()
@Module({
  providers: [
    {
      provide: Pool,
      // Without a listener, an idle connection that PostgreSQL ends would end the process.
      useFactory: () =>
        new Pool({ connectionString: process.env['DATABASE_URL'], max: 5 }).on('error', () => {}),
    },
  ],
  exports: [Pool],
})
class DatabaseModule implements OnApplicationShutdown {
  constructor(private readonly pool: Pool) {}

  /** The locks are released by now. */
  async onApplicationShutdown(): Promise<void> {
    await this.pool.end();
  }
}

/** The application of every worker. */
@Module({})
export class SeatsModule {
  static register(journal: Journal) {
    return {
      module: SeatsModule,
      imports: [
        DatabaseModule,
        RedlockModule.forRootAsync({
          inject: [Pool],
          useFactory: (pool: Pool) => ({
            nodes: REDIS_NODES === '' ? [postgresNode(seatFence(pool))] : REDIS_NODES.split(','),
            fence: seatFence(pool),
            ttl: TTL,
            wait: WAIT,
            keyPrefix: process.env['LOCK_KEY_PREFIX'] ?? 'sample:',
            startupTimeout: '20s',
          }),
        }),
      ],
      providers: [Seats, { provide: Journal, useValue: journal }],
    };
  }
}
