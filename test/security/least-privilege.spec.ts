import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/index.ts';
import { REQUIRED_COMMANDS, requiredAclRules } from '../../lib/redis/preflight.ts';
import { clientOf } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { useLockModules, type LockModule } from './use-lock-modules.ts';

const RULES = requiredAclRules('lock:');
/** Leases and waits that outlast a test, as does the time that a server has for its answer. */
const LASTING = { ttl: '1h', wait: '1h', nodeTimeout: '10m' } as const;

describe('the list of rights', () => {
  it('docs/operations.md lists the rights that start-up checks demand', () => {
    const page = readFileSync('docs/operations.md', 'utf8');
    expect(page).toContain(`\nACL SETUSER locks on >password ${RULES}\n`);
  });

  it('the list of rights has every command that the scripts call, and no other', () => {
    const files = ['scripts', 'batch', 'joining'].map((name) =>
      readFileSync(`lib/redis/${name}.ts`, 'utf8'),
    );
    const scripts = files.join('').split('export const');
    const called = scripts
      .filter((text) => !text.includes('-- PROBE'))
      .flatMap((text) => [...text.matchAll(/(?:\bp?call|redis\.p?call)\('([A-Z]+)'/g)])
      .map(([, command]) => command!.toLowerCase());
    const sentByUs = ['ping', 'script|load', 'evalsha', 'eval'];
    expect([...new Set([...called, ...sentByUs, 'subscribe'])].sort()).toEqual(
      [...REQUIRED_COMMANDS].sort(),
    );
  });
});

describe('two applications whose user has these rights only', () => {
  let admins: Redis[];
  const acl = ['user default on nopass ~* &* +@all', `user locks on >password ${RULES}`];
  const servers = useRedisServers(3, { acl, appendonly: true }, (started) => {
    admins = started.map(({ url }) => new Redis(url));
    return () => admins.forEach((admin) => admin.disconnect());
  });
  const startModule = useLockModules();

  function start(lines: unknown[], events: LockEvent[]): Promise<LockModule> {
    const write = (line: unknown) => void lines.push(line);
    const nodes = servers.map(({ url }) => clientOf(url.replace('//', '//locks:password@')));
    const onEvent = (event: LockEvent) => events.push(event);
    return startModule(
      { nodes, strict: true, restartGuard: false, ...LASTING, onEvent },
      { log() {}, warn: write, error: write },
    );
  }

  it('two applications with these rights only start without a warning of rights and use every feature, and the servers refuse nothing', async () => {
    const lines: unknown[] = [];
    const events: LockEvent[] = [];
    const modules = [await start(lines, events), await start(lines, events)] as const;
    const [{ locks: first }, { locks: second }] = modules;
    const held = await first.acquire(['a', 'b']);
    const waiting = second.acquire('b');
    await held.extend();
    await expect(first.inspect('a')).resolves.toMatchObject({ holder: held.token.holder });
    for (const admin of admins) {
      const channels = () => admin.pubsub('CHANNELS', 'lock:#turns:*');
      await eventually(async () => expect(await channels()).toHaveLength(1));
    }
    await held.release();
    const next = await waiting;
    expect(next.token.value).toBeGreaterThan(held.token.value);
    await next.release();
    for (const module of modules) await module.close();
    const types = new Set(events.map(({ type }) => type));
    expect([...types].filter((type) => /failed|lost|incomplete|unavailable/.test(type))).toEqual(
      [],
    );
    // Lines about a server that was slow to answer are not about rights.
    expect(lines.filter((line) => /NOPERM|grant/.test(String(line)))).toEqual([]);
    for (const admin of admins) expect(await admin.call('acl', ['log'])).toEqual([]);
  });

  it('a user with these rights can do nothing else: neither other keys, nor other channels, nor other commands', async () => {
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
