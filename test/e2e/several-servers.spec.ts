import 'reflect-metadata';
import assert from 'node:assert/strict';
import dns from 'node:dns';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import type { LockEvent } from '../../lib/core/events.ts';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { createRedisNode } from '../support/clients.ts';
import { useLockModules } from '../security/use-lock-modules.ts';
import { Balancer } from '../support/balancer.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { useClosing, useRedlocks } from '../support/use-redlocks.ts';

// A node is one server. An address that leads to several has each process lock on another one.

type Answer = (error: null, ...found: unknown[]) => void;

const closing = useClosing();
const openRedlock = useRedlocks();
const startModule = useLockModules();
const servers = useRedisServers(3, { own: true, args: ['--repl-diskless-sync-delay', '0'] });

async function ask({ url }: RedisServer, command: string, ...parameters: string[]) {
  const client = new Redis(url);
  return client
    .call(command, parameters)
    .then(String)
    .finally(() => client.disconnect());
}

afterEach(() => Promise.all(servers.map((server) => ask(server, 'FLUSHALL'))));

/** The address of a node that leads to the first server, and what its process says of it. */
async function openMovable() {
  let target = servers[0]!;
  const address = closing(await Balancer.open(() => target));
  const events: LockEvent[] = [];
  const redlock = await openRedlock([createRedisNode(address.url)], {
    ttl: '30s',
    wait: 0,
    onEvent: (event) => void events.push(event),
  });
  const joins = () => events.filter(({ type }) => type === 'node-joined');
  const moveTo = async (server: RedisServer) => {
    target = server;
    const before = joins().length;
    address.cut();
    await eventually(() => expect(joins()).toHaveLength(before + 1));
    return joins().at(-1);
  };
  return { redlock, moveTo };
}

describe('a start', () => {
  const resolved = new Map<string, () => string[]>();
  const { lookup } = dns;

  beforeAll(() => {
    const replaced = (host: string, options: dns.LookupAllOptions, callback: Answer) => {
      const addresses = resolved
        .get(host)?.()
        .map((address) => ({ address, family: 4 }));
      if (addresses === undefined) lookup(host, options, callback as never);
      else if (options.all) process.nextTick(callback, null, addresses);
      else process.nextTick(callback, null, addresses[0]!.address, 4);
    };
    dns.lookup = replaced as typeof lookup;
  });
  afterAll(() => {
    dns.lookup = lookup;
  });

  const start = (nodes: RedisNodeInput[]) => startModule({ nodes, restartGuard: false });

  /** Names that lead to the servers: each name to those addresses of which the port is theirs. */
  async function name(host: string, targets: readonly RedisServer[]): Promise<string> {
    let port = 0;
    const addresses: string[] = [];
    for (const [index, target] of targets.entries()) {
      addresses.push(`127.0.0.${index + 2}`);
      ({ port } = closing(await Balancer.open(() => target, addresses.at(-1), port)));
    }
    resolved.set(host, () => addresses);
    return `redis://${host}:${port}`;
  }

  const refused = (at: RegExp) => ({
    code: 'REDLOCK_CONFIG',
    option: 'nodes',
    message: expect.stringMatching(at),
  });

  it('is refused where the name of a node has the addresses of several servers', async () => {
    const url = await name('locks', servers);
    const client = new Redis(url, { lazyConnect: true });
    const all =
      /locks:\d+: leads to 3 servers \(at 127.0.0.2, 127.0.0.3, 127.0.0.4\), .*StatefulSet/;
    for (const node of [url, { host: 'locks', port: Number(new URL(url).port) }, client])
      await expect(start([node])).rejects.toMatchObject(refused(all));
  });

  it('is refused where a name has the address of another server each time', async () => {
    const url = await name('locks', servers);
    const addresses = resolved.get('locks')!();
    let turn = 0;
    resolved.set('locks', () => [addresses[(turn += 1) % 3]!]);
    await expect(start([url])).rejects.toMatchObject(refused(/leads to [23] servers/));
  });

  it('is refused where a balancer leads to several servers, also for some of the nodes', async () => {
    const balancers = [0, 1].map((turn) => Balancer.open(() => servers[1 + (turn++ % 2)]!));
    const [one, other] = (await Promise.all(balancers)).map(closing) as [Balancer, Balancer];
    const boot = start([servers[0]!.url, one.url, other.url]);
    await expect(boot).rejects.toMatchObject(refused(new RegExp(`:${one.port}: leads to 2 serv`)));
    await expect(boot).rejects.toMatchObject(refused(new RegExp(`:${other.port}: leads to 2 ser`)));
  });

  it('that ends while a name is looked up connects no more', async () => {
    const node = createRedisNode(await name('locks', servers.slice(0, 1)));
    const driver = await NodeDriver.open(closing(node));
    const answers: Answer[] = [];
    const { lookup: known } = dns;
    dns.lookup = ((_host: string, _options: object, answer: Answer) =>
      answers.push(answer)) as unknown as typeof lookup;
    try {
      const examined = driver.examine();
      await eventually(() => expect(answers).toHaveLength(1));
      await node.close();
      answers[0]!(null, [{ address: '127.0.0.2', family: 4 }]);
      expect(await examined).toMatchObject({ kind: 'failed', reason: 'unreachable' });
      expect(answers).toHaveLength(1);
    } finally {
      dns.lookup = known;
    }
  });

  it('takes several names and addresses of one server', async () => {
    const [first] = servers as [RedisServer, RedisServer, RedisServer];
    const url = await name('locks', [first, first]);
    for (const node of [url, `redis://localhost:${first.port}`])
      await expect(start([node])).resolves.toHaveProperty('locks');
  });

  it('takes a name that also leads to replicas, which give no locks', async () => {
    const [primary, replica] = servers as [RedisServer, RedisServer, RedisServer];
    await ask(replica, 'REPLICAOF', primary.host, String(primary.port));
    await eventually(async () =>
      expect(await ask(replica, 'INFO')).toContain('master_link_status:up'),
    );
    try {
      const url = await name('primary-first', [primary, replica]);
      await expect(start([url])).resolves.toHaveProperty('locks');
    } finally {
      await ask(replica, 'REPLICAOF', 'NO', 'ONE');
    }
  });

  it('takes a server that restarts while it looks', async () => {
    const [first] = servers as [RedisServer, RedisServer, RedisServer];
    let connections = 0;
    const address = closing(
      await Balancer.open(async () => {
        // The last of all comes to the server that was restarted, when the others have been answered.
        if ((connections += 1) === 6) {
          await eventually(async () => {
            assert.equal((await ask(first, 'CLIENT', 'LIST')).match(/cmd=info/g)?.length, 4);
          });
          await first.restart();
        }
        return first;
      }),
    );
    await expect(start([address.url])).resolves.toHaveProperty('locks');
  });
});

