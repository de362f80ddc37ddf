import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { eventually } from '../../support/eventually.ts';
import { connectedClients, LinkStage, settled, untilCount } from './link-stage.ts';
import { encodeCommand } from './raw-client.ts';

const stage = new LinkStage();
let redis: Redis | undefined;
afterEach(() => redis?.disconnect());

const TEXT = 'abcdefghijklmnopqrstuvwxyz';
const REPLY = `$${TEXT.length}\r\n${TEXT}\r\n`;

describe('a link in mode truncate', () => {
  it('gives a part of the reply, and the connection is gone', async () => {
    const link = await stage.link();
    await link.setMode({ kind: 'truncate', probability: 1 });
    for (let round = 1; round <= 20; round += 1) {
      const client = await stage.client(link);
      client.send(`ECHO ${TEXT}`);
      // A reset which arrives together with bytes shows as the end of the stream.
      expect(['end', 'ECONNRESET']).toContain(await client.ended);
      expect(REPLY.startsWith(client.text)).toBe(true);
      expect(client.text).not.toBe(REPLY);
      expect(client.text).not.toBe('');
      expect(link.counts).toMatchObject({ truncatedChunks: round, resets: round });
    }
    await eventually(async () => expect(await connectedClients(stage)).toBe(0));
  });

  it('can not cut a single byte', async () => {
    const plain = await stage.plainServer();
    const link = await stage.link(1, plain);
    await link.setMode({ kind: 'truncate', probability: 1 });
    const client = await stage.client(link);
    await eventually(() => expect(plain.sockets).toHaveLength(1));
    plain.sockets[0]!.write('+');
    await client.until(1);
    plain.sockets[0]!.write('OK');
    await client.ended;
    expect(client.text).toBe('+O');
  });

  it('happens as often as it is likely', async () => {
    const link = await stage.link();
    await link.setMode({ kind: 'truncate', probability: 0.2 });
    for (let client = await stage.client(link), asked = 0; asked < 400; asked += 1) {
      const before = client.received.length;
      client.send(`ECHO ${TEXT}`);
      const isWhole = client.until(before + REPLY.length).then(
        () => true,
        () => false,
      );
      if (!(await isWhole)) client = await stage.client(link);
    }
    expect(link.counts.truncatedChunks).toBeGreaterThan(40);
    expect(link.counts.truncatedChunks).toBeLessThan(160);
  });

  it('is an error for ioredis, which connects again', async () => {
    const link = await stage.link();
    redis = new Redis(link.port, { maxRetriesPerRequest: 0, retryStrategy: () => 10 });
    redis.on('error', () => undefined);
    expect(await redis.echo(TEXT)).toBe(TEXT);
    await link.setMode({ kind: 'truncate', probability: 1 });
    await expect(redis.echo(TEXT)).rejects.toThrow('Reached the max retries');
    await link.setMode({ kind: 'pass' });
    await eventually(async () => expect(await redis!.echo(TEXT)).toBe(TEXT));
  });
});

