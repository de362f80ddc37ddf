import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import { startRedisCluster } from '../fencing/support/redis-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { redisNodes, useClosing, useRedlocks } from '../support/use-redlocks.ts';

const LOADER = './test/support/typescript-loader.mjs';
const AWAY = 'redis://127.0.0.1:1';

/** Starts the command with these servers. */
function start(servers: readonly { readonly url: string }[], args: readonly string[]) {
  const program = ['--disable-warning=ExperimentalWarning', '--import', LOADER, 'lib/cli/main.ts'];
  const REDLOCK_NODES = servers.map(({ url }) => url).join();
  const env = { ...process.env, NODE_OPTIONS: '', REDLOCK_NODES };
  return spawn(process.execPath, [...program, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function run(servers: readonly { readonly url: string }[], ...args: string[]) {
  const child = start(servers, args);
  const ended = once(child, 'close');
  const [output, problem] = await Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = (await ended) as [number];
  return { code, output, problem, all: output + problem };
}

const QUESTIONS = [['ls'], ['inspect', 'a'], ['waiters', 'a'], ['revoke', 'a', '--reason', 'x']];

describe('the command line, given servers that do not have the locks', () => {
  const servers = useRedisServers(2, { args: ['--repl-diskless-sync-delay', '0'] });
  const sentinels = useRedisServers(1, { sentinel: true });
  const open = useRedlocks();

  it('believes no replica, and names its primary', async () => {
    const [primary, replica] = servers as [RedisServer, RedisServer];
    const admin = new Redis(replica.url);
    try {
      const holder = await open(redisNodes([primary]), { ttl: '1h' });
      await holder.acquire('a');
      await admin.replicaof(primary.host, primary.port);
      await eventually(async () => expect(await admin.exists('lock:a')).toBe(1));
      // Cut off from its primary, it never hears of the release.
      await admin.replicaof('127.0.0.1', 1);
      await holder.close();
      for (const question of [...QUESTIONS, ['doctor']]) {
        const { code, all } = await run([replica], ...question);
        expect([question, code]).toEqual([question, 3]);
        expect(all).toContain(
          'it is a replica, whose locks may be old: give its primary (127.0.0.1:1)',
        );
        expect(all).not.toContain('held for');
      }
      expect((await run([primary], 'inspect', 'a')).code).toBe(0);
    } finally {
      await admin.replicaof('NO', 'ONE');
      admin.disconnect();
    }
  });

  it('takes no Sentinel for a server of locks, and names the primary of the moment', async () => {
    const [sentinel] = sentinels as [RedisServer];
    const { host, port } = servers[0]!;
    const admin = new Redis(sentinel.url);
    await admin.call('SENTINEL', 'MONITOR', 'mymaster', host, port, '1');
    admin.disconnect();
    for (const question of [...QUESTIONS, ['doctor']]) {
      const { code, all } = await run([sentinel], ...question);
      expect([question, code]).toEqual([question, 3]);
      expect(all).toContain(
        `it is a Sentinel, which has no locks: give the primary (${host}:${port})`,
      );
      expect(all).not.toContain('appendonly');
    }
  });
});

describe('the command line in a cluster', () => {
  const closing = useClosing();
  const tag = ['--key-prefix', '{lock}:'];
  let owner: RedisServer;
  let other: RedisServer;
  let admin: Redis;
  beforeAll(async () => {
    const members = (await startRedisCluster(2)) as [RedisServer, RedisServer];
    // Slot 8718, that of {lock}, is in the second half.
    [other, owner] = members;
    admin = new Redis(owner.url);
    await admin.set('{lock}:a', 'holder', 'PX', 3_600_000);
  }, 120_000);
  afterAll(async () => {
    admin.disconnect();
    await Promise.all([owner, other].map((server) => server.stop()));
  });

  it('answers from the server that has the locks, and finds no fault in its being a member', async () => {
    expect((await run([owner], 'ls', ...tag)).output).toMatch(/^a /m);
    expect((await run([owner], 'inspect', 'a', ...tag)).code).toBe(1);
    expect((await run([owner], 'doctor', ...tag)).all).not.toContain('cluster');
  });

  it('names that server when it is given another one, or a prefix without the hash tag', async () => {
    const moved = `MOVED 8718 ${owner.host}:${owner.port}: give that server, which has the locks`;
    for (const question of [...QUESTIONS, ['doctor']]) {
      const elsewhere = await run([other], ...question, ...tag);
      expect([question, elsewhere.code]).toEqual([question, 3]);
      expect(elsewhere.all).toContain(moved);
      expect(elsewhere.all).not.toContain('nobody gets one');
    }
    const untagged = await run([owner], 'ls');
    expect([untagged.code, untagged.output]).toEqual([3, '']);
    expect(untagged.problem).toContain('give --key-prefix with the hash tag');
  });

  it('lists nothing at a server of other slots, where an empty list would say that nothing is held', async () => {
    const node = closing(createRedisNode(other.url, { keyPrefix: '{lock}:' }));
    await NodeDriver.open(node);
    const request = { keyPrefix: '{lock}:', keysBegin: '', most: 10 };
    const reply = await new Promise((settle) => node.list(request, settle));
    expect(reply).toMatchObject({ kind: 'failed', message: expect.stringMatching(/^MOVED/) });
  });
});

describe('the command line over several servers', () => {
  const servers = useRedisServers(3);
  const open = useRedlocks();

  it('says why there is no answer where too few of the servers give one', async () => {
    const nodes = [servers[0]!, { url: AWAY }, { url: AWAY.replace(':1', ':2') }];
    for (const question of QUESTIONS) {
      const { code, all } = await run(nodes, ...question);
      expect([question, code]).toEqual([question, 3]);
      expect(all).toContain('ECONNREFUSED');
      expect(all).not.toContain('at the start');
    }
    const { output, problem } = await run(nodes, 'waiters', 'a', '--json');
    expect(output).toBe('');
    expect(problem).toContain('2 of 3 servers must answer');
  });

  it('promises others no lock that its holder may keep', async () => {
    const holder = await open(redisNodes(servers), { ttl: '1h' });
    const held = await holder.acquire('minority');
    const revoke = ['revoke', 'minority', '--reason', 'x'];
    const { code, output } = await run([servers[0]!], ...revoke);
    expect(code).toBe(1);
    expect(output).toContain('revoked on these servers only, so its holder may keep it');
    expect(output).not.toContain('others get it');
    await held.extend();
    const found = JSON.parse((await run([servers[0]!], ...revoke, '--json')).output);
    expect(found).toMatchObject({ key: 'minority', findings: [{ severity: 'error' }] });
    expect(found).not.toHaveProperty('endsInMs');
  });

  it('ends as it would where its reader has seen enough', async () => {
    const child = start(servers, ['ls']);
    const ended = once(child, 'close');
    child.stdout.destroy();
    const [problem, [code]] = await Promise.all([text(child.stderr), ended]);
    expect([problem, code]).toEqual(['', 0]);
  });

  it('refuses an argument that the command does not take', async () => {
    expect((await run(servers, 'doctor', 'extra')).code).toBe(2);
    expect((await run(servers, 'inspect', 'a', 'b')).code).toBe(2);
  });
});
