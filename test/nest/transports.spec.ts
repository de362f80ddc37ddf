import 'reflect-metadata';
import type { ServerResponse } from 'node:http';
import {
  Catch,
  Controller,
  Injectable,
  type ArgumentsHost,
  type ExceptionFilter,
  type INestApplication,
  type Provider,
} from '@nestjs/common';
import { APP_FILTER, Reflector } from '@nestjs/core';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import {
  ClientProxyFactory,
  MessagePattern,
  Payload,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, expect, it } from '@jest/globals';
import { lastValueFrom } from 'rxjs';
import { Fenced, FencingToken, LockService } from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import {
  GuardedSeats,
  HTTP_TABLE,
  itServes,
  OVER_HTTP,
  SeatController,
  serveHttp,
  visit,
  type Answer,
  type StartTransport,
} from './support/transport-table.ts';

afterEach(closeAll);

const startExpress = async (redlock: object) => {
  const module = await startModule(OVER_HTTP, redlock);
  return serveHttp(module, module.createNestApplication());
};

@Controller()
class SeatMessages {
  constructor(private readonly seats: GuardedSeats) {}

  @MessagePattern('call')
  message(method: 'book') {
    return this.seats[method]();
  }

  @Fenced('seat:{0.id}')
  @MessagePattern('above')
  async above(data: { id: string }, @FencingToken() token?: FencingToken) {
    return visit(data.id, token);
  }

  @MessagePattern('below')
  @Fenced('seat:{0.id}')
  async below(@Payload() data: { id: string }, @FencingToken() token?: FencingToken) {
    return visit(data.id, token);
  }
}

/** Hybrid: of an application that is nothing else, Nest closes the server before it can answer. */
const startMicroservice: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatMessages], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  const tcp: MicroserviceOptions = {
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port: 0 },
  };
  const service = app.connectMicroservice<MicroserviceOptions>(tcp, { inheritAppConfig: true });
  await app.startAllMicroservices();
  await app.init();
  const { port } = service.unwrap<{ address(): { port: number } }>().address();
  const client = ClientProxyFactory.create({
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port },
  });
  closeLater({ close: async () => client.close() });
  const book = (place: string) => lastValueFrom(client.send<unknown>(place, { id: '1' }));
  const call = (method: string) =>
    lastValueFrom(client.send<string>('call', method)).then(
      (text): Answer => ({ text }),
      (error: Answer) => error,
    );
  return { app, seats: module.get(GuardedSeats), book, call };
};

itServes('Express', startExpress, HTTP_TABLE);

itServes('a microservice', startMicroservice, {
  busy: { status: 'error' },
  other: { status: 'error', message: 'Internal server error' },
});

it('HTTP answers what a method throws, which is locked once where the interceptor is bound by hand', async () => {
  const { get } = await startExpress({});
  const answer = { status: 404, message: 'no seat 9, seat:9' };
  expect(await get('missing/9')).toMatchObject(answer);
  const { above } = SeatController.prototype as unknown as { above: () => void };
  expect(new Reflector().get('role', above)).toBe('clerk');
});

@Catch()
class Everything implements ExceptionFilter {
  catch(_error: unknown, host: ArgumentsHost): void {
    host.switchToHttp().getResponse<ServerResponse>().writeHead(418).end('{}');
  }
}

it.each<[who: string, status: number, providers: Provider[], redlock: object]>([
  ['the module, unless it is told not to', 500, [], { httpErrors: false }],
  ['a filter of the application', 418, [{ provide: APP_FILTER, useClass: Everything }], {}],
])('HTTP errors of locks are answered by %s', async (_who, status, providers, redlock) => {
  const nodes = createMemoryNodes(3);
  const metadata = { ...OVER_HTTP, providers: [...OVER_HTTP.providers, ...providers] };
  const module = await startModule(metadata, { nodes, ...redlock });
  const { call } = await serveHttp(module, module.createNestApplication());
  await using _other = await occupy(nodes, 'seat:1');
  expect(await call('book')).toMatchObject({ status });
});

@Injectable()
class Jobs {
  readonly seen: unknown[] = [];

  constructor(private readonly locks: LockService) {}

  // Never due while a test runs; the tests fire it themselves.
  @Fenced('job:nightly', { onBusy: 'skip' })
  @Cron('0 0 1 1 *', { name: 'above' })
  async cronAbove(): Promise<void> {
    this.seen.push(this.locks.current()?.keys);
  }

  @Cron('0 0 1 1 *', { name: 'below' })
  @Fenced('job:nightly', { onBusy: 'skip' })
  async cronBelow(): Promise<void> {
    this.seen.push(this.locks.current()?.keys);
  }

  @Fenced('order:{0.id}')
  @OnEvent('above')
  async eventAbove(order: { id: string }, @FencingToken() token?: FencingToken): Promise<void> {
    this.seen.push(await visit(order.id, token));
  }

  @OnEvent('below')
  @Fenced('order:{0.id}')
  async eventBelow(order: { id: string }, @FencingToken() token?: FencingToken): Promise<void> {
    this.seen.push(await visit(order.id, token));
  }
}

it.each(['above', 'below'])(
  '@Fenced %s @Cron locks the job and skips it when busy, and @OnEvent locks the handler',
  async (place) => {
    const received: string[] = [];
    const nodes = createMemoryNodes(3);
    const imports = [ScheduleModule.forRoot(), EventEmitterModule.forRoot()];
    const module = await startModule(
      { imports, providers: [Jobs] },
      { nodes, onEvent: ({ type }) => received.push(type) },
    );
    const { seen } = module.get(Jobs);
    const job = module.get(SchedulerRegistry).getCronJob(place);
    const other = await occupy(nodes, 'job:nightly');
    await job.fireOnTick();
    await eventually(() => expect(received).toContain('busy'));
    expect(seen).toEqual([]);
    await other.release();
    await job.fireOnTick();
    await eventually(() => expect(seen.splice(0)).toEqual([['job:nightly']]));
    const emitter = module.get(EventEmitter2);
    await Promise.all([1, 2].map(() => emitter.emitAsync(place, { id: '7' })));
    expect(seen).toEqual(['7 order:7', '7 order:7']);
  },
);
