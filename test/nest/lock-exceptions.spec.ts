import 'reflect-metadata';
import {
  Controller,
  Get,
  Param,
  type INestApplication,
  type INestMicroservice,
  UseFilters,
} from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { afterEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom } from 'rxjs';
import { Fenced, LockExceptionFilter } from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
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

  @MessagePattern('seat')
  message(method: 'book') {
    return this.seats[method]();
  }
}

async function get(url: string, path: string) {
  const response = await fetch(`${url}/${path}`);
  const retryAfter = response.headers.get('retry-after');
  const text = await response.text();
  const body = text.startsWith('{') ? (JSON.parse(text) as object) : { text };
  return { status: response.status, retryAfter, ...body };
}

const startExpress: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  return { app, seats: module.get(GuardedSeats), call: (method) => get(url, method) };
};

const overTcp: MicroserviceOptions = {
  transport: Transport.TCP,
  options: { host: '127.0.0.1', port: 0 },
};

const startTcp: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app = closeLater(module.createNestMicroservice<MicroserviceOptions>(overTcp));
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen();
  return { app, seats: module.get(GuardedSeats), call: callerOf(app) };
};

const startHybrid: StartTransport = async (redlock) => {
  const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useGlobalFilters(new LockExceptionFilter());
  const service = app.connectMicroservice<MicroserviceOptions>(overTcp, { inheritAppConfig: true });
  await app.startAllMicroservices();
  await app.init();
  return { app, seats: module.get(GuardedSeats), call: callerOf(service) };
};

function callerOf(service: INestMicroservice): (method: string) => Promise<Answer> {
  const { port } = service.unwrap<{ address(): { port: number } }>().address();
  const client = ClientProxyFactory.create({
    transport: Transport.TCP,
    options: { host: '127.0.0.1', port },
  });
  closeLater({ close: async () => client.close() });
  return async (method) => {
    try {
      return { text: await lastValueFrom(client.send<string>('seat', method)) };
    } catch (error) {
      return error as Answer;
    }
  };
}

describe('LockExceptionFilter', () => {
  afterEach(closeAll);

  it('answers every lock error over HTTP with its own status, and says when to try again', async () => {
    const answers = await answersToAll(startExpress);
    expect(answers).toMatchObject({
      ...MEANINGS,
      done: { status: 200, text: 'booked' },
      busy: { status: 409, error: 'Conflict', retryAfter: '10', statusCode: 409 },
      lost: { status: 409, retryAfter: null },
      stale: { status: 412, error: 'Precondition Failed', retryAfter: null },
      foreign: { status: 412 },
      misuse: { status: 500, message: 'Internal server error' },
      other: { status: 500, message: 'Internal server error' },
      outage: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
    });
    // Only the newer holder needs its token.
    expect(JSON.stringify(answers.stale)).not.toContain('34');
  });

  it('answers 503 while an application shuts down, also to work that was cut off', async () => {
    expect(await answersOfShutdown(startExpress)).toMatchObject({
      ...SHUTDOWN,
      refused: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
      cutOff: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
    });
  });

  it('answers 423 by option, and is silent about contention', async () => {
    const logged: unknown[] = [];
    const log = (...entry: unknown[]) => void logged.push(entry);
    const nodes = createMemoryNodes(3);
    const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
    const module = await startModule(metadata, { nodes });
    const app: INestApplication = closeLater(module.createNestApplication());
    app.useGlobalFilters(new LockExceptionFilter({ busyStatus: 423 }));
    await app.listen(0, '127.0.0.1');
    app.useLogger({ log, warn: log, error: log });
    await using _other = await occupy(nodes, 'seat:1');
    expect(await get(await app.getUrl(), 'book')).toMatchObject({ status: 423, error: 'Locked' });
    expect(logged).toEqual([]);
  });

  it('gives a microservice the same answers', async () => {
    expect(await answersToAll(startTcp)).toMatchObject({
      ...MEANINGS,
      done: { text: 'booked' },
      busy: { status: 'error', message: expect.stringContaining('Try again later') },
      other: { status: 'error', message: 'Internal server error' },
    });
    expect(await answersOfShutdown(startHybrid)).toMatchObject({
      ...SHUTDOWN,
      cutOff: { status: 'error', message: expect.stringContaining('what was done') },
    });
    // Nest closes the server of an application that is nothing else first: there is nobody left to answer.
    const closed = { message: 'Connection closed' };
    expect(await answersOfShutdown(startTcp)).toMatchObject({ refused: closed, errors: [] });
  });

  it('leaves no answer 500 while an application shuts down with calls under way', async () => {
    const entered = new Gate();
    const leaves = new Gate();

    @Controller()
    @UseFilters(LockExceptionFilter)
    class Slow {
      @Get(':id')
      @Fenced('slow:{0}')
      async work(@Param('id') id: string) {
        if (id !== 'held') return 'done';
        entered.open();
        await leaves.opened;
        return 'finished';
      }
    }

    const module = await startModule({ controllers: [Slow] }, { shutdownTimeout: '5s' });
    const app: INestApplication = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    const url = await app.getUrl();
    const held = get(url, 'held');
    await entered.opened;
    const closed = app.close();
    const during = await get(url, 'other');
    leaves.open();
    expect(during).toMatchObject({ status: 503, code: 'REDLOCK_CLOSED', retryAfter: '1' });
    expect(await held).toMatchObject({ status: 200, text: 'finished' });
    await closed;
  });
});
