import 'reflect-metadata';
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  Fenced,
  FencingToken,
  LockService,
  RedlockConfigError,
  RedlockModule,
} from '../../lib/index.ts';
import type { RedlockModuleOptions } from '../../lib/index.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@Injectable()
class Seats {
  @Fenced('seat:{0}')
  async book(_seatId: string, @FencingToken() token?: FencingToken): Promise<number> {
    await section.visit();
    return token!.value;
  }
}

describe('an application over real Redis servers', () => {
  let servers: RedisServer[];
  let urls: string[];
  // The servers may be shared with other specs.
  const keyPrefix = `lock:${randomUUID()}:`;

  beforeAll(async () => {
    servers = await startRedisServers(3);
    urls = servers.map(({ url }) => url);
  });
  afterAll(() => Promise.all(servers.map((server) => server.stop())));
  afterEach(closeAll);
  afterEach(() => section.reset());

  async function start(options: RedlockModuleOptions) {
    const module = await Test.createTestingModule({
      imports: [RedlockModule.forRoot({ restartGuard: false, keyPrefix, ...options })],
      providers: [Seats],
    })
      .setLogger(silentLogger)
      .compile();
    return closeLater(await module.init());
  }

  it('excludes two applications, with growing tokens', async () => {
    const first = (await start({ nodes: urls })).get(Seats);
    const second = (await start({ nodes: urls })).get(Seats);
    const tokens = await Promise.all(
      [first, second, first, second].map((seats) => seats.book('1')),
    );
    expect(section.mostInside).toBe(1);
    expect(new Set(tokens).size).toBe(4);
    await expect(second.book('1')).resolves.toBeGreaterThan(Math.max(...tokens));
  });

  it("leaves the caller's own connections open and as they were", async () => {
    const clients = urls.map((url) => new Redis(url, { keyPrefix: 'app:' }));
    try {
      const module = await start({ nodes: clients });
      await module.get(Seats).book('1');
      await module.close();
      for (const client of clients) {
        await expect(client.ping()).resolves.toBe('PONG');
        expect([client.mode, client.options.keyPrefix]).toEqual(['normal', 'app:']);
      }
    } finally {
      for (const client of clients) client.disconnect();
    }
  });

  it('takes ioredis options and works with one server', async () => {
    const { host, port } = servers[0]!;
    const module = await start({ nodes: [{ host, port }] });
    await expect(module.get(Seats).book('1')).resolves.toBeGreaterThan(0);
    await expect(module.get(LockService).inspect('seat:1')).resolves.toMatchObject({
      holder: null,
    });
  });

  it('refuses one server under two names and two databases', async () => {
    const { port } = servers[0]!;
    const nodes = [`redis://127.0.0.1:${port}/0`, `redis://localhost:${port}/1`, urls[1]!];
    const boot = start({ nodes });
    await expect(boot).rejects.toThrow(RedlockConfigError);
    await expect(boot).rejects.toThrow(/is the same server as 127\.0\.0\.1/);
  });

  it('starts and locks while one server is frozen', async () => {
    const frozen = servers[2]!;
    if (!frozen.canFault) return;
    await frozen.freeze();
    try {
      const module = await start({ nodes: urls });
      await expect(module.get(Seats).book('1')).resolves.toBeGreaterThan(0);
      await module.close();
    } finally {
      await frozen.resume();
    }
  });

  describe('the process', () => {
    const run = (nodes: readonly string[]) =>
      promisify(execFile)(
        process.execPath,
        [
          '--import',
          './test/support/typescript-loader.mjs',
          'test/nest/support/exiting-application.ts',
          ...nodes,
        ],
        // Only a hang crosses it.
        { timeout: 25_000 },
      );

    it('ends by itself after app.close()', async () => {
      await expect(run(urls)).resolves.toMatchObject({ stdout: 'booked 1\ndone\n' });
    });

    it('ends with an error when no server answers at boot', async () => {
      const nobody = ['redis://127.0.0.1:1', 'redis://127.0.0.1:2', 'redis://127.0.0.1:3'];
      await expect(run(nobody)).rejects.toMatchObject({
        code: 1,
        killed: false,
        stderr: expect.stringMatching(
          /QuorumUnavailableError: No quorum .*2 of 3 nodes must vote.*ECONNREFUSED/,
        ),
      });
    });
  });
});
