import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Socket } from 'node:net';
import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { createRedisNode } from '../support/clients.ts';
import type { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { bulk, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { useClosing } from '../support/use-redlocks.ts';

const closing = useClosing();
let tests = 0;
let names = new NodeNames('lock:', ['connection']);
let server: RedisServer;
let nodes: RedisLockNode[] = [];

function newNode(input: Parameters<typeof createRedisNode>[0] = server.url): RedisLockNode {
  const node = createRedisNode(input);
  nodes.push(node);
  return node;
}

/** A client, and those that were made from it. */
function recordedTemplate() {
  const template = new Redis(server.url, { lazyConnect: true });
  const made: Redis[] = [];
  const duplicate = template.duplicate.bind(template);
  template.duplicate = (override) => {
    const client = duplicate(override);
    made.push(client);
    return client;
  };
  return { template, made };
}

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
});
beforeEach(() => {
  tests += 1;
  names = new NodeNames('lock:', [`connection:${tests}`]);
});
afterEach(async () => {
  await Promise.all(nodes.map((node) => node.close()));
  nodes = [];
  if (!server.isRunning) await server.restart();
  await server.resume();
});
afterAll(() => server.stop());

describe('credentials()', () => {
  it('is asked before each connection, and again when it failed, and no password is quoted', async () => {
    const { host, port, url } = server;
    const admin = new Redis(url);
    closing({ close: () => admin.quit() });
    const setPassword = (word: string) =>
      admin.acl('SETUSER', 'rotating', 'on', '~*', '&*', '+@all', 'resetpass', `>${word}`);
    await setPassword('hunter2-1');
    const asked: string[] = [];
    const answers = [
      () => Promise.reject(new Error('no token for hunter2-0')),
      () => ({ password: 5 as never }),
      () => ({ username: 'rotating', pasword: 'hunter2-1' }),
      () => ({ username: 'rotating', password: 'hunter2-1' }),
      () => Promise.reject(new Error('nothing newer than hunter2-1')),
      () => ({ username: 'rotating', password: 'hunter2-2' }),
    ];
    const credentials = (address: string) => answers[asked.push(address) - 1]!();
    const node = createRedisNode({ host, port, password: 'hunter2-0' }, { credentials });
    nodes.push(node);
    const driver = await NodeDriver.open(node, { connected: false });
    const failures: string[] = [];
    Object.assign(driver, { unreachable: (message: string) => failures.push(message) });
    await driver.untilEvents(1);
    expect(failures).toEqual([
      expect.stringContaining('credentials() failed: no token for ***'),
      expect.stringContaining('username and password as texts'),
      expect.stringContaining("'credentials.pasword' can't be given: it is unknown"),
    ]);
    await setPassword('hunter2-2');
    await admin.client('KILL', 'USER', 'rotating');
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', expect.stringMatching(/^closed/), 'opened']);
    expect(failures.slice(3)).toEqual([
      expect.stringContaining('credentials() failed: nothing newer than ***'),
    ]);
    expect(asked).toEqual(Array(6).fill(`${host}:${port}`));
  });

  it('is named as what is waited for, while it has not answered', async () => {
    const node = createRedisNode(server.url, { credentials: () => new Promise(() => undefined) });
    nodes.push(node);
    const driver = await NodeDriver.open(node, { connected: false });
    expect(await driver.inspect(names)).toMatchObject({
      reason: 'unreachable',
      message: 'no connection: credentials() has not answered yet',
    });
  });
});

describe('a node that is closed before it has connected', () => {
  it('makes no connection when credentials() answer after that', async () => {
    const { template, made } = recordedTemplate();
    let isAsked = false;
    let answer!: (given: object) => void;
    const credentials = () => {
      isAsked = true;
      return new Promise<object>((resolve) => (answer = resolve));
    };
    const node = createRedisNode(template, { credentials });
    nodes.push(node);
    await NodeDriver.open(node, { connected: false });
    await eventually(() => expect(isAsked).toBe(true));
    await node.close();
    answer({});
    await new Promise((resolve) => setImmediate(resolve));
    expect(made.at(-1)!.status).toBe('end');
  });

  it('makes none either where that was in the same tick', async () => {
    const scripted = await ScriptedRedis.start(shakeHands);
    closing({ close: () => scripted.stop() });
    const node = newNode(scripted.url);
    void NodeDriver.open(node, { connected: false });
    await node.close();
    expect([scripted.connections, scripted.commands]).toEqual([0, []]);
  });
});

