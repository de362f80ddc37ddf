import { describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import type { CutConnection } from '../campaign-event.ts';
import { emptyLinkCounts } from './link-counts.ts';
import { connectedClients, LinkStage, settled, untilCount } from './link-stage.ts';
import { encodeCommand, RawClient } from './raw-client.ts';
import { TcpLink } from './tcp-link.ts';

const stage = new LinkStage();

const MEGABYTE = 1_048_576;

describe('a link in mode pass', () => {
  it('gives the answers of the server, and counts', async () => {
    const { link, client } = await stage.connected();
    expect(await client.ask('SET name first')).toBe('+OK');
    expect(await stage.ask('GET', 'name')).toBe('first');
    expect(link.counts).toEqual({
      ...emptyLinkCounts(),
      connections: 1,
      requestBytes: 'SET name first\r\n'.length,
      replyBytes: '+OK\r\n'.length,
    });
  });

  it.each(['the server itself', 'a link'])(
    'leaves a half-closed connection open for replies, like %s',
    async (way) => {
      const port = way === 'a link' ? (await stage.link()).port : stage.server.port;
      const client = await stage.client({ port });
      client.socket.end('PING\r\nPING\r\n');
      expect(await client.ended).toBe('end');
      expect(client.text).toBe('+PONG\r\n+PONG\r\n');
    },
  );

  it('tells the server when a client closes or resets', async () => {
    const link = await stage.link();
    for (const way of ['destroy', 'resetAndDestroy'] as const) {
      const client = await stage.client(link);
      await client.ask('PING');
      expect(await connectedClients(stage)).toBe(1);
      client.socket[way]();
      await eventually(async () => expect(await connectedClients(stage)).toBe(0));
      await eventually(() => expect(link.openConnections).toBe(0));
    }
    link.resetConnections();
    expect(link.counts).toMatchObject({ connections: 2, resets: 0 });
  });

  it('leaves a connection that the server half-closed open for requests', async () => {
    const { plain, link, client } = await stage.joinedPlain();
    await eventually(() => expect(plain.sockets).toHaveLength(1));
    plain.sockets[0]!.end();
    expect(await client.ended).toBe('end');
    client.send('PING');
    await eventually(() => expect(plain.received).toBe('PING\r\n'));
    client.socket.end();
    await eventually(() => expect(link.openConnections).toBe(0));
  });

  it('passes on that the server resets a connection', async () => {
    const { plain, link, client } = await stage.joinedPlain();
    client.send('PING');
    await eventually(() => expect(plain.received).toBe('PING\r\n'));
    plain.sockets[0]!.resetAndDestroy();
    expect(await client.ended).toBe('ECONNRESET');
    expect(link.counts).toMatchObject({ unreachable: 0, resets: 0 });
  });

  it('closes clients when the server dies or is down, and reaches it when it is back', async () => {
    const { link, client } = await stage.joined();
    await stage.server.kill();
    await client.ended;
    expect(link.counts.unreachable).toBe(0);
    expect(await (await stage.client(link)).ended).toBe('ECONNRESET');
    expect(link.counts).toMatchObject({ connections: 2, unreachable: 1, resets: 0 });
    await stage.server.restart();
    expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
  });

  it('takes no more from a server than the client reads', async () => {
    const link = await stage.link();
    const value = Buffer.alloc(4 * MEGABYTE, 'abcdefg');
    const replies = 12;
    const writer = await stage.client(stage.server);
    writer.socket.write(encodeCommand('SET', 'big', value));
    await writer.until('+OK\r\n'.length);
    const client = await stage.client(link);
    client.socket.pause();
    client.send(...Array<string>(replies).fill('GET big'));
    await untilCount(link, 'replyBytes', MEGABYTE);
    expect(await settled(() => link.counts.replyBytes)).toBeLessThan(replies * value.length);
    client.socket.resume();
    const reply = Buffer.concat([Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')]);
    await client.until(replies * reply.length);
    expect(client.received.equals(Buffer.concat(Array<Buffer>(replies).fill(reply)))).toBe(true);
  });
});

describe('a link in mode lose', () => {
  it.each([
    { direction: 'both', executed: '0' },
    { direction: 'requests', executed: '0' },
    { direction: 'replies', executed: '1' },
    { direction: undefined, executed: '0' },
  ] as const)('throws away: $direction', async ({ direction, executed }) => {
    const { link, client } = await stage.connected();
    const idle = await stage.client(link);
    await Promise.all([client.ask('PING'), idle.ask('PING')]);
    await link.setMode({ kind: 'lose', direction });
    client.send('INCR lost');
    await untilCount(link, 'lostChunks', 1);
    expect(await stage.ask('EXISTS', 'lost')).toBe(executed);
    expect(client.isEnded).toBe(false);
    await link.setMode({ kind: 'pass' });
    expect(await client.ended).toBe('ECONNRESET');
    expect(client.text).toBe('+PONG\r\n');
    expect(await idle.ask('PING')).toBe('+PONG');
    expect(link.counts).toMatchObject({ lostChunks: 1, resets: 1 });
  });

  it('is over for a connection when the direction in which it lost something is healed', async () => {
    const link = await stage.link();
    const [first, second] = [await stage.client(link), await stage.client(link)];
    await Promise.all([first.ask('PING'), second.ask('PING')]);
    await link.setMode({ kind: 'lose', direction: 'requests' });
    first.send('PING');
    await untilCount(link, 'lostChunks', 1);
    await link.setMode({ kind: 'lose' });
    await link.setMode({ kind: 'lose', direction: 'requests' });
    expect(link.counts.resets).toBe(0);
    await link.setMode({ kind: 'lose', direction: 'replies' });
    expect(await first.ended).toBe('ECONNRESET');
    second.send('PING');
    await untilCount(link, 'lostChunks', 2);
    expect(second.isEnded).toBe(false);
    await link.setMode({ kind: 'hold' });
    expect(await second.ended).toBe('ECONNRESET');
  });

  it.each(['both', 'requests', 'replies'] as const)(
    'lets no connection begin: %s',
    async (direction) => {
      const link = await stage.link();
      await link.setMode({ kind: 'lose', direction });
      const [client, silent] = [await stage.client(link), await stage.client(link)];
      client.send('INCR lost');
      await untilCount(link, 'lostChunks', 1);
      await untilCount(link, 'connections', 2);
      expect(await connectedClients(stage)).toBe(0);
      await link.setMode({ kind: 'pass' });
      expect(await client.ended).toBe('ECONNRESET');
      expect(await silent.ended).toBe('ECONNRESET');
      expect(await stage.ask('EXISTS', 'lost')).toBe('0');
      expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
    },
  );

  it('loses what was held before, and the handshakes', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'hold' });
    client.send('INCR lost');
    await untilCount(link, 'heldChunks', 1);
    const silent = await stage.client(link);
    await untilCount(link, 'connections', 2);
    await link.setMode({ kind: 'lose' });
    expect(link.counts).toMatchObject({ lostChunks: 1, resets: 0 });
    await link.setMode({ kind: 'pass' });
    expect(await Promise.all([client.ended, silent.ended])).toEqual(['ECONNRESET', 'ECONNRESET']);
    expect(await stage.ask('EXISTS', 'lost')).toBe('0');
  });

  it('loses the end of a stream, too', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'lose' });
    client.socket.end();
    const other = await stage.client(link);
    other.send('PING');
    await untilCount(link, 'lostChunks', 1);
    expect(await connectedClients(stage)).toBe(1);
    await link.setMode({ kind: 'pass' });
    await eventually(async () => expect(await connectedClients(stage)).toBe(0));
    expect(link.counts.resets).toBe(2);
  });
});

