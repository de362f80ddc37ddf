import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Redlock } from '../../lib/core/redlock.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes } from '../support/use-redlocks.ts';
import { GOOD_NOTORIOUS_KEYS } from './strange-keys.ts';

/** Leases and waits that outlast a test, as does the time that a server has for its answer. */
const LASTING = { ttl: '1h', wait: '1h', nodeTimeout: '10m' } as const;
const keyPrefix = `strange:${randomUUID()}:`;
let admin: Redis;
let ours: Redlock;
let theirs: Redlock;

useRedisServers(3, {}, async (servers) => {
  admin = new Redis(servers[0]!.url);
  const services = [0, 1].map(
    () => new Redlock(redisNodes(servers), { restartGuard: false, keyPrefix, ...LASTING }),
  );
  [ours, theirs] = services as [Redlock, Redlock];
  for (const service of services) {
    service.open();
    assert.ok(await service.ready(60_000));
  }
  return async () => {
    await Promise.all([ours.close(), theirs.close()]);
    admin.disconnect();
  };
});

/** Held, excluding, under its own bytes on the server, woken when released, and gone afterwards. */
async function expectOrdinaryLock(key: string): Promise<void> {
  const held = await ours.acquire(key);
  const inspected = await ours.inspect(key);
  expect(inspected).toMatchObject({ key, holder: held.token.holder });
  await expect(theirs.tryAcquire(key)).resolves.toBeNull();
  const name = Buffer.from(keyPrefix + key, 'utf8');
  await eventually(async () => {
    await held.extend(); // the vote of this server may be missing yet
    expect(await admin.get(name)).toBe(held.token.holder);
  });
  await held.release();
  await using next = await theirs.acquire(key);
  expect(next.token.value).toBeGreaterThan(held.token.value);
}

describe('strange keys on real servers', () => {
  it.each(GOOD_NOTORIOUS_KEYS.filter((key) => key.length < 100))(
    'the key %j is an ordinary lock',
    expectOrdinaryLock,
  );

  it('keys never become commands: foreign data stays, and nothing is written outside the prefix', async () => {
    const sentinel = `${keyPrefix.slice(0, -1)}-sentinel`;
    await admin.set(sentinel, 'still here');
    const injections = ['FLUSHALL', 'SET pwned 1', `DEL ${sentinel}`].flatMap((command) => {
      const parts = command.split(' ').map((part) => `$${part.length}\r\n${part}\r\n`);
      return [
        `\r\n${command}\r\n`,
        `a\r\n*${parts.length}\r\n${parts.join('')}`,
        `"]] redis.call('${command.split(' ').join("','")}') --[[`,
        `'); redis.call('${command.split(' ').join("','")}'); ('`,
      ];
    });
    for (const key of injections) await expectOrdinaryLock(key);
    await expectOrdinaryLock('after the injections');
    expect(await admin.get(sentinel)).toBe('still here');
    expect(await admin.exists('pwned')).toBe(0);
    await admin.del(sentinel);
  });
});
