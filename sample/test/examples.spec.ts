import { describe, expect, it } from '@jest/globals';
import { getQueueToken } from '@nestjs/bullmq';
import { Logger, type INestApplication, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Queue } from 'bullmq';
import { Fence } from '../../lib/fencing/index.ts';
import { usePostgres } from '../../test/support/databases/use-databases.ts';
import { eventually } from '../../test/support/eventually.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';

/** The applications that readers copy, each started as it stands there. */

const apps: INestApplicationContext[] = [];
useRedisServers(1, { own: true }, ([server]) => {
  Logger.overrideLogger(false);
  process.env['REDIS_NODES'] = process.env['QUEUE_URL'] = server!.url;
  process.env['PORT'] = '0';
  return () => Promise.all(apps.map((app) => app.close()));
});
usePostgres(async ({ options }) => void (process.env['DATABASE_URL'] = options.connectionString));

async function start<App extends INestApplicationContext>(starting: Promise<App>): Promise<App> {
  const app = await starting;
  apps.push(app);
  return app;
}

describe('the examples', () => {
  it('cron builds one report, although two processes begin', async () => {
    const { started, AppModule, NightlyReport, Reports } = await import('../cron/main.ts');
    const processes = [
      await start(started),
      await start(NestFactory.createApplicationContext(AppModule)),
    ];
    const built: string[] = [];
    const [first, second] = processes.map((app) => app.get(NightlyReport));
    let end = () => {};
    const ended = new Promise<void>((resolve) => (end = resolve));
    for (const app of processes)
      app.get(Reports).build = async (customer) => {
        built.push(customer);
        await ended;
      };
    const running = first!.run();
    await eventually(() => expect(built).toEqual(['ana']));
    await second!.run();
    end();
    await running;
    expect(built).toEqual(['ana', 'ben', 'cleo']);
  });

  it('booking sells a seat once, and refunds a customer whose worker was too late', async () => {
    const { started, Payments } = await import('../booking/main.ts');
    const app = await start<INestApplication>(started);
    const url = await app.getUrl();
    const book = (seat: string, customer: string): Promise<Response> =>
      fetch(`${url}/seats/${seat}/bookings?customer=${customer}`, { method: 'POST' });

    const sold = await Promise.all([book('1A', 'ana'), book('1A', 'ben')]);
    expect((await Promise.all(sold.map((each) => each.text()))).sort()).toEqual([
      'booked',
      'taken',
    ]);

    const refunds: string[] = [];
    Object.assign(app.get(Payments), {
      // While the card is charged, the lock runs out, and another worker claims the seat.
      charge: async () => {
        const value = Number.MAX_SAFE_INTEGER;
        await app.get(Fence, { strict: false }).claim({ value, holder: 'b', keys: ['seat:1B'] });
        return 'payment of cleo';
      },
      refund: async (payment: string) => void refunds.push(payment),
    });
    expect((await book('1B', 'cleo')).status).toBe(412);
    expect(refunds).toEqual(['payment of cleo']);
  });

  it('once charges and books once for two processes, and answers a request again, for its sender', async () => {
    const { started, AppModule, Payments, Provider } = await import('../once/main.ts');
    const app = await start<INestApplication>(started);
    const processes = [app, await start(NestFactory.createApplicationContext(AppModule))];
    const charges: string[] = [];
    for (const each of processes)
      each.get(Provider).charge = async (_cents, { idempotencyKey }) => {
        charges.push(idempotencyKey);
        return `charge ${charges.length}`;
      };
    const order = { id: 'o1', cents: 500 };
    const [one, two] = processes.map((each) => each.get(Payments));
    const answers = await Promise.all([one!, two!, one!].map((payments) => payments.pay(order)));
    expect(answers).toEqual([0, 1, 2].map(() => ({ charge: 'charge 1' })));
    expect(charges).toEqual(['pay:o1']);
    const other = one!.pay({ ...order, cents: 1 });
    await expect(other).rejects.toMatchObject({ code: 'ONCE_CONFLICT' });
    const refunds = await Promise.all([one!, two!].map((payments) => payments.refund(order)));
    expect(refunds).toEqual([{ refunded: 500 }, { refunded: 500 }]);

    const url = await app.getUrl();
    const tip = async (key: string, user: string): Promise<string> => {
      const headers = {
        'content-type': 'application/json',
        'idempotency-key': key,
        'x-user': user,
      };
      const body = JSON.stringify({ id: user });
      const response = await fetch(`${url}/tip`, { method: 'POST', headers, body });
      return `${response.status} ${await response.text()}`;
    };
    const tips = [await tip('k1', 'ana'), await tip('"k1"', 'ana'), await tip('k1', 'ben')];
    expect(tips).toEqual(['201 {"thanks":"ana"}', '201 {"thanks":"ana"}', '201 {"thanks":"ben"}']);
  });

  it('jobs runs every import, and never two of one customer at once', async () => {
    const { started, Imports } = await import('../jobs/main.ts');
    const app = await start(started);
    const queue = app.get<Queue>(getQueueToken('imports'));
    const files = ['1', '2', '3', '4'];
    const log: string[] = [];
    app.get(Imports).load = async ({ file }) => {
      // During the first import, the others meet a busy customer, and go back to the queue.
      const others = log.push(`begin ${file}`) === 1 ? files.length - 1 : 0;
      await eventually(async () =>
        expect(await queue.getDelayedCount()).toBeGreaterThanOrEqual(others),
      );
      log.push(`end ${file}`);
    };
    await queue.addBulk(files.map((file) => ({ name: file, data: { customer: 'ana', file } })));
    await eventually(async () => expect(await queue.getCompletedCount()).toBe(files.length));
    const begun = log.filter((line) => line.startsWith('begin'));
    expect(log).toEqual(begun.flatMap((line) => [line, line.replace('begin', 'end')]));
  });
});