describe('a lock whose node leads to another living server', () => {
  it('is lost at once, which the node says; those that this server grants are extended', async () => {
    const [, second] = servers as [RedisServer, RedisServer];
    // It has given locks since before.
    await openRedlock([createRedisNode(second.url)]);
    const { redlock, moveTo } = await openMovable();
    const held = await redlock.acquire('held');
    expect(await moveTo(second)).toMatchObject({ upMs: expect.any(Number) });
    await eventually(() => expect(held.isHeld).toBe(false));
    await expect(held.extend()).rejects.toMatchObject({
      code: 'LOCK_LOST',
      causes: [{ message: expect.stringContaining('did not grant it') }],
    });
    expect((await redlock.inspect('held')).holder).toBeNull();
    const later = await redlock.acquire('later');
    await expect(later.extend()).resolves.toBeUndefined();
  });

  it('is lost at once also where it is not extended', async () => {
    const [, second] = servers as [RedisServer, RedisServer];
    await openRedlock([createRedisNode(second.url)]);
    const { redlock, moveTo } = await openMovable();
    const held = await redlock.acquire('unextended', { extend: false });
    await moveTo(second);
    await eventually(() => expect(held.isHeld).toBe(false));
    expect(held.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
  });

  it('is lost as well where nobody has used that server, which has been up for longer', async () => {
    const [, , third] = servers as [RedisServer, RedisServer, RedisServer];
    await eventually(async () => {
      expect(await ask(third, 'INFO')).not.toMatch(/^uptime_in_seconds:[0-2]\b/m);
    });
    const { redlock, moveTo } = await openMovable();
    const held = await redlock.acquire('held');
    await moveTo(third);
    await eventually(() => expect(held.isHeld).toBe(false));
  });

  it('is extended on a replica that was promoted, however long it has been up', async () => {
    const [primary, replica] = servers as [RedisServer, RedisServer, RedisServer];
    await ask(replica, 'REPLICAOF', primary.host, String(primary.port));
    await eventually(async () =>
      expect(await ask(replica, 'INFO')).toContain('master_link_status:up'),
    );
    const { redlock, moveTo } = await openMovable();
    // The replica does not get it any more.
    await ask(replica, 'REPLICAOF', 'NO', 'ONE');
    const held = await redlock.acquire('held');
    expect(await moveTo(replica)).not.toHaveProperty('upMs');
    await expect(held.extend()).resolves.toBeUndefined();
  });

  it('is extended on the server that was restarted, as before', async () => {
    const [, , third] = servers as [RedisServer, RedisServer, RedisServer];
    const { redlock, moveTo } = await openMovable();
    await moveTo(third);
    const held = await redlock.acquire('held');
    await third.restart();
    expect(await moveTo(third)).not.toHaveProperty('upMs');
    await expect(held.extend()).resolves.toBeUndefined();
  });
});

it('a node that leads to the server of another one gives no locks, until it leads to its own again', async () => {
  const [first, second, third] = servers as [RedisServer, RedisServer, RedisServer];
  let target = second;
  const address = closing(await Balancer.open(() => target));
  const nodes = [first.url, address.url, third.url].map((url) => createRedisNode(url));
  const redlock = await openRedlock(nodes, { wait: 0 });
  const stateOfTheSecond = () => redlock.status().nodes[1]!;
  await eventually(() => expect(stateOfTheSecond().state).toBe('voting'));
  target = first;
  address.cut();
  const reason = `leads to the same server as 127.0.0.1:${first.port} now`;
  await eventually(() => expect(stateOfTheSecond()).toMatchObject({ state: 'joining', reason }));
  await (await redlock.acquire('of two')).release();
  target = second;
  address.cut();
  await eventually(() => expect(stateOfTheSecond().state).toBe('voting'));
});
