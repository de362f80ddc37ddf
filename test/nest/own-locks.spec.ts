import 'reflect-metadata';
import { once } from 'node:events';
import { Injectable, type LoggerService } from '@nestjs/common';
import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import Database from 'libsql';
import { sqliteFence } from '../../lib/fencing/index.ts';
import {
  Fenced,
  FencingToken,
  fencingToken,
  LockService,
  LockSignal,
  lockSignal,
  type LockEvent,
} from '../../lib/index.ts';
import { createFencingToken } from '../../lib/testing/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { closeAll, silentLogger, startModule } from './support/applications.ts';
import { Recorder } from './support/recorder.ts';

const database = new Database(':memory:');
const fence = sqliteFence(database);
database.exec(fence.ddl());

@Injectable()
class Seats {
  constructor(readonly locks: LockService) {}

  @Fenced('seat:{0}')
  async book(_seat: string): Promise<string> {
    return this.locks.current()!.token.holder;
  }

  @Fenced(['seat:{0}', 'hall:{1}'], { signal: (_seat, _hall, signal) => signal })
  async move(_seat: string, _hall: string, _signal: AbortSignal): Promise<void> {}

  @Fenced((seat: string) => `seat:${seat}`, { wait: 0 })
  async cancel(_seat: string): Promise<void> {}

  @Fenced('stuck:{0}', { maxHold: '200ms' })
  async stick(_seat: string, @LockSignal() signal = lockSignal()): Promise<void> {
    await once(signal, 'abort');
  }

  @Fenced('stale:{0}')
  async write(_seat: string, @FencingToken() token = fencingToken()): Promise<void> {
    await fence.claim(token).catch(() => undefined);
  }
}

async function start(logger: LoggerService = silentLogger) {
  const events: LockEvent[] = [];
  const onEvent = (event: LockEvent) => void ('keys' in event && events.push(event));
  const module = await startModule({ providers: [Seats] }, { ttl: '1h', fence, onEvent });
  module.useLogger(logger);
  return { seats: module.get(Seats), locks: module.get(LockService), events };
}

afterEach(closeAll);
afterAll(() => void database.close());

describe('an event about a lock', () => {
  it('names the method under @Fenced, its template, and the holder', async () => {
    const { seats, events } = await start();
    const holder = await seats.book('1');
    await seats.move('1', '2', new AbortController().signal);
    const book = { keys: ['seat:1'], where: 'Seats.book', template: 'seat:{0}', holder };
    const move = { where: 'Seats.move', template: 'seat:{0},hall:{1}' };
    expect(events).toMatchObject([
      { type: 'acquired', ...book },
      { type: 'released', ...book },
      { type: 'acquired', ...move },
      { type: 'released', ...move },
    ]);
  });

  it('has no template where a function makes the key, and names no method for a call of the service', async () => {
    const { seats, locks, events } = await start();
    await locks.withLock('seat:1', () => undefined);
    expect(events.map(({ type }) => type)).toEqual(['acquired', 'released']);
    for (const event of events) expect(event).not.toHaveProperty('where');
    await using _lock = await locks.acquire('seat:1');
    await expect(seats.cancel('1')).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    expect(events.at(-1)).toMatchObject({ type: 'busy', where: 'Seats.cancel' });
    expect(events.at(-1)).not.toHaveProperty('template');
  });

  it('names the method also where the fence refuses its token', async () => {
    const { seats, events } = await start();
    await fence.claim(createFencingToken('stale:1', Date.now() * 1_000 + 60_000_000));
    await seats.write('1');
    expect(events.filter(({ type }) => type === 'stale')).toMatchObject([
      { keys: ['stale:1'], where: 'Seats.write', template: 'stale:{0}' },
    ]);
  });
});

describe('LockService', () => {
  const servers = useRedisServers(1);

  it('says what this process holds and waits for, by method, and how its servers do', async () => {
    const nodes = servers.map(({ url }) => url);
    const module = await startModule({ providers: [Seats] }, { nodes, ttl: '1h', wait: '1h' });
    const [seats, locks] = [module.get(Seats), module.get(LockService)];
    const book = { where: 'Seats.book', template: 'seat:{0}' };
    const lock = await locks.acquire('seat:1');
    const booking = seats.book('1');
    const { held, waiting } = locks.held();
    expect(held).toMatchObject([{ keys: ['seat:1'], holder: lock.token.holder, sections: 1 }]);
    expect(waiting).toMatchObject([{ keys: ['seat:1'], ...book }]);
    await lock.release();
    await booking;
    const server = { state: 'voting', role: 'master', version: expect.stringMatching(/^\d+\./) };
    expect(locks.status()).toMatchObject({ ready: true, degraded: false, nodes: [server] });
  });

  it('ends a method that never would after maxHold, with one line in the log that names it', async () => {
    const recorder = new Recorder();
    const { seats, events } = await start(recorder);
    const error = { code: 'LOCK_LOST', reason: 'overdue', where: 'Seats.stick' };
    await expect(seats.stick('1')).rejects.toMatchObject(error);
    expect(events.map(({ type }) => type)).toEqual(['acquired', 'overdue', 'lost']);
    expect(events[1]).toMatchObject({ keys: ['stuck:1'], where: 'Seats.stick' });
    expect(recorder.warnings).toMatch(/^warn Seats\.stick: .*"stuck:1".*maxHold.*$/);
  });
});
