import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { Fenced, FencingToken, LockService, RedlockModule } from '../../lib/index.ts';
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
});
