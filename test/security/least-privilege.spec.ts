import 'reflect-metadata';
import { readFileSync, readdirSync } from 'node:fs';
import { Test } from '@nestjs/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LockService, RedlockModule } from '../../lib/index.ts';
import type { LockEvent } from '../../lib/index.ts';
import { REQUIRED_COMMANDS, requiredAclRules } from '../../lib/redis/preflight/startup-checks.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers, type RedisServer } from '../support/redis-servers/index.ts';

const RULES = requiredAclRules('lock:');

describe('the list of rights', () => {
  it('in the README is the one that start-up checks demand', () => {
    const readme = readFileSync('README.md', 'utf8');
    expect(readme).toContain(`\nACL SETUSER locks on >password ${RULES}\n`);
  });

  it('has every command that our scripts call, and none that nothing calls', () => {
    const folder = 'lib/redis/scripts';
    const scripts = readdirSync(folder).map((name) => readFileSync(`${folder}/${name}`, 'utf8'));
    const called = scripts
      .filter((text) => !text.includes('-- PROBE'))
      .flatMap((text) => [...text.matchAll(/(?:\bp?call|redis\.p?call)\('([A-Z]+)'/g)])
      .map(([, command]) => command!.toLowerCase());
    const sentByUs = ['ping', 'script|exists', 'script|load', 'evalsha', 'eval'];
    const hints = ['subscribe', 'unsubscribe'];
    expect([...new Set([...called, ...sentByUs, ...hints])].sort()).toEqual(
      [...REQUIRED_COMMANDS].sort(),
    );
  });
});

describe('two applications whose user has these rights only', () => {
  let servers: RedisServer[];
  let admins: Redis[];
  const open: { close(): Promise<void> }[] = [];

  beforeAll(async () => {
    servers = await startRedisServers(3, {
      acl: ['user default on nopass ~* &* +@all', `user locks on >password ${RULES}`],
    });
    admins = servers.map(({ url }) => new Redis(url));
  });
  afterEach(async () => {
    for (const module of open.splice(0)) await module.close();
  });
  afterAll(async () => {
    for (const admin of admins) admin.disconnect();
    await Promise.all(servers.map((server) => server.stop()));
  });

  async function start(lines: unknown[], events: LockEvent[]) {
    const write = (line: unknown) => void lines.push(line);
    const module = await Test.createTestingModule({
      imports: [
        RedlockModule.forRoot({
          nodes: servers.map(({ url }) => url.replace('//', '//locks:password@')),
          strict: true,
          ttl: '1s',
          onEvent: (event) => events.push(event),
        }),
      ],
    })
      .setLogger({ log() {}, warn: write, error: write })
      .compile();
    open.push(module);
    await module.init();
    return module.get(LockService);
  }

  it('start without a warning, lock, wait, are woken, extend, look and release; the servers refuse nothing', async () => {
    const lines: unknown[] = [];
    const events: LockEvent[] = [];
    const first = await start(lines, events);
    const second = await start(lines, events);
    const held = await first.acquire(['a', 'b']);
    const waiting = second.acquire('b', { wait: '20s' });
    await eventually(() => expect(events.map(({ type }) => type)).toContain('extended'));
    await held.extend();
    await expect(first.inspect('a')).resolves.toMatchObject({ holder: held.token.holder });
    for (const admin of admins) {
      await eventually(async () => expect(await admin.pubsub('CHANNELS')).toContain('lock:b'));
    }
    await held.release();
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await next.release();
    for (const module of open.splice(0)) await module.close();
    const types = new Set(events.map(({ type }) => type));
    expect([...types].filter((type) => /failed|lost|incomplete|unavailable/.test(type))).toEqual(
      [],
    );
    expect(lines).toEqual([]);
    for (const admin of admins) expect(await admin.call('acl', ['log'])).toEqual([]);
  });

  it('can do nothing else: neither other keys, nor other channels, nor other commands', async () => {
    const user = new Redis(servers[0]!.url.replace('//', '//locks:password@'), {
      enableReadyCheck: false,
    });
    try {
      const forbidden: [string, ...string[]][] = [
        ['get', 'data'],
        ['set', 'data', '1'],
        ['del', 'data'],
        ['subscribe', 'news'],
        ['publish', 'news', '1'],
        ['flushall'],
        ['keys', '*'],
        ['config', 'get', 'requirepass'],
        ['script', 'flush'],
        ['acl', 'list'],
        ['eval', "return redis.call('GET', 'data')", '0'],
        ['eval', "return redis.call('GET', KEYS[1])", '1', 'data'],
      ];
      for (const [command, ...rest] of forbidden) {
        await expect(user.call(command, rest)).rejects.toThrow(/NOPERM|permission|can't access/);
      }
    } finally {
      user.disconnect();
      await admins[0]!.call('acl', ['log', 'reset']);
    }
  });
});