describe('a link in mode garbage', () => {
  it('gives bytes that are no RESP, and the connection goes on', async () => {
    const { link, client } = await stage.connected();
    for (let round = 1; round <= 50; round += 1) {
      await link.setMode({ kind: 'garbage', probability: 1 });
      const before = client.received.length;
      client.send(`ECHO ${TEXT}`);
      await untilCount(link, 'garbledChunks', round);
      await client.until(before + 1);
      await link.setMode({ kind: 'pass' });
      expect(await client.ask('PING')).toMatch(/\+PONG$/);
      const garbage = client.received.subarray(before, -'+PONG\r\n'.length);
      expect(garbage.every((byte) => byte >= 0x80)).toBe(true);
      expect(garbage.length).toBeGreaterThan(0);
    }
    expect(link.counts).toMatchObject({ garbledChunks: 50, resets: 0, connections: 1 });
  });

  it('is repeated by its seed', async () => {
    const received: string[] = [];
    for (const seed of [1, 1, 2]) {
      const link = await stage.link(seed);
      await link.setMode({ kind: 'garbage', probability: 1 });
      const client = await stage.client(link);
      client.send('PING');
      await untilCount(link, 'garbledChunks', 1);
      await client.until(1);
      client.socket.end();
      await client.ended;
      received.push(client.text);
    }
    expect(received[1]).toBe(received[0]);
    expect(received[2]).not.toBe(received[0]);
  });

  it('stands between replies only: inside a bulk string it would be data', async () => {
    const { link, client } = await stage.connected();
    const value = Buffer.alloc(16_777_216, 'abcdefg');
    const writer = await stage.client(stage.server);
    writer.socket.write(encodeCommand('SET', 'big', value));
    await writer.until('+OK\r\n'.length);
    client.socket.pause();
    client.send('GET big');
    await untilCount(link, 'replyBytes', 1);
    expect(await settled(() => link.counts.replyBytes)).toBeLessThan(value.length);
    await link.setMode({ kind: 'garbage', probability: 1 });
    client.socket.resume();
    const reply = Buffer.concat([Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')]);
    await client.until(reply.length);
    expect(client.received.equals(reply)).toBe(true);
    expect(link.counts.garbledChunks).toBe(0);
    client.send('PING');
    await untilCount(link, 'garbledChunks', 1);
  });

  it('is an error for ioredis, which connects again', async () => {
    const link = await stage.link();
    redis = new Redis(link.port, { maxRetriesPerRequest: 0, retryStrategy: () => 10 });
    redis.on('error', () => undefined);
    expect(await redis.echo(TEXT)).toBe(TEXT);
    await link.setMode({ kind: 'garbage', probability: 1 });
    await expect(redis.echo(TEXT)).rejects.toThrow('Unknown RESP type');
    await link.setMode({ kind: 'pass' });
    await eventually(async () => expect(await redis!.echo(TEXT)).toBe(TEXT));
  });
});

describe('resetAfterRequest', () => {
  it('lets one request be executed, and its reply be lost', async () => {
    const link = await stage.link();
    const [client, other] = [await stage.client(link), await stage.client(link)];
    await Promise.all([client.ask('PING'), other.ask('PING')]);
    link.resetAfterRequest();
    client.send('INCR executed', 'INCR executed');
    expect(await client.ended).toBe('ECONNRESET');
    expect(await stage.ask('GET', 'executed')).toBe('2');
    expect(client.text).toBe('+PONG\r\n');
    expect(await other.ask('PING')).toContain('PONG');
    expect(link.counts).toMatchObject({ resets: 1, resetsAfterRequest: 1, lostChunks: 1 });
    await eventually(async () => expect(await connectedClients(stage)).toBe(1));
  });

  it('waits for a server that does not answer, and lets nothing more get there', async () => {
    const { link, client } = await stage.joined();
    link.resetAfterRequest();
    await stage.server.freeze();
    client.send('INCR executed');
    await untilCount(link, 'resetsAfterRequest', 1);
    client.send('INCR executed');
    await settled(() => link.counts.requestBytes);
    expect(client.isEnded).toBe(false);
    await stage.server.resume();
    expect(await client.ended).toBe('ECONNRESET');
    expect(await stage.ask('GET', 'executed')).toBe('1');
  });

  it('is one reset, also when another one comes before the answer', async () => {
    const { link, client } = await stage.joined();
    link.resetAfterRequest();
    await stage.server.freeze();
    client.send('INCR executed');
    await untilCount(link, 'resetsAfterRequest', 1);
    link.resetConnections();
    expect(await client.ended).toBe('ECONNRESET');
    expect(link.counts.resets).toBe(1);
  });

  it('throws away the requests behind it', async () => {
    const { link, client } = await stage.joined();
    const before = link.counts.requestBytes;
    await link.setMode({ kind: 'hold' });
    for (const chunks of [1, 2]) {
      client.send('INCR executed');
      await untilCount(link, 'heldChunks', chunks);
    }
    const isSet = link.setMode({ kind: 'delay', minMs: 1, maxMs: 1 });
    link.resetAfterRequest();
    await isSet;
    expect(await client.ended).toBe('ECONNRESET');
    expect(await stage.ask('GET', 'executed')).toBe('1');
    expect(link.counts.requestBytes - before).toBe('INCR executed\r\n'.length);
  });

  it('is called off by the next mode', async () => {
    const { link, client } = await stage.connected();
    link.resetAfterRequest();
    await link.setMode({ kind: 'pass' });
    expect(await client.ask('PING')).toBe('+PONG');
    expect(link.counts).toMatchObject({ resets: 0, resetsAfterRequest: 0 });
  });
});

describe('resetConnections', () => {
  it.each(['pass', 'hold', 'lose'] as const)(
    'resets both ends of what is open, once, in mode %s',
    async (kind) => {
      const link = await stage.link();
      const clients = [await stage.client(link), await stage.client(link)];
      await Promise.all(clients.map((client) => client.ask('PING')));
      await link.setMode({ kind });
      link.resetConnections();
      link.resetConnections();
      expect(await Promise.all(clients.map(({ ended }) => ended))).toEqual([
        'ECONNRESET',
        'ECONNRESET',
      ]);
      await eventually(async () => expect(await connectedClients(stage)).toBe(0));
      expect(link.counts.resets).toBe(2);
      await link.setMode({ kind: 'pass' });
      expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
    },
  );
});
