import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { createRedisNode } from '../support/clients.ts';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { checkNodes, formatStartupReport } from '../../lib/redis/preflight.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { bulk, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

let servers: [RedisServer, RedisServer, RedisServer];
let evicting: RedisServer;
let clustered: RedisServer;

beforeAll(async () => {
  const [plain, [evictingServer], [clusterServer]] = await Promise.all([
    // A master waits so long before it serves a replica, in case another one comes.
    startRedisServers(3, { args: ['--repl-diskless-sync-delay', '0'] }),
    startRedisServers(1, { args: ['--maxmemory-policy', 'allkeys-lru'] }),
    startRedisServers(1, { args: ['--cluster-enabled', 'yes'] }),
  ]);
  servers = plain as typeof servers;
  evicting = evictingServer!;
  clustered = clusterServer!;
});
afterAll(() => Promise.all([...servers, evicting, clustered].map((server) => server.stop())));

/** The findings on these nodes, as the module gets them. */
async function findings(inputs: RedisNodeInput[], options: { restartGuard?: boolean } = {}) {
  const nodes = inputs.map((input) => createRedisNode(input));
  try {
    const examined = await Promise.all(
      nodes.map(async (node) => ({
        address: node.address,
        reply: await (await NodeDriver.open(node)).examine(),
        ignoredKeyPrefix: node.ignoredKeyPrefix,
      })),
    );
    return checkNodes(examined, { quorum: 2, restartGuard: true, keyPrefix: 'lock:', ...options });
  } finally {
    await Promise.all(nodes.map((node) => node.close()));
  }
}

/** What is found out about a server that answers in this way. */
async function factsOf(answer: (command: readonly string[]) => string | undefined) {
  const scripted = await ScriptedRedis.start((command) =>
    // An empty list where it does not say: nothing failed.
    command[0] === 'ping' ? '+PONG\r\n' : (answer(command) ?? '*0\r\n'),
  );
  const node = createRedisNode(scripted.url);
  try {
    return await (await NodeDriver.open(node)).examine();
  } finally {
    await node.close();
    await scripted.stop();
  }
}

describe('start-up checks on real servers', () => {
  it('find the same server under two names and databases', async () => {
    const [first, second] = servers;
    const again = `redis://localhost:${first.port}/3`;
    expect(await findings([first.url, second.url, again])).toEqual([
      {
        severity: 'error',
        address: `localhost:${first.port}`,
        message: expect.stringContaining(`same server as ${first.host}:${first.port}`),
      },
    ]);
  });

  it('find a replica, once and not as missing rights', async () => {
    const [first, second, third] = servers;
    const admin = new Redis(third.url);
    try {
      await admin.replicaof(second.host, second.port);
      await eventually(async () =>
        expect(await admin.info('replication')).toContain('master_link_status:up'),
      );
      expect(await findings([first.url, second.url, third.url])).toEqual([
        {
          severity: 'error',
          address: `${third.host}:${third.port}`,
          message: expect.stringContaining('is a replica'),
        },
      ]);
      const node = createRedisNode(second.url);
      const facts = await (await NodeDriver.open(node)).examine();
      expect(facts).toMatchObject({ connectedReplicas: 1, role: 'master' });
      await node.close();
      const failover = 'a failover hands a held lock to a second holder';
      const has = expect.objectContaining({ message: expect.stringContaining(failover) });
      expect(await findings([second.url], { restartGuard: false })).toContainEqual(has);
      expect(await findings([first.url], { restartGuard: false })).not.toContainEqual(has);
    } finally {
      await admin.replicaof('NO', 'ONE');
      admin.disconnect();
    }
  });

  it('find a server that takes no writes now: its memory is full, or its replicas are away', async () => {
    const { url } = servers[0];
    const admin = new Redis(url);
    try {
      for (const [setting, full, empty] of [
        ['maxmemory', '1', '0'],
        ['min-replicas-to-write', '1', '0'],
      ] as const) {
        await admin.config('SET', setting, full);
        const refused = await findings([url]);
        await admin.config('SET', setting, empty);
        const has = expect.objectContaining({
          severity: 'warning',
          message: expect.stringMatching(
            /^rejects all writes now, and so counts as down: (OOM|NOREPLICAS) /,
          ),
        });
        expect(refused).toContainEqual(has);
        expect(await findings([url])).not.toContainEqual(has);
      }
    } finally {
      admin.disconnect();
    }
  });

  it.each(['BUSY', 'LOADING', 'MASTERDOWN', 'MISCONF', 'NOREPLICAS', 'OOM', 'READONLY'])(
    'take no right for missing where a server refuses everybody for the moment: %s',
    async (word) => {
      const refusal = `${word} not now`;
      const facts = await factsOf((command) => {
        if (command[0] === 'eval') return `-${refusal}\r\n`;
        return command[0] === 'evalsha'
          ? `*1\r\n${bulk(`PSETEX: ${refusal}`)}`
          : shakeHands(command);
      });
      expect(facts).toMatchObject({ kind: 'facts', missingRights: [] });
    },
  );

  it.each(['CROSSSLOT', 'MOVED', 'CLUSTERDOWN'])(
    'find a cluster that INFO hides by what it says of a script: %s',
    async (word) => {
      const facts = await factsOf((command) =>
        command[0] === 'evalsha' ? `-${word} 1 h:1\r\n` : shakeHands(command),
      );
      expect(facts).toMatchObject({ kind: 'facts', clusterEnabled: true, missingRights: [] });
    },
  );

  it('read how many replicas must answer, and in which time, where the user may', async () => {
    const { url, host, port } = servers[0];
    const admin = new Redis(url);
    const factsAs = async (input: RedisNodeInput) => {
      const node = createRedisNode(input);
      const facts = await (await NodeDriver.open(node)).examine();
      await node.close();
      return facts;
    };
    try {
      expect(await factsAs(url)).toMatchObject({ needsReplicas: false, maxLagMs: undefined });
      await admin.config('SET', 'min-replicas-to-write', 1);
      const known = { needsReplicas: true, minReplicas: 1, maxLagMs: 10_000 };
      expect(await factsAs(url)).toMatchObject(known);
      await admin.acl('SETUSER', 'app', 'on', '>p', '~*', '&*', '+@all', '-config');
      const asUser = await factsAs({ host, port, username: 'app', password: 'p' });
      expect(asUser).toMatchObject({ needsReplicas: true, maxLagMs: undefined, missingRights: [] });
    } finally {
      await admin.config('SET', 'min-replicas-to-write', 0);
      await admin.acl('DELUSER', 'app');
      admin.disconnect();
    }
  });

  it('find a Sentinel, once and not as missing rights or data that it could forget', async () => {
    const [sentinel] = await startRedisServers(1, { sentinel: true });
    try {
      const message = expect.stringContaining('is a Sentinel, which keeps no keys: give the Redis');
      const found = [{ severity: 'error', address: expect.any(String), message }];
      expect(await findings([sentinel!.url])).toEqual(found);
      expect(await findings([sentinel!.url], { restartGuard: false })).toEqual(found);
    } finally {
      await sentinel!.stop();
    }
  });

  it('find cluster mode and an evicting policy', async () => {
    const result = await findings([servers[0].url, clustered.url, evicting.url]);
    expect(result).toContainEqual(
      expect.objectContaining({
        severity: 'error',
        message: expect.stringContaining('cluster mode'),
      }),
    );
    expect(result).toContainEqual(
      expect.objectContaining({
        severity: 'warning',
        message: expect.stringContaining('allkeys-lru'),
      }),
    );
    expect(formatStartupReport(result)).toContain('maxmemory-policy noeviction');
  });
});
