import { afterEach, expect, it, jest } from '@jest/globals';
import { systemEnvironment } from '../../../lib/core/system-environment.ts';
import type { RedisConnection } from '../../../lib/redis/connection/redis-connection.ts';
import { IdentityKeeper } from '../../../lib/redis/operating.ts';

afterEach(() => void jest.useRealTimers());

it('what a process says of itself is on the server until it closes, also while a connection is missing for a moment', () => {
  jest.useFakeTimers();
  let endsAtMs = 0;
  let isConnected = true;
  const ask = (_set: string, _name: string, _text: string, _px: string, lifeMs: number) => {
    endsAtMs = Date.now() + lifeMs;
    return Promise.resolve();
  };
  const connection = { ask };
  const keeper = new IdentityKeeper(systemEnvironment);
  keeper.keep({ name: 'name', text: 'text' }, () =>
    isConnected ? (connection as unknown as RedisConnection) : undefined,
  );
  for (let second = 0; second < 600; second += 1) {
    isConnected = second % 40 < 20;
    jest.advanceTimersByTime(1_000);
    expect(endsAtMs).toBeGreaterThan(Date.now());
  }
  isConnected = true;
  keeper.stop();
  jest.advanceTimersByTime(600_000);
  expect(endsAtMs).toBeLessThan(Date.now());
});

it('a process says it three times a minute, however often its node was joined', () => {
  jest.useFakeTimers();
  let writes = 0;
  const connection = { ask: async () => void (writes += 1) } as unknown as RedisConnection;
  const keeper = new IdentityKeeper(systemEnvironment);
  for (let join = 0; join < 5; join += 1)
    keeper.keep({ name: 'name', text: 'text' }, () => connection);
  writes = 0;
  jest.advanceTimersByTime(60_000);
  expect(writes).toBe(3);
  keeper.stop();
  expect(jest.getTimerCount()).toBe(0);
});
