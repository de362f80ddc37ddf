/**
 * What calls an excerpt of methods or properties, and sees what it does: its page and a part of it, and a module that exports `call`, in
 * which EXCERPT stands for the module of the excerpt.
 */
export const CALLS: Readonly<Record<string, string>> = {
  'docs/locking.md: async book(seatId': `
import { Example } from 'EXCERPT.js';
import { boot, expect, locks } from '../surroundings.js';

export async function call(): Promise<void> {
  const { app, provider } = await boot(Example);
  const keys = ['seat:12A', 'order:o1', 'account:a', 'account:b', 'nightly'];
  const held = await locks.acquire(keys.filter((key) => key !== 'account:a'));
  const busy = { code: 'LOCK_BUSY' };
  await Promise.all([
    expect(provider.book('12A', 'ana')).rejects.toMatchObject(busy),
    expect(provider.pay('o1')).rejects.toMatchObject(busy),
    expect(provider.transfer('a', 'b')).rejects.toMatchObject(busy),
    expect(provider.nightly()).resolves.toBeUndefined(),
  ]);
  await held.release();
  await provider.book('12A', 'ana');
  await Promise.all([provider.pay('o1'), provider.transfer('a', 'b'), provider.nightly()]);
  for (const key of keys) {
    const { holder, lastToken } = await locks.inspect(key);
    expect([key, holder, Number(lastToken) > Number(held.token)]).toEqual([key, null, true]);
  }
  await app.close();
}
`,

  'docs/locking.md: async move(': `
import { Example } from 'EXCERPT.js';
import { boot } from '../surroundings.js';

export async function call(): Promise<void> {
  const { app, provider } = await boot(Example);
  await provider.move('12A', '12B');
  await provider.cancel('12A');
  await app.close();
}
`,

  'docs/locking.md: async send(': `
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Example } from 'EXCERPT.js';
import { boot, expect, locks, redis } from '../surroundings.js';

export async function call(): Promise<void> {
  const { app, provider } = await boot(Example, { ttl: '1s' });
  const seen: unknown[] = [];
  let isAnswering = true;
  const server = createServer((request, response) => {
    void (async () => {
      const { holder } = await locks.inspect('report:' + url);
      seen.push([request.method, typeof holder]);
      if (isAnswering) response.end();
      else await redis.set('lock:report:' + url, 'another', 'PX', 600_000);
    })();
  }).listen(0);
  await once(server, 'listening');
  const url = 'http://localhost:' + (server.address() as AddressInfo).port;
  await provider.send(url);
  expect(seen).toEqual([['POST', 'string']]);
  // Another one gets the lock in the second request, which gets no answer: only the signal ends it.
  isAnswering = false;
  await expect(provider.send(url)).rejects.toMatchObject({ code: 'LOCK_LOST' });
  server.closeAllConnections();
  server.close();
  await app.close();
}
`,

  'docs/locking.md: async book(@Param': `
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { Controller } from '@nestjs/common';
import { Example } from 'EXCERPT.js';
import { boot, expect, locks } from '../surroundings.js';

export async function call(): Promise<void> {
  Controller('seats')(Example);
  const { app } = await boot(Example, { wait: '10m' }, { providers: [], controllers: [Example] });
  const arrived = once(app.getHttpServer(), 'request') as Promise<[unknown, ServerResponse]>;
  await app.listen(0);
  const url = (await app.getUrl()) + '/seats/12A';
  const held = await locks.acquire('seat:12A');
  const client = new AbortController();
  const gone = fetch(url, { method: 'POST', signal: client.signal });
  const [, response] = await arrived;
  const closed = once(response, 'close');
  client.abort();
  await expect(gone).rejects.toMatchObject({ name: 'AbortError' });
  await closed;
  await held.release();
  const last = async () => (await locks.inspect('seat:12A')).lastToken;
  const before = await last();
  expect((await fetch(url, { method: 'POST' })).status).toBe(201);
  expect([before, Number(await last()) > Number(before)]).toEqual([String(held.token), true]);
  await app.close();
}
`,

  'docs/migration.md: async update(user: ': `
import { Example } from 'EXCERPT.js';
import { boot, expect, redis } from '../surroundings.js';

export async function call(): Promise<void> {
  const { app, provider } = await boot(Example, { keyPrefix: '', wait: 0 });
  await redis.set('UserService:update:7', 'of murlock', 'PX', 600_000);
  const busy = { code: 'LOCK_BUSY' };
  await expect(provider.update({ id: '7' })).rejects.toMatchObject(busy);
  await provider.update({ id: '8' });
  await redis.del('UserService:update:7');
  await provider.update({ id: '7' });
  await app.close();
}
`,

  'docs/fencing/nest.md: @Transactional()': `
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { inClsTransaction } from 'nestjs-fenced-lock';
import { createFencingToken } from 'nestjs-fenced-lock/testing';
import { ClsModule } from 'nestjs-cls';
import type { PoolClient } from 'pg';
import { Example } from 'EXCERPT.js';
import { boot, expect, fence, pool, valueOf } from '../surroundings.js';

const adapter = {
  connection: pool,
  optionsFactory: () => ({
    async wrapWithTransaction(_options: unknown, work: () => Promise<unknown>, setTransaction: (client: PoolClient) => void) {
      const client = await pool.connect();
      try {
        await client.query('BEGIN');
        setTransaction(client);
        const result = await work();
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK');
        throw error;
      } finally {
        client.release();
      }
    },
    getFallbackInstance: () => pool,
  }),
};

export async function call(): Promise<void> {
  const plugins = [new ClsPluginTransactional({ adapter: adapter as never })];
  const root = { imports: [ClsModule.forRoot({ global: true, plugins })] };
  const options = { isInTransaction: inClsTransaction(TransactionHost) };
  const { app, provider } = await boot(Example, options, root);
  const transactionHost = app.get<{ readonly tx: PoolClient }>(TransactionHost);
  const assign = async (id: string, customer: string) => {
    await transactionHost.tx.query('UPDATE seat SET owner = $2 WHERE id = $1', [id, customer]);
  };
  const seats = { assign, find: async () => undefined };
  Object.assign(provider, { fence, transactionHost, seats });
  await provider.book('12A', 'ana');
  expect(await valueOf('SELECT owner FROM seat')).toBe('ana');
  const ofAna = await valueOf("SELECT token FROM redlock_fence WHERE resource = 'seat:12A'");
  await fence.claim(createFencingToken('seat:12A', Number(ofAna) + 3_600_000_000));
  const late = provider.book('12A', 'ben');
  await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  expect(await valueOf('SELECT owner FROM seat')).toBe('ana');
  await app.close();
}
`,

  'docs/fencing/nest.md: async reprice(': `
import { createFencingToken } from 'nestjs-fenced-lock/testing';
import { Example } from 'EXCERPT.js';
import { boot, expect, fence, valueOf } from '../surroundings.js';

export async function call(): Promise<void> {
  const { app, provider } = await boot(Example);
  const claimed = () => valueOf("SELECT token FROM redlock_fence WHERE resource = 'seat:12A'");
  const found: unknown[] = [];
  const find = async (id: string) => {
    found.push(await claimed());
    return id;
  };
  const assign = async () => undefined;
  Object.assign(provider, { fence, seats: { find, assign }, pricing: { quote: async () => 7 } });
  await provider.reprice('12A');
  expect([await valueOf('SELECT price FROM seat'), found]).toEqual([7, [await claimed()]]);

  const quote = async () => {
    await fence.claim(createFencingToken('seat:12A', Number(await claimed()) + 1));
    return 8;
  };
  Object.assign(provider, { pricing: { quote } });
  await expect(provider.reprice('12A')).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  expect([await valueOf('SELECT price FROM seat'), found.length]).toEqual([7, 2]);
  await app.close();
}
`,

  'docs/fencing/nest.md: refusals.inc()': `
import { createFencingToken } from 'nestjs-fenced-lock/testing';
import { imported } from 'EXCERPT.js';
import { expect, fence, refusals, token, use } from '../surroundings.js';

export async function call(): Promise<void> {
  let count = 0;
  refusals.inc = () => void (count += 1);
  await use(imported, async () => {
    await fence.claim(createFencingToken('seat:12A', Number(token) + 1));
    await expect(fence.claim(token)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  });
  expect(count).toBe(1);
}
`,

  'docs/fencing/nest.md: useFactory: ': `
import { NestFactory } from '@nestjs/core';
import { RedlockModule } from 'nestjs-fenced-lock';
import { Fence } from 'nestjs-fenced-lock/fencing';
import { createFencingToken } from 'nestjs-fenced-lock/testing';
import { Pool } from 'pg';
import { example } from 'EXCERPT.js';
import { expect, payments, pool, RefundService } from '../surroundings.js';

export async function call(): Promise<void> {
  const refunded: string[] = [];
  const refunds: RefundService = Object.assign(Object.create(payments), {
    refundBookingOf: async (...booking: string[]) => refunded.push(booking.join(' of ')),
  });
  const providers = [{ provide: Pool, useValue: pool }, { provide: RefundService, useValue: refunds }];
  const others = { module: class {}, providers, exports: [Pool, RefundService] };
  const locking = RedlockModule.forRootAsync({ imports: [others], inject: [Pool, RefundService], ...example });
  const app = await NestFactory.createApplicationContext(locking as never, { logger: false });
  const now = Date.now() * 1_000;
  const fence = app.get(Fence);
  const late = createFencingToken('seat:12A', now);
  await fence.claim(createFencingToken('seat:12A', now + 1));
  await expect(fence.claim(late)).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  expect(refunded).toEqual(['seat:12A of ' + late.holder]);
  await app.close();
}
`,

  'docs/fencing/nest.md: catch (error)': `
import { createFencingToken } from 'nestjs-fenced-lock/testing';
import { run } from 'EXCERPT.js';
import { expect, fence, payment, payments, token } from '../surroundings.js';

export async function call(): Promise<void> {
  const refunded: string[] = [];
  payments.refund = async (of) => void refunded.push(of);
  await run();
  expect(refunded).toEqual([]);
  await fence.claim(createFencingToken('seat:12A', Number(token) + 1));
  await expect(run()).rejects.toMatchObject({ code: 'STALE_TOKEN' });
  expect(refunded).toEqual([payment]);
}
`,
};
