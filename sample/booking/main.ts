// Seats that are sold over HTTP: POST /seats/12A/bookings?customer=ana. A card is charged between the read and the write.
import 'reflect-metadata';
import { Controller, Injectable, Module, Param, Post, Query } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Fenced, FencingToken, fencingToken, RedlockModule } from 'nestjs-fenced-lock';
import { Fence, isStaleTokenError, postgresFence } from 'nestjs-fenced-lock/fencing';
import { Pool, type PoolClient } from 'pg';

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] });
// Without a listener, an idle connection that breaks would end the process.
pool.on('error', () => undefined);
const seatFence = postgresFence(pool);

/** Your payment provider: another company, whose books no rollback of yours can change. */
@Injectable()
export class Payments {
  async charge(customer: string): Promise<string> {
    return `payment of ${customer}`;
  }

  async refund(_payment: string): Promise<void> {}
}

@Controller('seats')
export class SeatsController {
  constructor(
    private readonly fence: Fence<PoolClient>,
    private readonly payments: Payments,
  ) {}

  /**
   * One process at a time per seat, and the database has the last word. `claim: true`, because the seat is read long before
   * the transaction that writes it: from the claim on, the database rejects whoever held the lock before. A busy lock is
   * answered with 409, a late write with 412, an outage of Redis with 503.
   */
  @Post(':seat/bookings')
  @Fenced('seat:{0}', { claim: true })
  async book(
    @Param('seat') seat: string,
    @Query('customer') customer: string,
    @FencingToken() token = fencingToken(),
  ): Promise<'booked' | 'taken'> {
    const { rows } = await pool.query('SELECT FROM seat WHERE id = $1', [seat]);
    if (rows.length > 0) return 'taken';

    const payment = await this.payments.charge(customer);
    try {
      // Everything is written through `tx`: the transaction checks the token first, and again under a row lock.
      await this.fence.transaction(token, (tx) =>
        tx.query('INSERT INTO seat (id, customer) VALUES ($1, $2)', [seat, customer]),
      );
    } catch (error) {
      // This process was too slow, and another one has the seat. Nothing was written, and never will be with this token.
      if (isStaleTokenError(error)) await this.payments.refund(payment);
      throw error;
    }
    return 'booked';
  }
}

@Module({
  imports: [
    RedlockModule.forRoot({
      // One server, or three or five that know nothing of each other.
      nodes: (process.env['REDIS_NODES'] ?? 'redis://localhost:6379').split(','),
      fence: seatFence,
    }),
  ],
  controllers: [SeatsController],
  providers: [Payments],
})
export class AppModule {
  /** In your project, this is a migration. */
  async onModuleInit(): Promise<void> {
    await pool.query(seatFence.ddl());
    await pool.query(
      'CREATE TABLE IF NOT EXISTS seat (id text PRIMARY KEY, customer text NOT NULL)',
    );
  }

  /** The locks are released by now. */
  async onApplicationShutdown(): Promise<void> {
    await pool.end();
  }
}

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  // On SIGTERM, a booking that is under way ends first, and then its lock is released.
  app.enableShutdownHooks();
  await app.listen(process.env['PORT'] ?? 3000);
  return app;
}

export const started = bootstrap();
