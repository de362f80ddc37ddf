import { AsyncResource } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import Bottleneck from 'bottleneck';
import fastq from 'fastq';
import { Redis } from 'ioredis';
import PQueue from 'p-queue';
import { concatMap, Subject } from 'rxjs';
import { redisFence } from '../../lib/fencing/index.ts';
import { Fenced, FencingToken, fencingToken } from '../../lib/index.ts';
import { closeAll, startModule } from '../nest/support/applications.ts';
import { CriticalSection, Gate } from '../nest/support/critical-section.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

type Task = () => Promise<void>;
type Enqueue = (task: Task) => Promise<unknown>;

// async and async-lock come without types.
const require = createRequire(import.meta.url);
const { queue } = require('async') as { queue: (work: (task: Task) => unknown, size: 1) => any };
const AsyncLock = require('async-lock') as new () => { acquire(key: string, task: Task): any };

/** Queues that run one task after the other, and start the next one in the async context of the one that ended. */
const QUEUES: Readonly<Record<string, () => Enqueue>> = {
  bottleneck: () => {
    const limiter = new Bottleneck({ maxConcurrent: 1 });
    return (task) => limiter.schedule(task);
  },
  fastq: () => {
    const tasks = fastq.promise((task: Task) => task(), 1);
    return (task) => tasks.push(task);
  },
  'async.queue': () => {
    const tasks = queue(async (task) => task(), 1);
    return (task) => tasks.pushAsync(task);
  },
  'async-lock': () => {
    const lock = new AsyncLock();
    return (task) => lock.acquire('payment', task);
  },
  'rxjs concatMap': () => {
    const tasks = new Subject<Task>();
    tasks.pipe(concatMap((task) => task())).subscribe();
    return (task) =>
      new Promise((resolve) => tasks.next(() => Promise.resolve(task()).then(resolve, resolve)));
  },
  'p-queue 7': () => {
    const tasks = new PQueue({ concurrency: 1 });
    return (task) => tasks.add(task);
  },
};

describe('work that a queue shared with others starts inside of a section', () => {
  const section = new CriticalSection();
  let redis: Redis;
  useRedisServers(1, {}, ([server]) => {
    redis = new Redis(server!.url);
    return () => redis.disconnect();
  });
  beforeEach(() => redis.flushall());
  afterEach(closeAll);

  @Injectable()
  class SeatService {
    @Fenced('seat:{0}')
    async book(
      seat: string,
      who: string,
      pay: Task,
      @FencingToken() token = fencingToken(),
    ): Promise<void> {
      section.enter();
      await pay();
      await redisFence(redis).write(token, [['RPUSH', `owners:${seat}`, who]]);
      section.leave();
    }
  }

  /** Ben's booking is queued while Ana is inside and pays through the same queue. */
  async function bookThrough(enqueue: Enqueue, bind: (task: Task) => Task) {
    section.reset();
    const module = await startModule({ providers: [SeatService] });
    const seats = module.get(SeatService);
    const paying = new Gate();
    const first = seats.book('12A', 'ana', async () => {
      await enqueue(async () => {
        paying.open();
        await sleep(20);
      });
      await sleep(50);
    });
    await paying.opened;
    let outcome = 'booked';
    const book = bind(() =>
      seats.book('12A', 'ben', () => sleep(1)).catch((error) => void (outcome = error)),
    );
    await Promise.all([first, enqueue(book)]);
    const owners = await redis.lrange('owners:12A', 0, -1);
    return { outcome, owners, mostInside: section.mostInside };
  }

  it.each(Object.keys(QUEUES))('%s: is refused, and never runs beside the holder', async (name) => {
    const message = expect.stringMatching(/inside of SeatService\.book, which holds .*"seat:12A"/);
    expect(await bookThrough(QUEUES[name]!(), (task) => task)).toMatchObject({
      outcome: { code: 'FENCED_USAGE', message },
      owners: ['ana'],
      mostInside: 1,
    });
  });

  it.each(Object.keys(QUEUES))('%s: waits its turn with AsyncResource.bind', async (name) => {
    const result = await bookThrough(QUEUES[name]!(), (task) => AsyncResource.bind(task));
    expect(result).toEqual({ outcome: 'booked', owners: ['ana', 'ben'], mostInside: 1 });
  });
});
