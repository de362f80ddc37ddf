import { joinRequest } from '../../support/join-request.ts';
import { AsyncLocalStorage } from 'node:async_hooks';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it, jest } from '@jest/globals';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { createMemoryNodes, MemoryLockNode, MemoryLockServer } from '../../../lib/testing/index.ts';
import { ballotNow, NodeDriver } from '../../support/node-driver.ts';

const REQUEST = joinRequest({ markerName: '#marker', restartGuardMs: 100 });

describe('JOIN in memory', () => {
  it('happens at one instant, as a script of Redis does, although the clock moves on at every reading', () => {
    let micros = 1_800_000_000_000_000;
    const server = new MemoryLockServer({
      clock: { wallMicros: () => (micros += 1_000) },
      fresh: true,
    });
    expect(server.join(REQUEST)).toMatchObject({ kind: 'joined', quarantineMs: 100 });
    const [, voteAfterMs] = server.call('GET', '#marker').split(' ');
    const again = server.join(REQUEST);
    expect(again).toMatchObject({
      kind: 'joined',
      quarantineMs: Number(voteAfterMs) - Math.floor(micros / 1_000),
    });
  });
});

describe('the restart guard of servers in memory', () => {
  const guardOf = (server: MemoryLockServer, restartGuardMs = 100, markerName = '#marker') =>
    server.join({ ...REQUEST, restartGuardMs, markerName });
  const nothingToServe = { kind: 'joined', quarantineMs: 0 };

  it('is served when they are made, for every application and every length of it', () => {
    const [node] = createMemoryNodes(1);
    expect(guardOf(node!.server)).toMatchObject(nothingToServe);
    expect(guardOf(node!.server, 2_147_483_647)).toMatchObject(nothingToServe);
    expect(guardOf(node!.server, 10_000, 'other:#marker')).toMatchObject(nothingToServe);
  });

  it.each<[string, () => unknown, string]>([
    ['no number of them', () => createMemoryNodes(undefined as never), "Option 'countOrServers'"],
    ['half a server', () => createMemoryNodes(1.5), "Option 'countOrServers'"],
    ['no server', () => createMemoryNodes(0), "Option 'countOrServers'"],
    ['fewer than no server', () => createMemoryNodes(-1), "Option 'countOrServers'"],
    ['old servers as fresh ones', () => createMemoryNodes([], { fresh: true }), "Option 'fresh'"],
  ])('are not made of %s', (_, make, message) => {
    expect(make).toThrow(message);
  });

  it('lets a lock service over new nodes acquire at its first try', async () => {
    const redlock = new Redlock(createMemoryNodes(3), { wait: 0 });
    redlock.open();
    expect(await redlock.ready(20_000)).toBe(true);
    await expect(redlock.withLock('seat:1', () => 'booked')).resolves.toBe('booked');
    await redlock.close();
  });

  it('is served also where a test sets the date back by years', async () => {
    let micros = Date.now() * 1_000;
    const clock = { wallMicros: () => micros };
    const server = new MemoryLockServer({ clock });
    guardOf(server, 10_000);
    micros -= 20 * 365 * 86_400_000_000;
    expect(guardOf(server, 10_000)).toMatchObject(nothingToServe);
  });

  it.each([
    ['was made as a fresh one', () => createMemoryNodes(1, { fresh: true })[0]!.server],
    ['restarted without its data', () => restarted({ keepData: false })],
    ['restarted with its data', () => restarted({ keepData: true })],
    ['restarted with an older state', () => restarted({ keepData: false, snapshot })],
    ['was flushed', () => used((server) => server.flush())],
    ['lost its marker', () => used((server) => server.call('DEL', '#marker'))],
  ])('has to be served by a server that %s', (_what, make) => {
    expect(guardOf(make())).not.toMatchObject(nothingToServe);
  });

  const used = (damage: (server: MemoryLockServer) => void) => {
    const server = new MemoryLockServer();
    guardOf(server);
    damage(server);
    return server;
  };
  const snapshot = new MemoryLockServer().snapshot();
  const restarted = (options: Parameters<MemoryLockServer['restart']>[0]) =>
    used((server) => server.restart(options));
});

