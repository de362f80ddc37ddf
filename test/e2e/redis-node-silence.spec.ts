import { setTimeout as sleep } from 'node:timers/promises';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { lockNames } from '../../lib/core/nodes/node-names.ts';
import type { LockNames } from '../../lib/core/nodes/lock-node.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { TcpLink } from '../faults/network/tcp-link.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';

const SILENCE_LIMIT_MS = 200;
const REPLACED = ['opened', expect.stringMatching(/^closed: given up/), 'opened'];

let server: RedisServer;
let link: TcpLink;
let driver: NodeDriver;
let names: LockNames;
let tests = 0;

async function open(url: string): Promise<NodeDriver> {
  driver = await NodeDriver.open(new RedisLockNode(url), { silenceLimitMs: SILENCE_LIMIT_MS });
  return driver;
}

beforeAll(async () => {
  [server] = (await startRedisServers(1, { own: true })) as [RedisServer];
});
beforeEach(async () => {
  tests += 1;
  names = lockNames('lock:', [`silence:${tests}`]);
  link = await TcpLink.open({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
  await open(`redis://127.0.0.1:${link.port}`);
  await driver.join();
});
afterEach(async () => {
  jest.useRealTimers();
  await server.resume();
  await driver.node.close();
  await link.close();
});
afterAll(() => server.stop());

describe('a connection that the network forgot', () => {
  it('is replaced once a second one was joined; what it carried is unknown', async () => {
    link.forgetConnections();
    expect(await driver.acquire(names, 'lost', ballotNow())).toMatchObject({
      kind: 'failed',
      nothingWritten: false,
      reason: 'unreachable',
    });
    await driver.untilEvents(3);
    expect(driver.events).toEqual(REPLACED);
    expect(link.counts.connections).toBe(2);
    expect(await driver.join()).toEqual({ kind: 'joined', quarantineMs: 0 });
    expect(await driver.acquire(names, 'next', ballotNow())).toEqual({ kind: 'accepted' });
  });

  it('is replaced for hints too: all names are watched again, and the past is unknown', async () => {
    const [first] = names.locks as [string];
    driver.node.watch(first);
    await driver.untilHint(first, null);
    link.forgetConnections();
    driver.node.watch(`${first}:second`);
    await driver.untilHint(`${first}:second`, null);
    expect(driver.hints.filter(([name]) => name === first)).toEqual([
      [first, null],
      [first, null],
    ]);
    const holder = await NodeDriver.open(new RedisLockNode(server.url));
    await holder.join();
    await holder.acquire(names, 'holder', ballotNow());
    await holder.release(names, 'holder', { notify: true });
    await driver.untilHint(first, 'holder');
    await holder.node.close();
  });

  it('stays as long as the second one is not answered either', async () => {
    await link.setMode({ kind: 'hold' });
    const answer = driver.acquire(names, 'held up', ballotNow());
    await eventually(() => expect(link.counts.connections).toBe(2));
    await sleep(5 * SILENCE_LIMIT_MS);
    await link.setMode({ kind: 'pass' });
    expect(await answer).toEqual({ kind: 'accepted' });
    expect(await driver.inspect(names)).toMatchObject({ holder: 'held up' });
    expect(driver.events).toEqual(['opened']);
    // The second one is given up, and no third one follows.
    await eventually(() => expect(link.openConnections).toBe(1));
    expect(link.counts.connections).toBe(2);
  });

  it('is asked for life by a PING after ten idle seconds, and an error is life as well', async () => {
    await driver.node.close();
    // Sockets and the test's own waits stay real.
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'performance', 'Date', 'queueMicrotask'],
    });
    let answersPing = true;
    const scripted = await ScriptedRedis.start(([name = '', ...rest]) => {
      if (name !== 'ping')
        return name === 'eval' ? '*2\r\n:1\r\n:0\r\n' : shakeHands([name, ...rest]);
      return answersPing ? '-NOPERM no right to ping\r\n' : undefined;
    });
    try {
      await open(scripted.url);
      const pings = () => scripted.commands.filter(([name]) => name === 'ping').length;
      jest.advanceTimersByTime(7_400);
      await sleep(20);
      expect(pings()).toBe(0);
      jest.advanceTimersByTime(5_200);
      await eventually(() => expect(pings()).toBe(1));
      await sleep(20);
      for (let step = 0; step < 10; step += 1) await advance(SILENCE_LIMIT_MS / 4);
      expect(scripted.connections).toBe(1);
      answersPing = false;
      jest.advanceTimersByTime(12_600);
      await eventually(() => expect(pings()).toBe(2));
      await eventually(async () => {
        await advance(SILENCE_LIMIT_MS / 4);
        expect(driver.events).toEqual(REPLACED);
      });
    } finally {
      await driver.node.close();
      await scripted.stop();
    }
  });
});

/** As time passes for a process that reads: timers, then sockets. */
async function advance(durationMs: number): Promise<void> {
  jest.advanceTimersByTime(durationMs);
  await sleep(2);
}

describe('a server that is stopped for five seconds', () => {
  it('costs no connection, neither for commands nor for hints', async () => {
    const [lock] = names.locks as [string];
    driver.node.watch(lock);
    await driver.untilHint(lock, null);
    await server.freeze();
    const answer = driver.acquire(names, 'stopped', ballotNow());
    driver.node.watch(`${lock}:late`);
    await sleep(5_000);
    await server.resume();
    expect(await answer).toEqual({ kind: 'accepted' });
    await driver.untilHint(`${lock}:late`, null);
    expect(driver.events).toEqual(['opened']);
    expect(driver.hints).toEqual([
      [lock, null],
      [`${lock}:late`, null],
    ]);
    await eventually(() => expect(link.openConnections).toBe(2));
    expect(await driver.inspect(names)).toMatchObject({ holder: 'stopped' });
  });
});

describe('a process that does not read its sockets', () => {
  it('doubts no connection for that, however long it takes', async () => {
    for (let pause = 0; pause < 3; pause += 1) {
      const answer = driver.inspect(names);
      const end = performance.now() + 6 * SILENCE_LIMIT_MS;
      while (performance.now() < end);
      expect((await answer).kind).toBe('inspected');
    }
    expect(driver.events).toEqual(['opened']);
    expect(link.counts.connections).toBe(1);
  });
});