describe('a connection that is lost', () => {
  it('is reported once, and made again once the server is back', async () => {
    const driver = await NodeDriver.open(newNode());
    await server.kill();
    await driver.untilEvents(2);
    await server.restart();
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', expect.stringMatching(/^closed: /), 'opened']);
    expect(await driver.join()).toMatchObject({ kind: 'joined', quarantineMs: 0 });
  });

  it('settles an acquire in flight as unknown, and never sends it again', async () => {
    const driver = await NodeDriver.open(newNode());
    await driver.join();
    await server.freeze();
    const answer = driver.acquire(names, 'in-flight', ballotNow());
    await server.kill();
    expect(await answer).toEqual({
      kind: 'failed',
      nothingWritten: false,
      reason: 'unreachable',
      message: 'the connection was closed before the answer',
    });
    await server.restart();
    await driver.untilEvents(3);
    expect(await driver.join()).toMatchObject({ kind: 'joined', quarantineMs: 0 });
    expect(await driver.inspect(names)).toEqual({
      kind: 'inspected',
      holder: null,
      remainingMs: 0,
      floor: 0,
      process: null,
    });
    expect(driver.settled).toBe(4);
  });

  it('refuses commands meanwhile at once: nothing is queued for the next connection', async () => {
    const driver = await NodeDriver.open(newNode());
    await driver.join();
    await server.kill();
    await driver.untilEvents(2);
    const reply = await driver.acquire(names, 'queued?', ballotNow());
    expect(reply).toMatchObject({ kind: 'failed', nothingWritten: true, reason: 'unreachable' });
    await server.restart();
    await driver.untilEvents(3);
    await driver.join();
    expect(await driver.inspect(names)).toMatchObject({ holder: null, floor: 0 });
  });
});

describe('a socket with two errors', () => {
  it('is one lost connection: nothing is thrown at the process', async () => {
    const { template, made } = recordedTemplate();
    const driver = await NodeDriver.open(newNode(template));
    const { stream } = made.at(-1) as unknown as { readonly stream: Socket };
    stream.destroy(new Error('first'));
    await driver.untilEvents(2);
    // TLS does it in this way; an error event without a listener is thrown.
    expect(stream.emit('error', new Error('second'))).toBe(true);
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', expect.stringMatching(/^closed: /), 'opened']);
  });
});

describe('a client of Sentinels, connected by itself', () => {
  it('is a node; the Sentinels take turns in being asked first, and a replica that they name is said', async () => {
    const asked: number[] = [];
    let place = new URL(server.url);
    const sentinels = await Promise.all(
      [0, 1].map((index) =>
        ScriptedRedis.start((command) => {
          if (command[0]?.toLowerCase() !== 'sentinel') return shakeHands(command);
          if (command[1] !== 'get-master-addr-by-name') return '*0\r\n';
          asked.push(index);
          return `*2\r\n${bulk(place.hostname)}${bulk(place.port)}`;
        }),
      ),
    );
    const replica = await ScriptedRedis.start((command) =>
      command[0] === 'info' ? bulk('role:slave\r\n') : shakeHands(command),
    );
    const given = sentinels.map(({ url }) => new URL(url));
    const client = new Redis({
      sentinels: given.map(({ hostname, port }) => ({ host: hostname, port: Number(port) })),
      name: 'm',
      sentinelCommandTimeout: 1_000,
      sentinelRetryStrategy: () => null,
      retryStrategy: () => null,
    });
    client.on('error', () => undefined);
    const driver = await NodeDriver.open(newNode(client));
    expect((await driver.join()).kind).toBe('joined');
    const other = await NodeDriver.open(newNode(client));
    expect((await other.join()).kind).toBe('joined');
    place = new URL(replica.url);
    const reasons: string[] = [];
    Object.assign(driver, { unreachable: (message: string) => reasons.push(message) });
    await server.kill();
    await eventually(() => expect(reasons.join()).toContain('named as the primary is a replica'));
    expect(new Set(asked)).toEqual(new Set([0, 1]));
    client.disconnect();
    await Promise.all([...sentinels, replica].map((each) => each.stop()));
  });
});

