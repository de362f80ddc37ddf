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
  itServes,
  SHUTDOWN,
  visit,
  type Answer,
  type StartTransport,
} from './support/guarded-seats.ts';

@Controller()
class SeatController {
  constructor(private readonly seats: GuardedSeats) {}

  @Get('call/:method')
  handle(@Param('method') method: 'book') {
    return this.seats[method]();
  }

  @Fenced('seat:{0}')
  @Get('above/:id')
  async above(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @Get('below/:id')
  @Fenced('seat:{0}')
  async below(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }
}

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

async function listenOnFastify(metadata: object, redlock = {}) {
  const module = await startModule(metadata, redlock);
  const app = closeLater(
    module.createNestApplication<NestFastifyApplication>(new FastifyAdapter()),
  );
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen(0, '127.0.0.1');
  return { app, module, url: await app.getUrl() };
}

const startFastify: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
  const { app, module, url } = await listenOnFastify(metadata, redlock);
  const call = async (method: string): Promise<Answer> => {
    const response = await fetch(`${url}/call/${method}`);
    const text = await response.text();
    const body = text.startsWith('{') ? (JSON.parse(text) as Answer) : { text };
    return { status: response.status, retryAfter: response.headers.get('retry-after'), ...body };
  };
  const book = async (place: string) => (await fetch(`${url}/${place}/1`)).text();
  return { app, seats: module.get(GuardedSeats), call, book };
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

itServes('Fastify', startFastify, {
  all: {
    done: { status: 200, text: 'booked' },
    busy: { status: 409, retryAfter: '10' },
    lost: { status: 409, retryAfter: null },
    stale: { status: 412 },
    other: { status: 500 },
    outage: { status: 503, retryAfter: '1' },
  },
  shutdown: {
    refused: { ...SHUTDOWN.refused, status: 503, retryAfter: '1' },
    cutOff: { ...SHUTDOWN.cutOff, status: 503, retryAfter: '1' },
    errors: [],
  },
});

itServes('GraphQL', startGraphql, {
  all: {
    done: { text: 'booked' },
    other: { message: 'something else', code: 'INTERNAL_SERVER_ERROR' },
  },
  shutdown: SHUTDOWN,
});

itServes('a WebSocket gateway', startWebSocket, {
  all: {
    done: { event: 'done', text: 'booked' },
    busy: { event: 'exception', status: 'error' },
    other: { event: 'exception', message: 'Internal server error' },
  },
  shutdown: SHUTDOWN,
});

afterEach(closeAll);

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

  const { url } = await listenOnFastify({ imports: [Application] });
  const busy = await fetch(`${url}/first`);
  expect([busy.status, busy.headers.get('retry-after')]).toEqual([409, '2']);
  expect(await busy.json()).toMatchObject({ code: 'LOCK_BUSY' });
  const begun = await fetch(`${url}/begun`);
  await expect(begun.text()).rejects.toThrow('terminated');
});
