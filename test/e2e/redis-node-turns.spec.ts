import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

const MARK = 'service1';
const CHANNEL = `lock:#turns:${MARK}`;
const names = new NodeNames('lock:', ['a']);
let server: RedisServer;
let admin: Redis;
let waiter: NodeDriver;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  admin = new Redis(server.url);
});
beforeEach(async () => {
  await admin.flushall();
  waiter = await NodeDriver.open(createRedisNode(server.url));
  await waiter.join();
});
afterEach(() => waiter.node.close());
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

/** Ends the connections that wait for messages, as a server or a proxy may at any time. */
async function cutSubscribers(): Promise<void> {
  expect(await admin.call('client', ['kill', 'type', 'pubsub'])).toBeGreaterThan(0);
}

async function lockAndRelease(): Promise<void> {
  await waiter.acquire(names, 'holder', ballotNow());
  await waiter.wait(names, MARK, CHANNEL);
  expect(await waiter.release(names, 'holder')).toMatchObject({ deleted: 1 });
}

describe('a node that listens for turns', () => {
  it('hears of each, and of nothing else that is published there', async () => {
    await waiter.listen(CHANNEL);
    for (const message of ['', '0', '0 ', 'x lock:a', '-2 lock:a', '99999999 lock:a'])
      await admin.publish(CHANNEL, message);
    await admin.publish(CHANNEL, '40 lock:with a blank');
    await lockAndRelease();
    await waiter.untilTurn('lock:a');
    expect(waiter.turns).toEqual([
      ['lock:with a blank', 40],
      ['lock:a', 0],
    ]);
  });

  it('listens again on the next connection, and says so; the connection for commands stays', async () => {
    await waiter.listen(CHANNEL);
    await cutSubscribers();
    await waiter.untilListening(2);
    await lockAndRelease();
    await waiter.untilTurn('lock:a');
    expect(waiter.events).toEqual(['opened']);
  });

  it('listens on the connection that takes over when they are renewed', async () => {
    await waiter.listen(CHANNEL);
    waiter.node.renew!();
    await waiter.untilListening(2);
    await lockAndRelease();
    await waiter.untilTurn('lock:a');
    expect(waiter.turns).toContainEqual(['lock:a', 0]);
  });

  it('makes its connection when it first waits, and one only', async () => {
    const subscribers = async () =>
      ((await admin.call('client', ['list', 'type', 'pubsub'])) as string).split('\n').length - 1;
    // The subscriber of the test before may not have reached its end on the server yet.
    await eventually(async () => expect(await subscribers()).toBe(0));
    await waiter.listen(CHANNEL);
    waiter.node.listen(CHANNEL);
    await eventually(async () => expect(await subscribers()).toBe(1));
  });
});
