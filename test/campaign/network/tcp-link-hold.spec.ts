import { describe, expect, it } from '@jest/globals';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Chance } from '../../simulation/world/chance.ts';
import { eventually } from '../../support/eventually.ts';
import { connectedClients, LinkStage, settled, untilCount } from './link-stage.ts';
import type { LinkMode } from './link-mode.ts';
import { encodeCommand } from './raw-client.ts';
import type { TcpLink } from './tcp-link.ts';

const stage = new LinkStage();

const MEGABYTE = 1_048_576;
/** Longer than any test. */
const FOREVER_MS = 60_000;

describe('a link in mode hold', () => {
  it.each([
    { direction: 'both', executed: '0' },
    { direction: 'requests', executed: '0' },
    { direction: 'replies', executed: '1' },
    { direction: undefined, executed: '0' },
  ] as const)('keeps what arrives: $direction', async ({ direction, executed }) => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'hold', direction });
    client.send('INCR held', 'INCR held');
    await untilCount(link, 'heldChunks', 1);
    expect(await stage.ask('EXISTS', 'held')).toBe(executed);
    expect(client.text).toBe('+PONG\r\n');
    await link.setMode({ kind: 'hold', direction });
    await link.setMode({ kind: 'pass' });
    await client.until('+PONG\r\n:1\r\n:2\r\n'.length);
    expect(client.text).toBe('+PONG\r\n:1\r\n:2\r\n');
    expect(link.counts).toMatchObject({ heldChunks: 1, lostChunks: 0, resets: 0 });
  });

  it('lets through what goes the other way', async () => {
    const { link, client } = await stage.connected();
    expect(await client.ask('SUBSCRIBE news')).toContain('subscribe');
    const before = client.received.length;
    await link.setMode({ kind: 'hold', direction: 'requests' });
    client.send('UNSUBSCRIBE news');
    await untilCount(link, 'heldChunks', 1);
    expect(await stage.ask('PUBLISH', 'news', 'sold out')).toBe('1');
    await eventually(() => expect(client.text.slice(before)).toContain('sold out'));
  });

  it.each(['both', 'requests', 'replies'] as const)(
    'accepts connections, of which the server learns later: %s',
    async (direction) => {
      const link = await stage.link();
      await link.setMode({ kind: 'hold', direction });
      const [client, closing] = [await stage.client(link), await stage.client(link)];
      client.send('INCR held');
      closing.socket.end('INCR held\r\n');
      await untilCount(link, 'heldChunks', 2);
      expect(await connectedClients(stage)).toBe(0);
      expect(await stage.ask('EXISTS', 'held')).toBe('0');
      await link.setMode({ kind: 'pass' });
      expect(await closing.ended).toBe('end');
      await client.until(':1\r\n'.length);
      expect([client.text, closing.text].sort()).toEqual([':1\r\n', ':2\r\n']);
      expect(await client.ask('PING')).toContain('+PONG');
    },
  );

  it.each(['end', 'resetAndDestroy'] as const)(
    'keeps that a client closes (%s), behind its requests',
    async (close) => {
      const { link, client } = await stage.joined();
      await link.setMode({ kind: 'hold', direction: 'requests' });
      client.send('INCR held');
      await untilCount(link, 'heldChunks', 1);
      client.socket[close]();
      await settled(() => link.counts.requestBytes);
      expect(await connectedClients(stage)).toBe(1);
      await link.setMode({ kind: 'pass' });
      await eventually(async () => expect(await connectedClients(stage)).toBe(0));
      expect(await stage.ask('GET', 'held')).toBe('1');
    },
  );

  it('delivers what a client had sent before it reset a connection that had not begun', async () => {
    // Not Redis, which may throw away a new connection that it finds reset.
    const plain = await stage.plainServer();
    const link = await stage.link(1, plain);
    await link.setMode({ kind: 'hold' });
    const client = await stage.client(link);
    client.send('INCR held');
    await untilCount(link, 'heldChunks', 1);
    client.socket.resetAndDestroy();
    await settled(() => link.counts.requestBytes);
    await link.setMode({ kind: 'pass' });
    await eventually(() => expect(plain.received).toBe('INCR held\r\n'));
    await eventually(() => expect(link.openConnections).toBe(0));
  });

  it('keeps that the server closes', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'hold' });
    await stage.server.kill();
    await stage.server.restart();
    const other = await stage.client(link);
    other.send('PING');
    await untilCount(link, 'heldChunks', 1);
    expect(client.isEnded).toBe(false);
    await link.setMode({ kind: 'pass' });
    await client.ended;
    await other.until('+PONG\r\n'.length);
  });

  it.each(['pass', 'lose'] as const)('takes no more than fits, and then all: %s', async (kind) => {
    const { link, client } = await stage.connected();
    const value = Buffer.alloc(64 * MEGABYTE, 'abcdefg');
    await client.ask('PING');
    await link.setMode({ kind: 'hold' });
    client.socket.write(encodeCommand('SET', 'big', value));
    await untilCount(link, 'heldChunks', 16);
    await settled(() => link.counts.heldChunks);
    expect(client.socket.writableLength).toBeGreaterThan(0);
    await link.setMode({ kind });
    await eventually(() => expect(client.socket.writableLength).toBe(0));
    if (kind === 'pass') await client.until('+PONG\r\n+OK\r\n'.length);
    expect(await stage.ask('STRLEN', 'big')).toBe(kind === 'pass' ? String(value.length) : '0');
  });
});

