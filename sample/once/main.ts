// Payments that are done once, however often a client asks: POST /tip with an Idempotency-Key, and a service that charges a card.
import 'reflect-metadata';
import { Body, Controller, Injectable, Module, Post } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedlockModule } from 'nestjs-fenced-lock';
import {
  Idempotent,
  Once,
  OnceService,
  OnceTransaction,
  onceDdl,
  onceTransaction,
} from 'nestjs-fenced-lock/once';
import { postgresNode } from 'nestjs-fenced-lock/postgres';
import { Pool, type PoolClient } from 'pg';

const pool = new Pool({ connectionString: process.env['DATABASE_URL'], allowExitOnIdle: true });
// Without a listener, an idle connection that breaks would end the process.
pool.on('error', () => undefined);
/** The locks are in PostgreSQL, too. With Redis: `nodes: ['redis://…'], fence: postgresFence(pool)`. */
const node = postgresNode(pool);

export class Order {
  id!: string;
  cents!: number;
}

/** Your payment provider: another company, whose books no rollback of yours can change. */
@Injectable()
export class Provider {
  async charge(
    cents: number,
    _options: { idempotencyKey: string; signal: AbortSignal },
  ): Promise<string> {
    return `charge of ${cents}`;
  }
}

@Injectable()
export class Payments {
  constructor(
    private readonly once: OnceService<PoolClient>,
    private readonly provider: Provider,
  ) {}

  /** All that it does is in one transaction. */
  @Once('refund:{0.id}', { keep: '30d' })
  async refund(order: Order, @OnceTransaction() tx: PoolClient = onceTransaction()) {
    await tx.query('DELETE FROM payment WHERE id = $1', [order.id]);
    return { refunded: order.cents };
  }

  /** It does something slow before its transaction. */
  async pay(order: Order) {
    const key = `pay:${order.id}`;
    return this.once.run({
      key,
      payload: order,
      before: ({ signal }) => this.provider.charge(order.cents, { idempotencyKey: key, signal }),
      work: async (tx, charge) => {
        await tx.query('INSERT INTO payment VALUES ($1, $2)', [order.id, charge]);
        return { charge };
      },
    });
  }
}

@Controller()
export class TipsController {
  /** In your application, `scope` takes what a guard has found out: a client chooses its headers. */
  @Post('tip')
  @Idempotent({ scope: (request) => request.headers['x-user'] })
  async tip(@Body() order: Order, @OnceTransaction() tx: PoolClient = onceTransaction()) {
    await tx.query('INSERT INTO payment VALUES ($1, $2)', [order.id, 'tip']);
    return { thanks: order.id };
  }
}

@Module({
  imports: [RedlockModule.forRoot({ nodes: [node] })],
  controllers: [TipsController],
  providers: [OnceService, Payments, Provider],
})
export class AppModule {}

async function bootstrap() {
  // In your project, this is a migration.
  await pool.query(node.ddl() + onceDdl(node.fence));
  await pool.query('CREATE TABLE IF NOT EXISTS payment (id text, charge text)');
  const app = await NestFactory.create(AppModule);
  // On SIGTERM, a request that is under way ends first.
  app.enableShutdownHooks();
  await app.listen(process.env['PORT'] ?? 3000);
  return app;
}

export const started = bootstrap();