describe('a server that is not there', () => {
  it('is tried until it comes; commands say why they fail', async () => {
    await server.kill();
    const driver = await NodeDriver.open(newNode(), { connected: false });
    const why = async () => {
      const reply = await driver.acquire(names, 'nobody', ballotNow());
      return reply.kind === 'failed' ? reply.message : reply.kind;
    };
    await eventually(async () => expect(await why()).toMatch(/ECONNREFUSED/));
    expect(driver.events).toEqual([]);
    await server.restart();
    await driver.untilEvents(1);
  });
});

describe('a refused handshake', () => {
  it('is no open connection: neither with a wrong password nor in a database that is not there', async () => {
    const stranger = newNode(server.url.replace('//', '//nobody:wrong@'));
    const refused = await NodeDriver.open(stranger, { connected: false });
    await eventually(async () =>
      expect(await refused.acquire(names, 'nobody', ballotNow())).toMatchObject({
        nothingWritten: true,
        message: expect.stringContaining('WRONGPASS'),
      }),
    );
    expect(refused.events).toEqual([]);
    const driver = await NodeDriver.open(newNode(`${server.url}/99`), { connected: false });
    await eventually(async () =>
      expect(await driver.acquire(names, 'nobody', ballotNow())).toMatchObject({
        message: expect.stringContaining('DB index is out of range'),
      }),
    );
    expect(driver.events).toEqual([]);
  });
});

describe("the user's ioredis client", () => {
  it('is used for its options only: same state, same subscriptions, still open after close', async () => {
    const client = new Redis(server.url, { keyPrefix: 'app:', connectionName: 'mine' });
    try {
      await client.set('before', '1');
      const node = newNode(client);
      const driver = await NodeDriver.open(node);
      await driver.join();
      await driver.listen('lock:#turns:mine');
      const list = (await client.client('LIST')) as string;
      expect(list.match(/name=mine /g)).toHaveLength(3);
      await node.close();
      expect(client.status).toBe('ready');
      expect(client.mode).toBe('normal');
      expect(client.options.keyPrefix).toBe('app:');
      expect(await client.get('before')).toBe('1');
      // Our own names don't take the client's prefix.
      expect(await client.keys('*lock:#marker')).toEqual(['lock:#marker']);
    } finally {
      client.disconnect();
    }
  });
});

describe('close', () => {
  it('ends both connections on the server, settles what is open, and stays closed', async () => {
    const observer = new Redis(server.url);
    try {
      const node = newNode();
      const driver = await NodeDriver.open(node);
      await driver.join();
      await driver.listen('lock:#turns:mine');
      await server.freeze();
      const answer = driver.acquire(names, 'closing', ballotNow());
      await node.close();
      expect(await answer).toMatchObject({ kind: 'failed', nothingWritten: false });
      await server.resume();
      const clients = async () =>
        ((await observer.client('LIST')) as string).trim().split('\n').length;
      await eventually(async () => expect(await clients()).toBe(1));
      expect(driver.events).toHaveLength(2);
      expect(await driver.inspect(names)).toMatchObject({ kind: 'failed', nothingWritten: true });
      node.listen('lock:#turns:mine');
      expect(await clients()).toBe(1);
    } finally {
      observer.disconnect();
    }
  });

  it('is quick and complete while nothing answers', async () => {
    await server.freeze();
    const driver = await NodeDriver.open(newNode(), { connected: false });
    await driver.node.close();
    await driver.node.close();
    expect(driver.events).toEqual([]);
  });
});
