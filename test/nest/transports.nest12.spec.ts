import 'reflect-metadata';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ApolloDriver, type ApolloDriverConfig } from '@nestjs/apollo';
import {
  Controller,
  Get,
  Module,
  Res,
  UseFilters,
  type INestApplication,
  type MiddlewareConsumer,
  type ModuleMetadata,
  type NestModule,
} from '@nestjs/common';
import { Args, GraphQLModule, Query, Resolver } from '@nestjs/graphql';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, expect, it } from '@jest/globals';
import { WebSocket } from 'ws';
import {
  Fenced,
  FencingToken,
  LockBusyError,
  LockExceptionFilter,
  StaleTokenError,
} from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import {
  GuardedSeats,
  HTTP_TABLE,
  itServes,
  OVER_HTTP,
  serveHttp,
  visit,
  type Answer,
  type StartTransport,
} from './support/transport-table.ts';

const idArgument = () => Args('id', { type: () => String });

@Resolver()
class SeatResolver {
  constructor(private readonly seats: GuardedSeats) {}

  @Query(() => String)
  call(@Args('method', { type: () => String }) method: 'book') {
    return this.seats[method]();
  }

  @Fenced('seat:{0}')
  @Query(() => String)
  async above(@idArgument() id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @Query(() => String)
  @Fenced('seat:{0}')
  async below(@idArgument() id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
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

  @Fenced('seat:{0}')
  @SubscribeMessage('above')
  async above(@MessageBody() id: string, @FencingToken() token?: FencingToken) {
    return { event: 'done', data: { text: await visit(id, token) } };
  }

  @SubscribeMessage('below')
  @Fenced('seat:{0}')
  async below(@MessageBody() id: string, @FencingToken() token?: FencingToken) {
    return { event: 'done', data: { text: await visit(id, token) } };
  }
}

const startFastify = async (redlock: object = {}, metadata: ModuleMetadata = OVER_HTTP) => {
  const module = await startModule(metadata, redlock);
  return serveHttp(module, module.createNestApplication(new FastifyAdapter()));
};

afterEach(closeAll);

const startGraphql: StartTransport = async (redlock) => {
  const graphql = GraphQLModule.forRoot<ApolloDriverConfig>({
    driver: ApolloDriver,
    autoSchemaFile: true,
    // GraphQL by default closes the HTTP server before the locks are given back: later calls find no server, not an answer.
    stopOnApplicationShutdown: true,
  });
  const metadata = { imports: [graphql], providers: [SeatResolver, GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  await app.listen(0, '127.0.0.1');
  const url = `${await app.getUrl()}/graphql`;
  const query = async (text: string): Promise<Answer> => {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ query: `{ text: ${text} }` }),
    });
    const { data, errors } = (await response.json()) as {
      data?: { text: string };
      errors?: { message: string; extensions: Answer }[];
    };
    return { text: data?.text, message: errors?.[0]?.message, ...errors?.[0]?.extensions };
  };
  const call = (method: string) => query(`call(method: "${method}")`);
  const book = async (place: string) => (await query(`${place}(id: "1")`)).text;
  return { app, seats: module.get(GuardedSeats), call, book };
};

const startWebSocket: StartTransport = async (redlock) => {
  const module = await startModule({ providers: [SeatGateway, GuardedSeats] }, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useWebSocketAdapter(new WsAdapter(app));
  await app.listen(0, '127.0.0.1');
  const { port } = app.getHttpServer().address() as AddressInfo;
  const send = async (message: object): Promise<Answer> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    await once(socket, 'open');
    socket.send(JSON.stringify(message));
    const [received] = (await once(socket, 'message')) as [Buffer];
    socket.close();
    await once(socket, 'close');
    const { event, data } = JSON.parse(received.toString()) as { event: string; data: Answer };
    return { event, ...data };
  };
  const call = (method: string) => send({ event: 'call', data: method });
  const book = async (place: string) => (await send({ event: place, data: '1' })).text;
  return { app, seats: module.get(GuardedSeats), call, book };
};

itServes('Fastify', startFastify, HTTP_TABLE);

itServes('GraphQL', startGraphql, {
  other: { message: 'something else', code: 'INTERNAL_SERVER_ERROR' },
});

itServes('a WebSocket gateway', startWebSocket, {
  done: { event: 'done' },
  busy: { event: 'exception', status: 'error' },
  other: { event: 'exception', message: 'Internal server error' },
});

it('Fastify answers before a handler, and breaks off what had begun', async () => {
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

  const { url } = await startFastify({}, { ...OVER_HTTP, imports: [Application] });
  const busy = await fetch(`${url}/first`);
  expect([busy.status, busy.headers.get('retry-after')]).toEqual([409, '1']);
  expect(await busy.json()).toMatchObject({ code: 'LOCK_BUSY' });
  const begun = await fetch(`${url}/begun`);
  await expect(begun.text()).rejects.toThrow('terminated');
});
