import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { LockNames } from '../../lib/core/nodes/lock-node.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

let server: RedisServer;
let admin: Redis;
let waiter: NodeDriver;
let holder: NodeDriver;
let names: LockNames;
let lock: string;
let tests = 0;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  admin = new Redis(server.url);
});
beforeEach(async () => {
  tests += 1;
  names = new NodeNames('lock:', [`watch:${tests}`]);
  lock = names.locks[0]!;
  waiter = await NodeDriver.open(new RedisLockNode(server.url));
  holder = await NodeDriver.open(new RedisLockNode(server.url));
  await holder.join();
});
afterEach(() => Promise.all([waiter.node.close(), holder.node.close()]));
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

async function lockAndRelease(identity: string, options: { notify?: boolean } = {}): Promise<void> {
  await holder.acquire(names, identity, ballotNow());
  expect(await holder.release(names, identity, { notify: true, ...options })).toMatchObject({
    deleted: 1,
  });
}

/** Ends the connections that wait for messages, as a server or a proxy may at any time. */
async function cutSubscribers(): Promise<void> {
  expect(await admin.call('client', ['kill', 'type', 'pubsub'])).toBeGreaterThan(0);
}

async function subscribers(): Promise<unknown> {
  const [, number] = (await admin.pubsub('NUMSUB', lock)) as [string, number];
  return number;
}

describe('a watch', () => {
  it('is acknowledged by a hint without holder, then gives the holder of each release', async () => {
    waiter.node.watch(lock);
    await waiter.untilHint(lock, null);
    await lockAndRelease('one');
    await waiter.untilHint(lock, 'one');
    expect(waiter.hints).toEqual([
      [lock, null],
      [lock, 'one'],
    ]);
  });

  it('receives nothing from a silent release, nor from other locks', async () => {
    waiter.node.watch(lock);
    await waiter.untilHint(lock, null);
    await lockAndRelease('silent', { notify: false });
    await admin.publish(`${lock}:other`, 'other');
    await lockAndRelease('loud');
    await waiter.untilHint(lock, 'loud');
    expect(waiter.hints).toHaveLength(2);
  });

  it('is made again on the next connection, and acknowledged again', async () => {
    waiter.node.watch(lock);
    await waiter.untilHint(lock, null);
    await cutSubscribers();
    await eventually(() =>
      expect(waiter.hints).toEqual([
        [lock, null],
        [lock, null],
      ]),
    );
    await lockAndRelease('after');
    await waiter.untilHint(lock, 'after');
  });

  it('does not disturb the commands when its connection is lost', async () => {
    waiter.node.watch(lock);
    await waiter.untilHint(lock, null);
    await cutSubscribers();
    expect(await waiter.join()).toMatchObject({ kind: 'joined' });
    expect(waiter.events).toEqual(['opened']);
  });

  it('ends with unwatch, also across reconnects', async () => {
    waiter.node.watch(lock);
    waiter.node.watch(`${lock}:kept`);
    await waiter.untilHint(`${lock}:kept`, null);
    waiter.node.unwatch(lock);
    await eventually(async () => expect(await subscribers()).toBe(0));
    const before = waiter.hints.length;
    await cutSubscribers();
    await eventually(() => expect(waiter.hints.length).toBeGreaterThan(before));
    expect(waiter.hints.slice(before)).toEqual([[`${lock}:kept`, null]]);
    expect(await subscribers()).toBe(0);
  });

  it('is made again for 150,000 names at once', async () => {
    const many = await NodeDriver.open(new RedisLockNode(server.url));
    const names = Array.from({ length: 150_000 }, (_, index) => `${lock}:${index}`);
    // Before there is a connection: all of them are subscribed to when it opens.
    for (const name of names) many.node.watch(name);
    await many.untilHint(names.at(-1)!, null);
    expect(many.hints).toHaveLength(names.length);
    await many.node.close();
  });

  it('makes its connection at the first watch only', async () => {
    const count = async () =>
      ((await admin.call('client', ['list', 'type', 'pubsub'])) as string).trim();
    expect(await count()).toBe('');
    waiter.node.watch(lock);
    await waiter.untilHint(lock, null);
    expect((await count()).split('\n')).toHaveLength(1);
  });
});
