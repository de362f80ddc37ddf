import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { ForgetfulPath, outcomeOf } from './support.ts';

const now = () => performance.now();
/** Longer than a heartbeat and the doubt after it take at most: 12.5 s and 2 s. */
const NOTICED_MS = 18_000;

describe('a process whose connections were forgotten by the network', () => {
  let servers: RedisServer[] = [];
  const paths: ForgetfulPath[][] = [];
  const services: Redlock[] = [];
  let direct: Redlock;

  /** A process with default options but for the restart guard, whose quarantine would only cost time. */
  async function open(urls: readonly string[]): Promise<Redlock> {
    const nodes = urls.map((url) => new RedisLockNode(url));
    const redlock = new Redlock(nodes, { restartGuard: false, wait: '12s' });
    services.push(redlock);
    redlock.open();
    await (await redlock.acquire('first')).release();
    return redlock;
  }

  /** A process behind paths of its own that has waited for a release, so that it has all its connections. */
  async function openBehindPaths() {
    const own = await Promise.all(servers.map((server) => ForgetfulPath.open(server)));
    paths.push(own);
    const redlock = await open(own.map(({ url }) => url));
    const lock = await direct.acquire('warm');
    const waiting = redlock.acquire('warm');
    await sleep(200);
    await lock.release();
    await (await waiting).release();
    return {
      redlock,
      forget: (which: 'all' | 'subscribers') => own.forEach((path) => path.forget(which)),
    };
  }

  beforeAll(async () => {
    servers = await startRedisServers(3);
    direct = await open(servers.map(({ url }) => url));
  });
  afterAll(async () => {
    await Promise.all(services.map((redlock) => redlock.close()));
    await Promise.all(paths.flat().map((path) => path.close()));
    await Promise.all(servers.map((server) => server.stop()));
  });

  it('has new ones before anybody asks, for commands and for the releases of others', async () => {
    const [rare, waiter] = [await openBehindPaths(), await openBehindPaths()];
    rare.forget('all');
    waiter.forget('subscribers');
    await sleep(NOTICED_MS);
    const handedOver = await direct.acquire('handed-over');
    const waiting = outcomeOf(waiter.redlock.acquire('handed-over'), now);
    const codes: string[] = [];
    for (const key of ['a', 'b', 'c'])
      codes.push((await outcomeOf(rare.redlock.acquire(key, { wait: 0 }), now)).code);
    await handedOver.release();
    const { code, tookMs } = await waiting;
    // Without the hint it tries again when the lease of ten seconds ends that it saw at its first try.
    expect({ codes, code, inTime: tookMs < 5_000 }).toEqual({
      codes: ['granted', 'granted', 'granted'],
      code: 'granted',
      inTime: true,
    });
  }, 60_000);

  it('says so when servers are frozen that no caller asks, and when they are back', async () => {
    const events: string[] = [];
    const nodes = servers.map(({ url }) => new RedisLockNode(url));
    const onEvent = ({ type }: { type: string }) => void events.push(type);
    const idle = new Redlock(nodes, { onEvent: Object.assign(onEvent, { skipsOrdinary: true }) });
    services.push(idle);
    idle.open();
    await eventually(() => expect(events).toHaveLength(3));
    const frozen = servers.slice(1);
    await Promise.all(frozen.map((server) => server.freeze()));
    await sleep(NOTICED_MS);
    const seen = [events.splice(0).sort(), await idle.ready(0)];
    await Promise.all(frozen.map((server) => server.resume()));
    const joined = ['node-joined', 'node-joined', 'node-joined'];
    expect(seen).toEqual([['node-failing', 'node-failing', ...joined, 'quorum-lost'], false]);
    await eventually(() => expect(events.sort()).toEqual([...joined.slice(1), 'quorum-back']));
    expect(await idle.ready(5_000)).toBe(true);
  }, 60_000);

  it('gets a lock over new ones within seconds when a caller comes at once', async () => {
    const { redlock, forget } = await openBehindPaths();
    forget('all');
    const { code, tookMs } = await outcomeOf(redlock.acquire('urgent'), now);
    expect([code, tookMs < 7_000]).toEqual(['granted', true]);
  });
});
