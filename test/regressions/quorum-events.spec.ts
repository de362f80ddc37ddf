import { describe, expect, it } from '@jest/globals';
import { useRedisCluster, type RedisProcess } from '../e2e/core/support/redis-cluster.ts';
import { eventually } from '../support/eventually.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();

/** The events about the quorum, in order. */
const storyOf = ({ events }: Pick<RedisProcess, 'events'>) =>
  events.filter(({ type }) => type.startsWith('quorum-'));
const refused = expect.objectContaining({ code: 'QUORUM_UNAVAILABLE' });
const ofAddress = (address: string) => expect.objectContaining({ address, reason: 'unreachable' });

describe.each([
  [3, 2],
  [1, 1],
])('the outage of a quorum, with %i servers', (size, needed) => {
  const cluster = useRedisCluster(size);
  const addressOf = ({ url }: { readonly url: string }) => new URL(url).host;

  it('is said once when it begins, and once when it ends, with the calls that failed meanwhile', async () => {
    // Connections are not given up because a server is slow.
    const process = await cluster.process({ ttl: '1h', nodeTimeout: 200 });
    const { redlock, events } = process;
    await eventually(() => expect(eventsOf(events, 'node-joined')).toHaveLength(size));
    const dying = cluster.servers.slice(0, needed);
    for (const [index, server] of dying.entries()) {
      await server.kill();
      await eventually(() => expect(eventsOf(events, 'node-left')).toHaveLength(index + 1));
    }
    for (let call = 0; call < 3; call += 1)
      await expect(redlock.acquire('a', { wait: 0 })).rejects.toEqual(refused);
    const lost = {
      type: 'quorum-lost',
      causes: dying.map((server) => ofAddress(addressOf(server))),
    };
    expect(storyOf(process)).toEqual([lost]);
    for (const server of dying) await server.restart();
    const back = { type: 'quorum-back', downMs: expect.any(Number), refusedCalls: 3 };
    await eventually(() => expect(storyOf(process)).toEqual([lost, back]));
    await redlock.withLock('a', () => undefined);
    expect(storyOf(process)).toHaveLength(2);
    const left = eventsOf(events, 'node-left');
    expect(left.map(({ address }) => address)).toEqual(dying.map(addressOf));
    expect(left.map(({ hasQuorum }) => hasQuorum)).toEqual(size === 1 ? [false] : [true, false]);
  });

  it('is none while enough servers vote, or a connection is made again at once, or the service closes', async () => {
    const process = await cluster.process();
    await Promise.all(cluster.servers.slice(needed).map((server) => server.kill()));
    const joined = eventsOf(process.events, 'node-joined').length;
    await cluster.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(() =>
      expect(eventsOf(process.events, 'node-joined')).toHaveLength(joined + needed),
    );
    for (let call = 0; call < 5; call += 1) await process.redlock.withLock('a', () => undefined);
    await process.redlock.close();
    for (const server of cluster.servers) if (server.isRunning) await server.kill();
    expect(storyOf(process)).toEqual([]);
  });
});

describe('the outage of a quorum that is connected', () => {
  const single = useRedisCluster(1);

  it.each([
    [3, 2],
    [1, 1],
  ])(
    'is said of servers that restarted together, until their restart guard ends: of %i',
    async (size, needed) => {
      const cluster = await newCluster(size);
      const process = await cluster.process({ restartGuard: true, ttl: 1_000 });
      await cluster.advance(1_000);
      expect(process.redlock.votesInMs).toBe(0);
      expect(storyOf(process)).toEqual([]);
      for (const server of cluster.servers.slice(0, needed)) server.restart({ keepData: true });
      await cluster.advance(900);
      const causes = expect.arrayContaining([expect.objectContaining({ reason: 'quarantined' })]);
      const lost = { type: 'quorum-lost', causes };
      expect(storyOf(process)).toMatchObject([lost]);
      await cluster.advance(200);
      expect(storyOf(process)).toMatchObject([lost, { type: 'quorum-back', refusedCalls: 0 }]);
      await cluster.settle(process.redlock.withLock('a', () => undefined, { wait: 0 }));
    },
  );

  it.each([
    ['has no memory', 'CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0'],
    ['lacks a replica', 'CONFIG SET min-replicas-to-write 1', 'CONFIG SET min-replicas-to-write 0'],
    [
      'took a right from this user',
      'ACL SETUSER default -set -psetex',
      'ACL SETUSER default +set +psetex',
    ],
  ])(
    'is one, however often a server that %s is joined and refuses, and ends without a call',
    async (_, begins, ends) => {
      const process = await single.process();
      const { redlock } = process;
      const say = (line: string) => single.command(...(line.split(' ') as [string, ...string[]]));
      await say(begins);
      for (let call = 1; call <= 3; call += 1) {
        await expect(redlock.acquire('a', { wait: 0 })).rejects.toEqual(refused);
        const [joins = 0] = await single.calls('eval');
        await single.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        await eventually(async () =>
          expect((await single.calls('eval'))[0]).toBeGreaterThanOrEqual(joins + 1),
        );
        await eventually(() => expect(redlock.status().nodes[0]!.state).toMatch(/refusing|voting/));
        // Whatever it is called now: it was joined.
        expect(storyOf(process)).toMatchObject([{ type: 'quorum-lost' }]);
      }
      expect(await redlock.ready(0)).toBe(false);
      await say(ends);
      expect(await redlock.ready(60_000)).toBe(true);
      expect(storyOf(process).slice(1)).toMatchObject([{ type: 'quorum-back', refusedCalls: 3 }]);
      await redlock.withLock('a', () => undefined, { wait: 0 });
      expect(storyOf(process)).toHaveLength(2);
    },
  );

  const OOM = { error: "OOM command not allowed when used memory > 'maxmemory'." };

  it('is said when too many nodes refuse, with what they said, and is over when they vote', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    for (const node of process.nodes.slice(1))
      node.failNext(OOM, { command: 'acquire', times: Number.POSITIVE_INFINITY });
    await cluster.failure(process.redlock.acquire('a', { wait: '5s' }));
    const causes = [1, 2].map((index) => ({
      address: `node${index}:6379`,
      reason: 'error',
      message: OOM.error,
      elapsedMs: 0,
    }));
    expect(storyOf(process)).toEqual([{ type: 'quorum-lost', causes }]);
    for (const node of process.nodes) node.clearFaults();
    await cluster.settle(process.redlock.acquire('a'));
    const back = { type: 'quorum-back', downMs: expect.any(Number), refusedCalls: 1 };
    expect(storyOf(process).slice(1)).toEqual([back]);
  });
});
