import 'reflect-metadata';
import {
  Controller,
  Get,
  HttpCode,
  Injectable,
  NotFoundException,
  Param,
  Post,
  SetMetadata,
  UseInterceptors,
  type INestApplication,
  type INestMicroservice,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import {
  ClientProxyFactory,
  MessagePattern,
  Payload,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom } from 'rxjs';
import {
  Fenced,
  FencedInterceptor,
  FencingToken,
  LockExceptionFilter,
  LockService,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import { Gate } from './support/critical-section.ts';
import {
  answersOfShutdown,
  GuardedSeats,
  itServes,
  SHUTDOWN,
  visit,
  type Answer,
  type StartTransport,
} from './support/guarded-seats.ts';

const entered = new Gate();
const leaves = new Gate();

@Controller()
class SeatController {
  constructor(
    private readonly seats: GuardedSeats,
    private readonly locks: LockService,
  ) {}

  @Get('call/:method')
  handle(@Param('method') method: 'book') {
    return this.seats[method]();
  }

  @MessagePattern('call')
  message(method: 'book') {
    return this.seats[method]();
  }

  @Fenced('seat:{0}')
  @Post('above/:id')
  @HttpCode(202)
  @SetMetadata('role', 'clerk')
  async above(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @Post('below/:id')
  @HttpCode(202)
  @Fenced('seat:{0}')
  async below(@Param('id') id: string, @FencingToken() token?: FencingToken) {
    return visit(id, token);
  }

  @Fenced('seat:{0.id}')
  @MessagePattern('above')
  async messageAbove(data: { id: string }, @FencingToken() token?: FencingToken) {
    return visit(data.id, token);
  }

  @MessagePattern('below')
  @Fenced('seat:{0.id}')
  async messageBelow(@Payload() data: { id: string }, @FencingToken() token?: FencingToken) {
    return visit(data.id, token);
  }

  @Fenced('seat:{0}')
  @Get('missing/:id')
  async missing(@Param('id') id: string): Promise<void> {
    throw new NotFoundException(`no seat ${id}`);
  }

  @UseInterceptors(FencedInterceptor)
  @Fenced('seat:{0}', { wait: 0 })
  @Get('by-hand/:id')
  async byHand(@Param('id') _id: string) {
    return { keys: this.locks.current()?.keys };
  }

  @Get('slow/:id')
  @Fenced('slow:{0}')
  async slow(@Param('id') id: string) {
    if (id !== 'held') return 'done';
    entered.open();
    await leaves.opened;
    return 'finished';
  }
}

const metadata = { controllers: [SeatController], providers: [GuardedSeats] };

async function get(url: string, path: string): Promise<Answer> {
  const response = await fetch(`${url}/${path}`);
  const retryAfter = response.headers.get('retry-after');
  const text = await response.text();
  const body = text.startsWith('{') ? (JSON.parse(text) as object) : { text };
  return { status: response.status, retryAfter, ...body };
}

const startExpress = async (redlock: object, filter = new LockExceptionFilter()) => {
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useGlobalFilters(filter);
  await app.listen(0, '127.0.0.1');
  const url = await app.getUrl();
  const book = async (place: string) => {
    const response = await fetch(`${url}/${place}/1`, { method: 'POST' });
    return response.status === 202 ? response.text() : response.status;
  };
  const call = (method: string) => get(url, `call/${method}`);
  return { app, url, seats: module.get(GuardedSeats), call, book };
};

const overTcp: MicroserviceOptions = {
  transport: Transport.TCP,
  options: { host: '127.0.0.1', port: 0 },
};

const startTcp: StartTransport = async (redlock) => {
  const module = await startModule(metadata, redlock);
  const app = closeLater(module.createNestMicroservice<MicroserviceOptions>(overTcp));
  app.useGlobalFilters(new LockExceptionFilter());
  await app.listen();
  return { app, seats: module.get(GuardedSeats), ...callersOf(app) };
};

const startHybrid: StartTransport = async (redlock) => {
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  app.useGlobalFilters(new LockExceptionFilter());
  const service = app.connectMicroservice<MicroserviceOptions>(overTcp, { inheritAppConfig: true });
  await app.startAllMicroservices();
  await app.init();
  return { app, seats: module.get(GuardedSeats), ...callersOf(service) };
};

function callersOf(service: INestMicroservice) {
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
  return { book, call };
}

itServes('Express', startExpress, {
  all: {
    done: { status: 200, text: 'booked' },
    busy: { status: 409, error: 'Conflict', retryAfter: '10', statusCode: 409 },
    lost: { status: 409, retryAfter: null },
    stale: { status: 412, error: 'Precondition Failed', retryAfter: null },
    misuse: { status: 500, message: 'Internal server error' },
    other: { status: 500, message: 'Internal server error' },
    outage: { status: 503, error: 'Service Unavailable', retryAfter: '1' },
  },
  shutdown: {
    refused: { ...SHUTDOWN.refused, status: 503, retryAfter: '1' },
    cutOff: { ...SHUTDOWN.cutOff, status: 503, error: 'Service Unavailable', retryAfter: '1' },
    errors: [],
  },
});

itServes('a microservice', startTcp, {
  all: {
    done: { text: 'booked' },
    busy: { status: 'error' },
    other: { status: 'error', message: 'Internal server error' },
  },
  // Nest closes the server of an application that is nothing else first: there is nobody left to answer.
  shutdown: { refused: { message: 'Connection closed' }, errors: [] },
});

describe('HTTP', () => {
  afterEach(closeAll);

  it('answers 423 by option', async () => {
    const nodes = createMemoryNodes(3);
    const { call } = await startExpress({ nodes }, new LockExceptionFilter({ busyStatus: 423 }));
    await using _other = await occupy(nodes, 'seat:1');
    expect(await call('book')).toMatchObject({ status: 423, error: 'Locked' });
  });

  it('answers what a method under @Fenced throws, and locks once where the interceptor is bound by hand', async () => {
    const { url } = await startExpress({});
    expect(await get(url, 'missing/9')).toMatchObject({ status: 404, message: 'no seat 9' });
    expect(await get(url, 'by-hand/1')).toMatchObject({ status: 200, keys: ['seat:1'] });
    const { above } = SeatController.prototype as unknown as { above: () => void };
    expect(new Reflector().get('role', above)).toBe('clerk');
  });

  it('is not 500 while an application shuts down with calls under way', async () => {
    const { app, url } = await startExpress({ shutdownTimeout: '5s' });
    const held = get(url, 'slow/held');
    await entered.opened;
    const closed = app.close();
    const during = await get(url, 'slow/other');
    leaves.open();
    expect(during).toMatchObject({ status: 503, code: 'REDLOCK_CLOSED', retryAfter: '1' });
    expect(await held).toMatchObject({ status: 200, text: 'finished' });
    await closed;
  });

  it('of a hybrid application shuts down after its microservice has answered', async () => {
    expect(await answersOfShutdown(startHybrid)).toMatchObject(SHUTDOWN);
  });
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

describe.each(['above', 'below'])('@Fenced %s', (place) => {
  afterEach(closeAll);

  it('@Cron locks the job, and skips it when busy', async () => {
    const received: string[] = [];
    const nodes = createMemoryNodes(3);
    const module = await startModule(
      { imports: [ScheduleModule.forRoot()], providers: [Jobs] },
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
    await eventually(() => expect(seen).toEqual([['job:nightly']]));
  });

  it('@OnEvent locks the handler', async () => {
    const imports = [EventEmitterModule.forRoot()];
    const module = await startModule({ imports, providers: [Jobs] });
    const emitter = module.get(EventEmitter2);
    await Promise.all([1, 2].map(() => emitter.emitAsync(place, { id: '7' })));
    expect(module.get(Jobs).seen).toEqual(['7 order:7', '7 order:7']);
  });
});
