import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import {
  Body,
  Controller,
  HttpException,
  Injectable,
  Next,
  Post,
  Res,
  type INestApplication,
} from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import { of } from 'rxjs';
import { sqliteFence } from '../../lib/fencing/index.ts';
import {
  Idempotent,
  Once,
  OnceService,
  OnceTransaction,
  onceTransaction,
} from '../../lib/once/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, startModule } from '../nest/support/applications.ts';
import { effectsOf, writeEffect } from './support/databases.ts';
import { useOnceDatabase } from './support/use-once-database.ts';

afterEach(closeAll);

const PLATFORMS: Readonly<Record<string, (module: TestingModule) => Promise<INestApplication>>> = {
  Express: async (module) => module.createNestApplication(),
  Fastify: async (module) => {
    const { FastifyAdapter } = await import('@nestjs/platform-fastify');
    return module.createNestApplication(new FastifyAdapter());
  },
};

// The installed Fastify is that of Nest 12.
const platforms = Object.entries(PLATFORMS).slice(0, typeof require === 'function' ? 1 : 2);

const scope = (request: any) => request.headers.user;

describe.each(platforms)('a route under @Idempotent, on %s', (_name, open) => {
  const database = useOnceDatabase('SQLite');

  async function start() {
    let runs = 0;
    const effect = async (tx: unknown) => {
      runs += 1;
      const id = randomUUID();
      await writeEffect(database, 'http', id, tx);
      return id;
    };

    @Injectable()
    class Payments {
      @Once('direct:{0.key}', { wait: 0 })
      async pay(_order: object, @OnceTransaction() tx: any = onceTransaction()) {
        return effect(tx);
      }
    }

    @Controller()
    class PaymentsController {
      constructor(private readonly payments: Payments) {}

      @Post('pay')
      @Idempotent({ scope })
      async pay(@Body() order: object, @OnceTransaction() tx: any = onceTransaction()) {
        return { order, id: await effect(tx) };
      }

      @Post('accept')
      @Idempotent({ scope, required: false })
      async accept(@Res({ passthrough: true }) response: any, @OnceTransaction() tx: any) {
        const id = await effect(tx);
        response.status(id ? 202 : 500);
        return of(`accepted ${id}`);
      }

      @Post('decline')
      @Idempotent({ scope, keepErrors: true })
      async decline(@OnceTransaction() tx: any = onceTransaction()) {
        throw new HttpException({ reason: await effect(tx) }, 402);
      }

      @Post('raw')
      @Idempotent({ scope })
      async raw(
        @Res({ passthrough: true }) response: any,
        @OnceTransaction() tx: any = onceTransaction(),
      ) {
        response.send(await effect(tx));
      }

      @Post('direct')
      async direct(@Body() order: object) {
        return { id: await this.payments.pay(order) };
      }
    }
    const nodes = createMemoryNodes(3);
    const module = await startModule(
      { controllers: [PaymentsController], providers: [Payments, OnceService] },
      { nodes, fence: database.fence },
    );
    const app = closeLater(await open(module));
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const post = async (path: string, key?: string, body: object = { cents: 5 }, user = 'ana') => {
      const headers = {
        'content-type': 'application/json',
        user,
        ...(key && { 'idempotency-key': key }),
      };
      const init = { method: 'POST', headers, body: JSON.stringify(body) };
      const response = await fetch(`${url}/${path}`, init);
      return `${response.status} ${response.headers.get('content-type')} ${await response.text()}`;
    };
    return { post, nodes, runs: () => runs };
  }

  it.each([
    ['pay', /^201 application\/json.+"cents":5/],
    ['accept', /^202 text\/html.+accepted |^202 text\/plain.+accepted |^202 null accepted /],
    ['decline', /^402 application\/json.+"reason":/],
  ])('answers /%s again with the same status and bytes, and runs once', async (path, answer) => {
    const { post, runs } = await start();
    const key = randomUUID();
    const first = await post(path, key);
    expect(first).toMatch(answer);
    // The draft has the key in quotes, and most clients have not.
    expect(await Promise.all([post(path, key), post(path, `"${key}"`)])).toEqual([first, first]);
    expect(runs()).toBe(1);
  });

  it('answers 400 without a key or with what is none, and 422 for another body, or another route', async () => {
    const { post, runs } = await start();
    for (const key of [undefined, '""', '"open', 'a, b', 'x'.repeat(256), '"a";b=1'])
      expect(await post('pay', key)).toMatch(/^400 .+Idempotency-Key/);
    const key = randomUUID();
    await post('pay', key);
    for (const other of [post('pay', key, { cents: 6 }), post('accept', key)])
      expect(await other).toMatch(/^422 .+"code":"ONCE_CONFLICT"/);
    expect(runs()).toBe(1);
  });

  it('answers 409 while the first request is in progress', async () => {
    const { post, nodes, runs } = await start();
    await using _first = await occupy(nodes, 'idempotency:ana:k%231');
    expect(await post('pay', 'k#1')).toMatch(/^409 .+"code":"LOCK_BUSY"/);
    expect(runs()).toBe(0);
  });

  it('gives nobody the answer of another sender, and runs a request without a key each time where none is required', async () => {
    const { post, runs } = await start();
    const key = randomUUID();
    const own = await post('pay', key);
    expect(await post('pay', key, { cents: 5 }, 'bob')).not.toBe(own);
    expect(await post('accept')).not.toBe(await post('accept'));
    expect(runs()).toBe(4);
  });

  it('refuses a handler that has sent its answer itself, and keeps nothing', async () => {
    const { post } = await start();
    const before = await effectsOf(database, 'http');
    await post('raw', randomUUID());
    expect(await effectsOf(database, 'http')).toEqual(before);
  });

  it('has errors of @Once in a service answered alike', async () => {
    const { post, runs } = await start();
    const key = randomUUID();
    const first = await post('direct', undefined, { key });
    expect(await post('direct', undefined, { key })).toBe(first);
    expect(await post('direct', undefined, { key, more: 1 })).toMatch(/^422 .+ONCE_CONFLICT/);
    expect(runs()).toBe(1);
  });
});

describe('@Idempotent', () => {
  const start = (classes: object) =>
    startModule(classes, {
      nodes: createMemoryNodes(1),
      fence: sqliteFence(new Database(':memory:')),
    });

  it.each<[string, () => ParameterDecorator]>([
    ['@Res() without passthrough', () => Res()],
    ['@Next()', () => Next()],
  ])('is refused on a handler with %s, which would answer before the commit', (_, parameter) => {
    const decorate = () => {
      class Wrong {
        @Idempotent({ scope })
        async pay(@parameter() response: any) {
          response.send('paid');
        }
      }
      return Wrong;
    };
    expect(decorate).toThrow(/^Wrong\.pay is under @Idempotent, and takes the response/);
  });

  it('is refused at the start on a method of a provider, which would run each time', async () => {
    @Injectable()
    class Payments {
      @Idempotent({ scope })
      async pay() {}
    }
    await expect(start({ providers: [Payments, OnceService] })).rejects.toThrow(
      '@Idempotent on Payments.pay counts on handlers of controllers only',
    );
  });
});