describe('a link that forgets a connection', () => {
  const KINDS = ['commands', 'hints'] as const;

  it('lets nothing through, notifies no one, in whatever mode, and serves new ones', async () => {
    const { link, client } = await stage.joined();
    link.forgetConnections(KINDS);
    client.send('INCR forgotten');
    await untilCount(link, 'lostChunks', 1);
    await link.setMode({ kind: 'hold' });
    await link.setMode({ kind: 'lose' });
    await link.setMode({ kind: 'pass' });
    link.resetConnections();
    expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
    expect(await stage.ask('EXISTS', 'forgotten')).toBe('0');
    expect([client.isEnded, client.text]).toEqual([false, '+PONG\r\n']);
    expect(link.connections.map(({ isForgotten }) => isForgotten)).toEqual([true, false]);
    expect(link.counts).toMatchObject({ forgotten: 1, resets: 0 });
  });

  it.each(KINDS)('tells %s apart', async (kind) => {
    const { link, client } = await stage.joined();
    const subscriber = await stage.client(link);
    subscriber.socket.write(encodeCommand('subscribe', 'news'));
    await subscriber.until(1);
    expect(link.connections.map((each) => each.kind)).toEqual(KINDS);
    link.forgetConnections([kind]);
    const isForgotten = link.connections.map((each) => each.isForgotten);
    expect(isForgotten).toEqual([kind === 'commands', kind === 'hints']);
    const [dead, alive] = kind === 'hints' ? [subscriber, client] : [client, subscriber];
    const lengths = [dead.received.length, alive.received.length] as const;
    client.send('PING');
    await stage.ask('PUBLISH', 'news', 'hint');
    await alive.until(lengths[1] + 1);
    expect(dead.received).toHaveLength(lengths[0]);
  });

  it.each(['end', 'resetAndDestroy'] as const)('notes when it is given up (%s)', async (close) => {
    const cuts: CutConnection[] = [];
    const link = await TcpLink.open(stage.server, undefined, (cut) => cuts.push(cut));
    const client = await stage.client(link);
    await client.ask('PING');
    link.forgetConnections(KINDS);
    expect(cuts).toEqual([]);
    client.socket[close]();
    await eventually(() => expect(cuts).toHaveLength(1));
    expect(cuts[0]!.at).toBeGreaterThan(cuts[0]!.from);
    expect(link.connections).toEqual([]);
    await (await stage.client(link)).ask('PING');
    link.resetConnections();
    expect(cuts.map(({ from, at }) => from === at)).toEqual([false, true]);
    await link.close();
  });
});

