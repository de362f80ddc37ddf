import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { useRedisCluster, type RedisProcess } from '../e2e/core/support/redis-cluster.ts';
import { eventsOf, outcomeOf } from './support.ts';

/** A call without a wait tries for a node timeout; neither that nor a lease ends while a test runs. */
const LASTING = { ttl: '1h', nodeTimeout: '10m' } as const;
const now = () => performance.now();

describe('a call without a wait, right after its connections were cut', () => {
  const cluster = useRedisCluster(1);

  /** Ends the connections of these processes, and goes on as soon as each knows: the answer to the command may be read before that. */
  async function cutOff(fleet: readonly RedisProcess[]) {
    const count = ({ events }: RedisProcess, type: LockEvent['type']) =>
      eventsOf(events, type).length;
    const isIn = (each: RedisProcess) => count(each, 'node-joined') > count(each, 'node-left');
    while (!fleet.every(isIn)) await setImmediate();
    const before = fleet.map((each) => count(each, 'node-left'));
    await cluster.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    while (fleet.some((each, index) => count(each, 'node-left') === before[index]))
      await setImmediate();
  }

  it('waits until the votes can be asked', async () => {
    const process = await cluster.process(LASTING);
    const { redlock } = process;
    for (let round = 0; round < 10; round += 1) {
      const key = cluster.newKey();
      await cutOff([process]);
      const { code } = await outcomeOf(redlock.acquire(key, { wait: 0 }), now);
      expect(code).toBe('granted');
      await cutOff([process]);
      expect((await outcomeOf(redlock.tryAcquire(key), now)).code).toBe('null');
    }
  });

  it('runs a cron job once in the fleet', async () => {
    const fleet = await Promise.all([1, 2, 3].map(() => cluster.process(LASTING)));
    for (let tick = 0; tick < 6; tick += 1) {
      const key = cluster.newKey();
      await cutOff(fleet);
      const ran = fleet.map(({ redlock }) => redlock.tryAcquire(key, { minHold: '5s' }));
      const codes = await Promise.all(ran.map((lock) => outcomeOf(lock, now)));
      expect(codes.map(({ code }) => code).sort()).toEqual(['granted', 'null', 'null']);
    }
  });
});
