import 'reflect-metadata';
import { Controller, Injectable, type INestApplication } from '@nestjs/common';
import { EventEmitter2, EventEmitterModule, OnEvent } from '@nestjs/event-emitter';
import {
  ClientProxyFactory,
  EventPattern,
  MessagePattern,
  Payload,
  Transport,
} from '@nestjs/microservices';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { afterEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom } from 'rxjs';
import { Fenced, FencingToken, LockService } from '../../lib/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@Controller()
class SeatMessages {
  @Fenced('seat:{0.id}')
  @MessagePattern('above')
  async above(data: { id: string }, @FencingToken() token?: FencingToken) {
    return section.visit({ id: data.id, keys: token?.keys });
  }

  @MessagePattern('below')
  @Fenced('seat:{0.id}')
  async below(@Payload() data: { id: string }, @FencingToken() token?: FencingToken) {
    return section.visit({ id: data.id, keys: token?.keys });
  }

  @Fenced('seat:{0.id}')
  @EventPattern('event')
  async event(@Payload() _data: { id: string }) {
    await section.visit();
  }
}

@Injectable()
class Jobs {
  readonly seen: unknown[] = [];

  constructor(private readonly locks: LockService) {}

  // Never due while a test runs; the tests fire it themselves.
  @Fenced('job:nightly', { onBusy: 'skip' })
  @Cron('0 0 1 1 *', { name: 'above' })
  async above(): Promise<void> {
    this.seen.push(this.locks.current()?.keys);
  }

  @Cron('0 0 1 1 *', { name: 'below' })
  @Fenced('job:nightly', { onBusy: 'skip' })
  async below(): Promise<void> {
    this.seen.push(this.locks.current()?.keys);
  }

  @Fenced('order:{0.id}')
  @OnEvent('order.above')
  async orderAbove(order: { id: string }, @FencingToken() token?: FencingToken): Promise<void> {
    await section.visit();
    this.seen.push([order.id, token?.keys]);
  }

  @OnEvent('order.below')
  @Fenced('order:{0.id}')
  async orderBelow(order: { id: string }, @FencingToken() token?: FencingToken): Promise<void> {
    await section.visit();
    this.seen.push([order.id, token?.keys]);
  }
}

describe('@Fenced on handlers that Nest calls', () => {
  afterEach(closeAll);
  afterEach(() => section.reset());

  async function startTcp() {
    const module = await startModule({ controllers: [SeatMessages] });
    const app: INestApplication = closeLater(module.createNestApplication());
    const service = app.connectMicroservice({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: 0 },
    });
    await app.startAllMicroservices();
    const { port } = service.unwrap<{ address(): { port: number } }>().address();
    const client = ClientProxyFactory.create({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port },
    });
    closeLater({ close: async () => client.close() });
    return client;
  }

  it.each(['above', 'below'])('locks a TCP message handler with @Fenced %s', async (pattern) => {
    const client = await startTcp();
    const answers = await Promise.all(
      [1, 2, 3].map(() => lastValueFrom(client.send(pattern, { id: '1' }))),
    );
    expect(answers).toEqual([1, 2, 3].map(() => ({ id: '1', keys: ['seat:1'] })));
    expect(section.mostInside).toBe(1);
  });

  it('locks a TCP event handler', async () => {
    const client = await startTcp();
    await Promise.all([1, 2, 3].map(() => lastValueFrom(client.emit('event', { id: '1' }))));
    await eventually(() => expect(section.entered).toBe(3));
    await eventually(() => expect(section.inside).toBe(0));
    expect(section.mostInside).toBe(1);
  });

  it.each(['above', 'below'])(
    'locks a @Cron job with @Fenced %s, and skips it when busy',
    async (name) => {
      const received: string[] = [];
      const module = await startModule(
        { imports: [ScheduleModule.forRoot()], providers: [Jobs] },
        { onEvent: ({ type }) => received.push(type) },
      );
      const jobs = module.get(Jobs);
      const job = module.get(SchedulerRegistry).getCronJob(name);
      await job.fireOnTick();
      await eventually(() => expect(jobs.seen).toEqual([['job:nightly']]));
      await eventually(() => expect(received).toContain('released'));
      const lock = await module.get(LockService).acquire('job:nightly');
      await job.fireOnTick();
      await eventually(() => expect(received).toContain('busy'));
      await lock.release();
      await job.fireOnTick();
      await eventually(() => expect(jobs.seen).toHaveLength(2));
    },
  );

  it.each(['above', 'below'])('locks an @OnEvent handler with @Fenced %s', async (place) => {
    const module = await startModule({
      imports: [EventEmitterModule.forRoot()],
      providers: [Jobs],
    });
    const emitter = module.get(EventEmitter2);
    await Promise.all([1, 2, 3].map(() => emitter.emitAsync(`order.${place}`, { id: '7' })));
    expect(module.get(Jobs).seen).toEqual([1, 2, 3].map(() => ['7', ['order:7']]));
    expect(section.mostInside).toBe(1);
  });
});
