import 'reflect-metadata';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Controller,
  Get,
  Module,
  Param,
  Res,
  UseFilters,
  type INestApplication,
  type MiddlewareConsumer,
  type NestModule,
} from '@nestjs/common';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import { WebSocket } from 'ws';
import { LockBusyError, LockExceptionFilter, StaleTokenError } from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import {
  answersOfShutdown,
  answersToAll,
  GuardedSeats,
  MEANINGS,
  SHUTDOWN,
  type Answer,
  type StartTransport,
} from './support/guarded-seats.ts';

@Controller()
class SeatController {
  constructor(private readonly seats: GuardedSeats) {}

  @Get(':method')
  handle(@Param('method') method: 'book') {
    return this.seats[method]();
  }
}

@Resolver()
class SeatResolver {
  constructor(private readonly seats: GuardedSeats) {}

  @Query(() => String)
  call(@Args('method', { type: () => String }) method: 'book') {
    return this.seats[method]();
  }
}

@WebSocketGateway()
@UseFilters(LockExceptionFilter)
class SeatGateway {
  constructor(private readonly seats: GuardedSeats) {}

  @SubscribeMessage('call')
  async call(@MessageBody() method: 'book') {
    return { event: 'done', data: { text: await this.seats[method]() } };
  }
}

const startFastify: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app = closeLater(
    module.createNestApplication<NestFastifyApplication>(new FastifyAdapter()),
  );
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const call = async (method: string): Promise<Answer> => {
    const response = await fetch(`${url}/${method}`);
    const text = await response.text();
    const body = text.startsWith('{') ? (JSON.parse(text) as Answer) : { text };
    return { status: response.status, retryAfter: response.headers.get('retry-after'), ...body };
  };
  return { app, seats: module.get(GuardedSeats), call };
};

const startGraphql: StartTransport = async (redlock) => {
  const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    autoSchemaFile: true,
    // By default it closes the HTTP server before the locks are given back: later calls find no server, instead of an answer.
    stopOnApplicationShutdown: true,
  });
  const metadata = { imports: [graphql], providers: [SeatResolver, GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen(0, '127.0.0.1');
  const url = `${await app.getUrl()}/graphql`;
  const call = async (method: string): Promise<Answer> => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: `{ call(method: "${method}") }` }),
    });
    const { data, errors } = (await response.json()) as {
      data?: { call: string };
      errors?: { message: string; extensions: Answer }[];
    };
    return { text: data?.call, message: errors?.[0]?.message, ...errors?.[0]?.extensions };
  };
  return { app, seats: module.get(GuardedSeats), call };
};

const startWebSocket: StartTransport = async (redlock) => {
  const module = await startModule({ providers: [SeatGateway, GuardedSeats] }, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useWebSocketAdapter(new WsAdapter(app));
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const call = async (method: string): Promise<Answer> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    await once(socket, 'open');
    socket.send(JSON.stringify({ event: 'call', data: method }));
    const [message] = (await once(socket, 'message')) as [Buffer];
    socket.close();
    await once(socket, 'close');
    const { event, data } = JSON.parse(message.toString()) as { event: string; data: Answer };
    return { event, ...data };
  };
  return { app, seats: module.get(GuardedSeats), call };
};

describe('LockExceptionFilter', () => {
  afterEach(closeAll);

  it('answers on Fastify as on Express', async () => {
    expect(await answersToAll(startFastify)).toMatchObject({
      ...MEANINGS,
      done: { status: 200, text: 'booked' },
      busy: { status: 409, retryAfter: '10' },
      lost: { status: 409, retryAfter: null },
      stale: { status: 412 },
      other: { status: 500 },
      outage: { status: 503, retryAfter: '1' },
    });
    expect(await answersOfShutdown(startFastify)).toMatchObject({
      ...SHUTDOWN,
      refused: { status: 503, retryAfter: '1' },
      cutOff: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
    });
  });

  it('answers on Fastify before a handler, and breaks off what had begun', async () => {
    @Controller()
    class Streams {
      @Get('begun')
      async begun(@Res() reply: { raw: ServerResponse }) {
        reply.raw.write('begun');
        throw new StaleTokenError('seat:1', '33', '34');
      }

      @Get('first')
      first() {
        return 'not reached';
      }
    }

    class Application implements NestModule {
      configure(consumer: MiddlewareConsumer) {
        const refuse = () => {
          throw new LockBusyError(['seat:1'], 0, 1_500);
        };
        consumer.apply(refuse).forRoutes('first');
      }
    }
    Module({ controllers: [Streams] })(Application);

    const module = await startModule({ imports: [Application] });
    const app = closeLater(
      module.createNestApplication<NestFastifyApplication>(new FastifyAdapter()),
    );
    app.useGlobalFilters(new LockExceptionFilter());
    await app.listen(0, '127.0.0.1');
    const busy = await fetch(`${await app.getUrl()}/first`);
    expect([busy.status, busy.headers.get('retry-after')]).toEqual([409, '2']);
    expect(await busy.json()).toMatchObject({ code: 'LOCK_BUSY' });
    const begun = await fetch(`${await app.getUrl()}/begun`);
    await expect(begun.text()).rejects.toThrow('terminated');
  });

  it('puts the answer into the extensions of a GraphQL error', async () => {
    expect(await answersToAll(startGraphql)).toMatchObject({
      ...MEANINGS,
      done: { text: 'booked' },
      busy: { message: 'Another call is using this resource. Try again later.' },
      other: { message: 'something else', code: 'INTERNAL_SERVER_ERROR' },
    });
    expect(await answersOfShutdown(startGraphql)).toMatchObject(SHUTDOWN);
  });

  it('sends a WebSocket client the answer as the event of an exception', async () => {
    expect(await answersToAll(startWebSocket)).toMatchObject({
      ...MEANINGS,
      done: { event: 'done', text: 'booked' },
      busy: { event: 'exception', status: 'error' },
      other: { event: 'exception', message: 'Internal server error' },
    });
    expect(await answersOfShutdown(startWebSocket)).toMatchObject({
      ...SHUTDOWN,
      cutOff: { event: 'exception', status: 'error' },
    });
  });
});
