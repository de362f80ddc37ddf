import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { RedlockOptions } from '../../lib/core/options/options.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';

/** What a trace, a tenant or a transaction is kept in. */
const requests = new AsyncLocalStorage<string>();
const SHORT_LEASE = { ttl: 300, extend: false };
let services: Redlock[] = [];

function openService(options: RedlockOptions = {}): Redlock {
  const redlock = new Redlock(createMemoryNodes(3), { restartGuard: false, ...options });
  services.push(redlock);
  redlock.open();
  return redlock;
}

afterEach(async () => {
  await Promise.all(services.map((service) => service.close()));
  services = [];
});

// In real time: the timers of a test are always called in the context of the test.
describe('the ambient context of a request', () => {
  const names = Array.from({ length: 20 }, (_, index) => `request${index}`);

  it('surrounds no abort and no event of a lock', async () => {
    const seen: (readonly [what: string, request: string | undefined])[] = [];
    const note = (what: string) => seen.push([what, requests.getStore()]);
    const redlock = openService({ onEvent: ({ type }) => void note(type) });
    await requests.run('request', async () => {
      const lock = await redlock.acquire('a', SHORT_LEASE);
      const aborted = new Promise((resolve) => {
        lock.signal.addEventListener('abort', () => resolve(note('abort')));
      });
      await aborted;
      await (await redlock.acquire('b')).release();
    });
    const others = ['acquired', 'released'].map((type) => [type, undefined]);
    expect(seen).toEqual(
      expect.arrayContaining([['abort', undefined], ['lost', undefined], ...others]),
    );
    expect(seen.filter(([, request]) => request !== undefined)).toEqual([]);
  });

  it('does not let work of another request join its section when that request loses a lock', async () => {
    const redlock = openService();
    let enter = () => undefined as void;
    let leave = () => undefined as void;
    const entered = new Promise<void>((resolve) => (enter = resolve));
    const left = new Promise<void>((resolve) => (leave = resolve));
    const section = redlock.withLock('status', async () => {
      // Arms the timer that locks of this ttl share.
      await redlock.acquire('first', SHORT_LEASE);
      enter();
      await left;
    });
    await entered;
    const strangers = names.map(async (name) => {
      const { signal } = await redlock.acquire(name, SHORT_LEASE);
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(redlock.tryAcquire('status')));
      });
    });
    const inside = (await Promise.all(strangers)).filter((lock) => lock !== null);
    expect(inside.length).toBe(0);
    leave();
    await section;
  });

  it('does not surround what happens to the nodes that it connected to', async () => {
    const servers = await startRedisServers(1);
    try {
      const seen: (string | undefined)[] = [];
      const redlock = new Redlock([new RedisLockNode(servers[0]!.url)], {
        onEvent: ({ type }) => type === 'node-joined' && void seen.push(requests.getStore()),
      });
      services.push(redlock);
      requests.run('request', () => redlock.open());
      await eventually(() => expect(seen).toHaveLength(1));
      expect(seen).toEqual([undefined]);
    } finally {
      await Promise.all(services.splice(0).map((service) => service.close()));
      await servers[0]!.stop();
    }
  });
});
