import 'reflect-metadata';
import { Controller, Get, Param, type INestApplication, UseFilters } from '@nestjs/common';
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
import { answersToAll, guardedNodes, GuardedSeats, MEANINGS } from './support/guarded-seats.ts';

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

async function get(app: INestApplication, path: string) {
  const response = await fetch(`${await app.getUrl()}/${path}`);
  const retryAfter = response.headers.get('retry-after');
  const text = await response.text();
  const body = text.startsWith('{') ? (JSON.parse(text) as object) : { text };
  return { status: response.status, retryAfter, ...body };
}

describe('LockExceptionFilter', () => {
  afterEach(closeAll);

  it('answers every lock error over HTTP with its own status, and says when to try again', async () => {
    const { nodes, redlock } = guardedNodes();
    const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
    const module = await startModule(metadata, redlock);
    const app: INestApplication = closeLater(module.createNestApplication());
    app.useGlobalFilters(new LockExceptionFilter());
    await app.listen(0, '127.0.0.1');
    const answers = await answersToAll(nodes, module.get(GuardedSeats), (method) =>
      get(app, method),
    );
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
    expect(await get(app, 'book')).toMatchObject({ status: 423, error: 'Locked' });
    expect(logged).toEqual([]);
  });

  it('gives a microservice the same answers', async () => {
    const { nodes, redlock } = guardedNodes();
    const metadata = { controllers: [SeatController], providers: [GuardedSeats] };
    const module = await startModule(metadata, redlock);
    const server = closeLater(
      module.createNestMicroservice<MicroserviceOptions>({
        transport: Transport.TCP,
        options: { host: '127.0.0.1', port: 0 },
      }),
    );
    server.useGlobalFilters(new LockExceptionFilter());
    await server.listen();
    const { port } = server.unwrap<{ address(): { port: number } }>().address();
    const client = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port },
    });
    const call = async (method: string) => {
      try {
        return { text: await lastValueFrom(client.send<string>('seat', method)) };
      } catch (error) {
        return error as Record<string, unknown>;
      }
    };
    const answers = await answersToAll(nodes, module.get(GuardedSeats), call);
    await client.close();
    expect(answers).toMatchObject({
      ...MEANINGS,
      done: { text: 'booked' },
      busy: { status: 'error', message: expect.stringContaining('Try again later') },
      other: { status: 'error', message: 'Internal server error' },
    });
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
    const held = get(app, 'held');
    await entered.opened;
    const closed = app.close();
    const during = await get(app, 'other');
    leaves.open();
    expect(during).toMatchObject({ status: 503, code: 'REDLOCK_CLOSED', retryAfter: '1' });
    expect(await held).toMatchObject({ status: 200, text: 'finished' });
    await closed;
  });
});