describe('a link in mode reset', () => {
  it('resets what is open and what is new, until it passes again', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'reset' });
    expect(await client.ended).toBe('ECONNRESET');
    // The reset may already be there when the connection is made.
    const ended = RawClient.connect(link.port).then(
      (connected) => connected.ended,
      (error: NodeJS.ErrnoException) => String(error.code),
    );
    expect(await ended).toBe('ECONNRESET');
    expect(link.counts).toMatchObject({ connections: 2, resets: 2 });
    await eventually(async () => expect(await connectedClients(stage)).toBe(0));
    await link.setMode({ kind: 'pass' });
    expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
  });
});

describe('a link in mode refuse', () => {
  it('resets what is open, refuses what is new, and comes back on the same port', async () => {
    const link = await stage.link();
    const { port } = link;
    for (let round = 0; round < 3; round += 1) {
      const client = await stage.client(link);
      expect(await client.ask('PING')).toBe('+PONG');
      await link.setMode({ kind: 'refuse' });
      expect(await client.ended).toBe('ECONNRESET');
      await expect(RawClient.connect(port)).rejects.toThrow('ECONNREFUSED');
      await link.setMode({ kind: 'pass' });
      expect(link.port).toBe(port);
    }
    expect(link.counts).toMatchObject({ connections: 3, resets: 3 });
  });

  it('may change as fast as it likes: the last mode counts', async () => {
    const link = await stage.link();
    const refuse = { kind: 'refuse' } as const;
    const pass = { kind: 'pass' } as const;
    await Promise.all([refuse, pass, refuse, pass, refuse].map((mode) => link.setMode(mode)));
    await expect(RawClient.connect(link.port)).rejects.toThrow('ECONNREFUSED');
    await Promise.all([pass, refuse, pass, pass].map((mode) => link.setMode(mode)));
    expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
  });

  it('waits for its port when somebody else has taken it', async () => {
    const link = await stage.link();
    await link.setMode({ kind: 'refuse' });
    const occupant = createServer().listen(link.port, '127.0.0.1');
    await once(occupant, 'listening');
    let isOpen = false;
    const opening = link.setMode({ kind: 'pass' }).then(() => (isOpen = true));
    await sleep(100);
    expect(isOpen).toBe(false);
    occupant.close();
    await opening;
    expect(await (await stage.client(link)).ask('PING')).toBe('+PONG');
  });
});

describe('a closed link', () => {
  it('has closed its connections on both sides, and refuses', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'hold' });
    const waiting = await stage.client(link);
    client.send('INCR held');
    await untilCount(link, 'heldChunks', 1);
    await link.close();
    await Promise.all([client.ended, waiting.ended]);
    await eventually(async () => expect(await connectedClients(stage)).toBe(0));
    await expect(RawClient.connect(link.port)).rejects.toThrow('ECONNREFUSED');
    expect(await stage.ask('EXISTS', 'held')).toBe('0');
  });
});