describe('a link in mode delay', () => {
  it.each([
    { direction: 'requests', delayed: 1 },
    { direction: 'replies', delayed: 1 },
    { direction: 'both', delayed: 2 },
    { direction: undefined, delayed: 2 },
  ] as const)('delays each chunk: $direction', async ({ direction, delayed }) => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'delay', minMs: 100, maxMs: 150, direction });
    const from = performance.now();
    await client.ask('PING');
    expect(performance.now() - from).toBeGreaterThanOrEqual(100 * delayed);
    expect(link.counts.delayedChunks).toBe(delayed);
  });

  it('keeps the order of a connection', async () => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'delay', minMs: 0, maxMs: 30 });
    let expected = '+PONG\r\n';
    for (let index = 0; index < 50; index += 1) {
      client.send(`ECHO ${index}`);
      expected += `$${String(index).length}\r\n${index}\r\n`;
      await sleep(1);
    }
    await client.until(expected.length);
    expect(client.text).toBe(expected);
    expect(link.counts.delayedChunks).toBeGreaterThan(50);
  });

  it('takes as much as there is', async () => {
    const { link, client } = await stage.connected();
    await link.setMode({ kind: 'delay', minMs: 1, maxMs: 2, direction: 'requests' });
    client.socket.write(encodeCommand('SET', 'big', Buffer.alloc(8 * MEGABYTE)));
    await client.until('+OK\r\n'.length);
    expect(await stage.ask('STRLEN', 'big')).toBe(String(8 * MEGABYTE));
  });

  it.each<LinkMode>([
    { kind: 'pass' },
    { kind: 'delay', minMs: 10, maxMs: 20 },
    { kind: 'delay', minMs: FOREVER_MS, maxMs: FOREVER_MS, direction: 'replies' },
  ])('ends at once for what is under way: %j', async (next) => {
    const { link, client } = await stage.joined();
    await link.setMode({ kind: 'delay', minMs: FOREVER_MS, maxMs: FOREVER_MS });
    client.send('INCR delayed');
    await untilCount(link, 'delayedChunks', 1);
    expect(await stage.ask('EXISTS', 'delayed')).toBe('0');
    await link.setMode(next);
    await eventually(async () => expect(await stage.ask('EXISTS', 'delayed')).toBe('1'));
  });
});

describe('a long stream through a link whose mode changes all the time', () => {
  const COMMANDS = 3_000;

  /** Modes that lose nothing, drawn again until aborted. */
  async function disturb(link: TcpLink, chance: Chance, enough: AbortSignal): Promise<void> {
    const directions = ['both', 'requests', 'replies'] as const;
    while (!enough.aborted) {
      const direction = chance.pick(directions);
      const mode = chance.pick<LinkMode>([
        { kind: 'pass' },
        { kind: 'hold', direction },
        { kind: 'delay', minMs: 0, maxMs: chance.integer(0, 20), direction },
        { kind: 'truncate', probability: 0 },
        { kind: 'garbage', probability: 0 },
      ]);
      await link.setMode(mode);
      await sleep(chance.between(0, 15));
    }
    await link.setMode({ kind: 'pass' });
  }

  it.each([1, 2, 3])('arrives complete and in order, both ways (seed %i)', async (seed) => {
    const chance = new Chance(seed);
    const link = await stage.link(seed);
    const client = await stage.client(link);
    const enough = new AbortController();
    const disturbing = disturb(link, chance.branch('modes'), enough.signal);
    const noise = randomBytes(400_000);
    const expected: Buffer[] = [];
    for (let sent = 0; sent < COMMANDS; sent += 1) {
      const length = chance.happens(0.02) ? chance.integer(0, 200_000) : chance.integer(0, 200);
      const from = chance.integer(0, 200_000);
      const text = noise.subarray(from, from + length);
      client.socket.write(encodeCommand('ECHO', text));
      expected.push(Buffer.from(`$${length}\r\n`), text, Buffer.from('\r\n'));
      if (sent % 20 === 0) await sleep(chance.between(0, 5));
    }
    client.socket.end();
    enough.abort();
    await disturbing;
    expect(await client.ended).toBe('end');
    expect(client.received.equals(Buffer.concat(expected))).toBe(true);
    expect(link.counts.replyBytes).toBe(client.received.length);
    expect(link.counts).toMatchObject({ connections: 1, lostChunks: 0, resets: 0 });
    expect(Math.min(link.counts.heldChunks, link.counts.delayedChunks)).toBeGreaterThan(10);
  });
});
