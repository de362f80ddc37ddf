import type { Socket } from 'node:net';
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
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { LockNames } from '../../lib/core/nodes/lock-node.ts';
import { createRedisNode } from '../../test/support/clients.ts';
import { Link } from '../../test/support/link.ts';
import { eventually } from '../../test/support/eventually.ts';
import { NodeDriver, ballotNow } from '../../test/support/node-driver.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { RedisServer } from '../../test/support/redis-servers/index.ts';
import {
  isQuestion,
  JOINED,
  ScriptedRedis,
  shakeHands,
} from '../../test/support/scripted-redis.ts';
import { stopTimers } from '../../test/support/stop-timers.ts';

const SILENCE_LIMIT_MS = 200;
const REPLACED = ['opened', expect.stringMatching(/^closed: given up/), 'opened'];

let server: RedisServer;
let link: Link;
let driver: NodeDriver;
let names: LockNames;
let tests = 0;

async function open(url: string): Promise<NodeDriver> {
  driver = await NodeDriver.open(createRedisNode(url), { silenceLimitMs: SILENCE_LIMIT_MS });
  return driver;
}

beforeAll(async () => {
  [server] = (await startRedisServers(1, { own: true })) as [RedisServer];
});
beforeEach(async () => {
  tests += 1;
  names = new NodeNames('lock:', [`silence:${tests}`]);
  link = await Link.open({ host: '127.0.0.1', port: Number(new URL(server.url).port) });
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
    link.forget();
    expect(await driver.acquire(names, 'lost', ballotNow())).toMatchObject({
      kind: 'failed',
      nothingWritten: false,
      reason: 'unreachable',
    });
    await driver.untilEvents(3);
    expect(driver.events).toEqual(REPLACED);
    expect(link.accepted).toBe(2);
    expect(await driver.join()).toMatchObject({ kind: 'joined', quarantineMs: 0 });
    expect(await driver.acquire(names, 'next', ballotNow())).toEqual({ kind: 'accepted' });
  });

  it('is replaced for turns too: they are received again, and the past is unknown', async () => {
    await driver.listen('lock:#turns:service1');
    link.forget();
    await driver.untilListening(2);
    const holder = await NodeDriver.open(createRedisNode(server.url));
    await holder.join();
    await holder.acquire(names, 'holder', ballotNow());
    await holder.wait(names, 'service1', 'lock:#turns:service1');
    expect(await holder.release(names, 'holder')).toMatchObject({ deleted: 1 });
    await driver.untilTurn(names.locks[0]!);
    await holder.node.close();
  });

  it('stays as long as the second one is not answered either', async () => {
    link.setMode({ kind: 'hold' });
    const answer = driver.acquire(names, 'held up', ballotNow());
    await eventually(() => expect(link.accepted).toBe(2));
    await sleep(5 * SILENCE_LIMIT_MS);
    link.setMode({ kind: 'pass' });
    expect(await answer).toEqual({ kind: 'accepted' });
    expect(await driver.inspect(names)).toMatchObject({ holder: 'held up' });
    expect(driver.events).toEqual(['opened']);
    // The second one is given up, and no third one follows.
    await eventually(() => expect(link.openConnections).toBe(1));
    expect(link.accepted).toBe(2);
  });
});

describe('on a server that answers as the test wants', () => {
  let scripted: ScriptedRedis;
  let answers: Record<string, string | undefined>;
  let sockets: Socket[];
  const count = (wanted: string) => scripted.commands.filter(([name]) => name === wanted).length;

  /** Lets time pass as it does for a process that reads: timers, then sockets. */
  async function beats(number: number): Promise<void> {
    for (let beat = 0; beat < number; beat += 1) {
      jest.advanceTimersByTime(SILENCE_LIMIT_MS / 4);
      await sleep(3);
    }
  }

  beforeEach(async () => {
    await driver.node.close();
    stopTimers();
    answers = { eval: JOINED, ping: '-NOPERM no right to ping\r\n' };
    sockets = [];
    scripted = await ScriptedRedis.start((command, socket) => {
      if (!sockets.includes(socket)) sockets.push(socket);
      if (isQuestion(command)) return ':1\r\n';
      return answers[command[0]!] ?? shakeHands(command);
    });
    await open(scripted.url);
  });
  afterEach(() => scripted.stop());

  it('an idle connection is asked for life after ten seconds; an error is life as well', async () => {
    jest.advanceTimersByTime(7_400);
    await sleep(20);
    expect(count('ping')).toBe(0);
    jest.advanceTimersByTime(5_200);
    await eventually(() => expect(count('ping')).toBe(1));
    await sleep(20);
    await beats(10);
    expect(scripted.connections).toBe(1);
    answers['ping'] = undefined;
    jest.advanceTimersByTime(12_600);
    await eventually(() => expect(count('ping')).toBe(2));
    await eventually(async () => {
      await beats(1);
      expect(driver.events).toEqual(REPLACED);
    });
  });

  it('a second connection that shakes hands but is not joined replaces nothing', async () => {
    answers['eval'] = undefined;
    void driver.release(names, 'holder');
    await beats(40);
    expect(count('eval')).toBeGreaterThan(1);
    answers['eval'] = '-BUSY a script is running\r\n';
    await beats(40);
    expect(driver.events).toEqual(['opened']);
  });

  it('an answer that has arrived but was not read yet saves the connection from every doubt', async () => {
    const { connections } = scripted;
    const answer = driver.release(names, 'holder');
    await eventually(() => expect(count('evalsha')).toBe(1));
    await beats(4);
    // The write comes within one turn: the answer is in the socket when the last beat falls.
    sockets.at(-1)!.write(':0\r\n');
    jest.advanceTimersByTime(SILENCE_LIMIT_MS / 4);
    expect((await answer).kind).toBe('released');
    await sleep(20);
    expect(scripted.connections).toBe(connections);
  });
});

describe('a server that is stopped for five seconds', () => {
  it('costs no connection, neither for commands nor for turns', async () => {
    await driver.listen('lock:#turns:service1');
    await server.freeze();
    const answer = driver.acquire(names, 'stopped', ballotNow());
    await sleep(5_000);
    await server.resume();
    expect(await answer).toEqual({ kind: 'accepted' });
    expect(driver.events).toEqual(['opened']);
    expect(driver.listens).toBe(1);
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
    expect(link.accepted).toBe(1);
  });
});