it('nodes of two applications on the same servers are the same nodes to both', () => {
  const first = createMemoryNodes(3);
  const servers = first.map(({ server }) => server);
  const addresses = first.map(({ address }) => address);
  expect(createMemoryNodes(servers).map(({ address }) => address)).toEqual(addresses);
  // The first service takes the node itself.
  for (const node of first) node.forService();
  expect(first.map((node) => node.forService().address)).toEqual(addresses);
});

describe('fake timers of a test', () => {
  it.each([1, 3])(
    'do not stop locks of free keys, nor their release: %i memory nodes',
    async (size) => {
      const redlock = new Redlock(createMemoryNodes(size));
      redlock.open();
      expect(await redlock.ready(20_000)).toBe(true);
      jest.useFakeTimers();
      const book = (seat: number) => redlock.withLock(`seat:${seat % 3}`, () => 'booked');
      try {
        for (let seat = 0; seat < 5; seat += 1) await expect(book(seat)).resolves.toBe('booked');
        const together = await Promise.all([5, 6, 7].map(book));
        expect(together).toEqual(['booked', 'booked', 'booked']);
        const lock = await redlock.acquire('seat:0');
        await lock.release();
      } finally {
        jest.useRealTimers();
        await redlock.close();
      }
    },
  );
});

describe('under fake timers', () => {
  it('waits end, locks are extended and expire when the test moves the time', async () => {
    const nodes = createMemoryNodes(3);
    const redlock = new Redlock(nodes, { ttl: 3_000 });
    redlock.open();
    expect(await redlock.ready(1_000)).toBe(true);
    jest.useFakeTimers();
    try {
      const held = await redlock.acquire('held');
      const short = await redlock.acquire('short', { extend: false });
      const waiting = redlock.acquire('held', { wait: 2_000 }).catch((error: unknown) => error);
      await jest.advanceTimersByTimeAsync(2_500);
      expect(await waiting).toMatchObject({ code: 'LOCK_BUSY' });
      await jest.advanceTimersByTimeAsync(60_000);
      expect([held.isHeld, short.isHeld]).toEqual([true, false]);
      expect((await redlock.inspect('held')).holder).toBe(held.token.holder);
      await held.release();
    } finally {
      jest.useRealTimers();
      await redlock.close();
    }
  });
});

describe('the timers of a memory node', () => {
  it('do not keep a process alive, neither after a request nor while its server is dead', async () => {
    const program = `
      import { MemoryLockNode } from './lib/testing/index.ts';
      const node = new MemoryLockNode(undefined, { latencyMs: 600_000, reconnectDelayMs: 600_000 });
      const dead = new MemoryLockNode(undefined, { reconnectDelayMs: 600_000 });
      const listener = { opened() {}, closed() {}, turn() {}, listening() {} };
      for (const each of [node, dead]) each.open(listener);
      dead.kill();
    `;
    const loader = ['--import', './test/support/typescript-loader.mjs'];
    const args = [...loader, '--input-type=module', '--eval', program];
    const ended = promisify(execFile)(process.execPath, args, { timeout: 60_000 });
    // The promise rejects when the process has to be killed.
    await expect(ended).resolves.toBeDefined();
  });
});

describe('whatever a memory node calls', () => {
  it('runs outside of the context of the request that asked', async () => {
    const context = new AsyncLocalStorage<string>();
    const stores: unknown[] = [];
    for (const latencyMs of [0, 2]) {
      const node = new MemoryLockNode(undefined, { latencyMs });
      const driver = await context.run('a request', () => NodeDriver.open(node));
      await driver.join();
      const vote = {
        names: new NodeNames('lock:', ['a']),
        holder: 'a',
        ballot: ballotNow(),
        ttlMs: 1,
      };
      await new Promise<void>((resolve) =>
        context.run('a request', () => {
          node.listen('lock:#turns:a');
          node.acquire(vote, () => {
            stores.push(context.getStore());
            resolve();
          });
          node.flush();
        }),
      );
      await node.close();
    }
    expect(stores).toEqual([undefined, undefined]);
  });
});
