import 'reflect-metadata';
import type { AddressInfo, Server } from 'node:net';
import { Controller, Injectable } from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { lastValueFrom } from 'rxjs';
import { redisFence } from '../../lib/fencing/index.ts';
import { LockService } from '../../lib/index.ts';
import {
  Idempotent,
  Once,
  OnceService,
  OnceTransaction,
  onceTransaction,
} from '../../lib/once/index.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { closeAll, closeLater, startModule } from '../nest/support/applications.ts';
import { useOnceDatabase } from './support/use-once-database.ts';

afterEach(closeAll);
afterEach(() => void jest.restoreAllMocks());

@Injectable()
class Payments {
  readonly seen: unknown[] = [];

  @Once('pay:{0}')
  async pay(id: string, @OnceTransaction() tx: any = onceTransaction(), note = 'none') {
    this.seen.push(tx);
    return { id, note };
  }
}

const providers = [Payments, OnceService];

describe('a method under @Once', () => {
  const database = useOnceDatabase('PostgreSQL');
  const start = async () => startModule({ providers }, { fence: database.fence });

  it('costs a later call one SELECT and no lock', async () => {
    const module = await start();
    const payments = module.get(Payments);
    await payments.pay('counted');
    const statements: unknown[] = [];
    database.pool!.once('acquire', (client) => {
      const query = client.query.bind(client) as (...args: unknown[]) => never;
      jest.spyOn(client, 'query').mockImplementation((...args: unknown[]) => {
        statements.push(args[0]);
        return query(...args);
      });
    });
    const asked = jest.spyOn(LockService.prototype, 'withLock');
    await payments.pay('counted');
    const look = { text: expect.stringMatching(/^SELECT .+ FROM redlock_once/) };
    expect(statements).toEqual([expect.objectContaining(look)]);
    expect(asked).not.toHaveBeenCalled();
  });

  it('takes its transaction from nobody, and compares only what callers pass', async () => {
    const payments = (await start()).get(Payments);
    const forged = { query: () => undefined };
    const first = await payments.pay('forged', forged);
    expect(payments.seen).not.toContain(forged);
    expect(await payments.pay('forged')).toEqual(first);
    const other = payments.pay('forged', undefined, 'other');
    await expect(other).rejects.toMatchObject({ code: 'ONCE_CONFLICT' });
  });

  it('is a handler of a microservice that has its message as it was, without a decorator', async () => {
    @Controller()
    class Messages {
      @MessagePattern('pay')
      @Once('message:{0.id}')
      async pay(order: { id: string }, @OnceTransaction() tx: any = onceTransaction()) {
        return { order, isOpen: typeof tx.query === 'function' };
      }
    }
    const metadata = { controllers: [Messages], providers: [OnceService] };
    const app = (await startModule(metadata, { fence: database.fence })).createNestApplication();
    closeLater(app);
    const options = { host: '127.0.0.1', port: 0 };
    const server = app.connectMicroservice<MicroserviceOptions>(
      { transport: Transport.TCP, options },
      { inheritAppConfig: true },
    );
    await app.startAllMicroservices();
    const { port } = server.unwrap<Server>().address() as AddressInfo;
    const client = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { ...options, port },
    });
    const answer = await lastValueFrom(client.send('pay', { id: 'm1' }));
    await client.close();
    expect(answer).toEqual({ order: { id: 'm1' }, isOpen: true });
  });

  it('is not run on an instance that Nest did not build, nor without @Once', async () => {
    const payments = new Payments();
    await expect(payments.pay('1')).rejects.toThrow('Payments.pay was called without');
    class Plain {
      async pay(@OnceTransaction() tx: any = onceTransaction()) {
        return tx;
      }
    }
    await expect(new Plain().pay()).rejects.toThrow('onceTransaction() was evaluated');
  });

  it('is refused at the start without a fence in an SQL database, and without OnceService', async () => {
    const redis: any = { eval: () => undefined, defineCommand: () => undefined };
    for (const fence of [undefined, redisFence(redis)])
      await expect(startModule({ providers }, { fence })).rejects.toThrow(
        /'OnceService' can't be used with.+a fence in an SQL database/,
      );
    const alone = startModule({ providers: [Payments] }, { fence: database.fence });
    await expect(alone).rejects.toThrow('add OnceService to the providers');
  });

  it('is refused at decoration with what is no key, or a wrong option', () => {
    expect(() => Once(undefined as never)).toThrow('@Once needs a key');
    expect(() => Once('a', { keep: '0s' })).toThrow("Option 'keep' can't be \"0s\"");
    expect(() => Once('a', { claim: true } as never)).toThrow("Option 'claim'");
    expect(() => Idempotent({} as never)).toThrow("Option 'scope'");
  });
});

describe('work that is done once, called in the work of a transaction on the only connection', () => {
  const database = useOnceDatabase('SQLite');

  it('is refused, and does not wait for that transaction', async () => {
    const once = (await startModule({ providers }, { fence: database.fence })).get(OnceService);
    const work = () => once.run({ key: 'inner', payload: 1, work: () => 1 });
    const outer = database.fence.transaction(createFencingToken('outer'), work);
    await expect(outer).rejects.toThrow('The enclosing transaction has the only connection');
  });
});
