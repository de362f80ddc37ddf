import type { Socket } from 'node:net';
import { describe, expect, it } from '@jest/globals';
import { createClient, createClientPool, createCluster, createSentinel, RESP_TYPES } from 'redis';
import { RedlockConfigError } from '../../lib/core/errors.ts';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { isQuestion, JOINED, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import { useClosing } from '../support/use-redlocks.ts';

const names = new NodeNames('lock:', ['a']);
const closing = useClosing();
const servers = useRedisServers(1);

async function open(input: RedisNodeInput, options = {}): Promise<NodeDriver> {
  return NodeDriver.open(closing(createRedisNode(input, options)));
}

/** A server that answers no votes, with a node over it that has joined. */
async function scriptedNode() {
  const sockets = new Set<Socket>();
  const server = await ScriptedRedis.start((command, socket) => {
    sockets.add(socket);
    if (isQuestion(command)) return ':1\r\n';
    return command[0] === 'eval' ? JOINED : shakeHands(command);
  });
  const node = createRedisNode(createClient({ url: server.url }));
  closing({ close: () => node.close().then(() => server.stop()) });
  const driver = await NodeDriver.open(node);
  await driver.join();
  const votes = () =>
    server.commands.filter((each) => each[0] === 'evalsha' && !isQuestion(each)).length;
  const send = (bytes: string) => [...sockets].at(-1)!.write(bytes);
  const cut = () => sockets.forEach((socket) => socket.destroy());
  return { driver, votes, send, cut };
}

describe('a client of node-redis as a node', () => {
  it('is only duplicated: it stays closed, or open and in use, and has no listener more', async () => {
    const { url } = servers[0]!;
    const clients = [createClient({ url }), createClient({ url })];
    await clients[1]!.connect();
    const before = clients.map((client) => client.eventNames());
    for (const client of clients) {
      const driver = await open(client);
      await driver.join();
      await driver.node.close();
    }
    expect(clients.map(({ isOpen }) => isOpen)).toEqual([false, true]);
    expect(clients.map((client) => client.eventNames())).toEqual(before);
    expect(await clients[1]!.ping()).toBe('PONG');
    clients[1]!.destroy();
  });

  it('brings its database, its name, and what its credentialsProvider gives to each connection', async () => {
    const { host, port } = servers[0]!;
    const admin = await createClient({ socket: { host, port } }).connect();
    closing({ close: async () => admin.destroy() });
    await admin.sendCommand('ACL SETUSER locks on >word ~* &* +@all'.split(' '));
    let asked = 0;
    const credentials = async () => {
      asked += 1;
      return { username: 'locks', password: 'word' };
    };
    const client = createClient({
      socket: { host, port },
      credentialsProvider: { type: 'async-credentials-provider', credentials },
      database: 3,
      name: 'of-locks',
      keyPrefix: 'ignored:',
    });
    const driver = await open(client);
    await driver.join();
    expect(createRedisNode(client).ignoredKeyPrefix).toBe('ignored:');
    const list = await admin.sendCommand<string>(['CLIENT', 'LIST']);
    expect(list).toMatch(/name=of-locks .*db=3 .*user=locks/);
    expect(asked).toBe(1);
    await admin.sendCommand(['CLIENT', 'KILL', 'USER', 'locks']);
    await driver.untilEvents(3);
    expect(asked).toBe(2);
  });

  it('brings no option that gives commands up, or changes their answers', async () => {
    const { url } = servers[0]!;
    const driver = await open(
      createClient({
        url,
        RESP: 3,
        keyPrefix: 'ignored:',
        readonly: true,
        pingInterval: 1,
        commandsQueueMaxLength: 1,
        clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: 'LRU' },
        commandOptions: { timeout: 1, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
      }),
    );
    await driver.join();
    const ballot = ballotNow();
    const key = new NodeNames('lock:', ['of-options']);
    const vote = driver.acquire(key, 'holder', ballot);
    const looks = Array.from({ length: 8 }, () => driver.inspect(key));
    const until = performance.now() + 10;
    while (performance.now() < until);
    expect(await vote).toEqual({ kind: 'accepted' });
    for (const look of looks) expect(await look).toMatchObject({ holder: 'holder', floor: ballot });
  });

  it.each([
    ['cluster', () => createCluster({ rootNodes: [{ url: 'redis://h' }] })],
    ['Sentinel', () => createSentinel({ name: 'm', sentinelRootNodes: [{ host: 'h', port: 1 }] })],
    ['pool', () => createClientPool({ url: 'redis://h' })],
  ])('is refused where it is a %s, which connects again by itself', (_, make) => {
    expect(() => createRedisNode(make() as never)).toThrow(RedlockConfigError);
    expect(() => createRedisNode(make() as never)).toThrow(/the client of one server/);
  });
});

describe('a client of node-redis with a URL for a host', () => {
  it('is refused without the password in it', () => {
    const client = createClient({ socket: { host: 'redis://:hunter2@one' } });
    expect(() => createRedisNode(client)).toThrow(/a node with a wrong host: give a name/);
    expect(() => createRedisNode(client)).not.toThrow(/hunter2/);
  });
});

describe('a vote over node-redis', () => {
  it('is not sent again when its connection broke before the answer', async () => {
    const { driver, votes, cut } = await scriptedNode();
    const vote = driver.acquire(names, 'holder', ballotNow());
    await eventually(() => expect(votes()).toBe(1));
    cut();
    expect(await vote).toMatchObject({ reason: 'unreachable', nothingWritten: false });
    await driver.untilEvents(3);
    await driver.join();
    expect(votes()).toBe(1);
  });

  it('is not sent when the server is back, where it was asked for while it was away', async () => {
    const { driver, votes, cut } = await scriptedNode();
    cut();
    await driver.untilEvents(2);
    const vote = await driver.acquire(names, 'holder', ballotNow());
    expect(vote).toMatchObject({ kind: 'failed', nothingWritten: true });
    await driver.untilEvents(3);
    await driver.join();
    expect(votes()).toBe(0);
  });

  it('is unknown when its answer came with a reply to no request: the client goes on, and its parser may stand amid a reply', async () => {
    const { driver, votes, send } = await scriptedNode();
    const vote = driver.acquire(names, 'holder', ballotNow());
    await eventually(() => expect(votes()).toBe(1));
    send(':1\r\n:1\r\n*5\r\n');
    expect(await vote).toMatchObject({ reason: 'unreachable', nothingWritten: false });
    await driver.untilEvents(3);
    expect(driver.events[1]).toBe('closed: the server sent a reply to no request');
  });
});

describe('a client of node-redis that is given up during the handshake of TLS', () => {
  it('leaves no connection', async () => {
    const server = await ScriptedRedis.start(() => undefined);
    closing({ close: () => server.stop() });
    const node = createRedisNode(createClient({ url: server.url.replace('redis:', 'rediss:') }));
    await NodeDriver.open(node, { connected: false });
    await eventually(() => expect(server.connections).toBe(1));
    await node.close();
    await eventually(() => expect(server.connections).toBe(0));
  });
});
