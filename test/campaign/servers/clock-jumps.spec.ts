import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { salted } from '../../../lib/redis/joining.ts';
import { ACQUIRE } from '../../../lib/redis/scripts.ts';
import { Redlock } from '../../../lib/core/redlock.ts';
import { RedisLockNode } from '../../../lib/redis/redis-lock-node.ts';
import { eventually } from '../../support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../support/redis-servers/index.ts';
import { DockerServer } from '../../support/redis-servers/docker-server.ts';
import { urlServers } from '../../support/redis-servers/urls-way.ts';
import { infoField } from './server-admin.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Slower than any machine answers, much less than any jump here. */
const SLOW_MS = 20_000;

let servers: RedisServer[];
let clients: Redis[];
/** Where the clock of the first server stands. */
let standsAtMs = 0;
beforeAll(async () => {
  // On Linux only: elsewhere every test here fails with that reason.
  const [moved, still] = await Promise.all([
    startRedisServers(1, { movableClock: true, appendonly: true }),
    startRedisServers(1, { own: true }),
  ]);
  servers = [...moved, ...still];
  clients = servers.map(({ url }) => new Redis(url, { retryStrategy: () => 20 }));
  for (const client of clients) client.on('error', () => undefined);
});
beforeEach(async () => {
  await Promise.all(clients.map((client) => client.flushall()));
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await Promise.all(servers.map((server) => server.stop()));
});

/** From where the clock stands: to put it back after each test would take a second more. */
async function jump(byMs: number): Promise<void> {
  standsAtMs += byMs;
  await servers[0]!.moveClock(standsAtMs);
}

/** What TIME says, as a distance from the real clock. */
async function offsetMs(client: Redis, isInScript = false): Promise<number> {
  const time = isInScript ? client.eval("return redis.call('TIME')", 0) : client.time();
  const [seconds, micros] = (await time) as [string, string];
  return Number(seconds) * 1000 + Number(micros) / 1000 - Date.now();
}

function apartMs(oneMs: number, otherMs: number): number {
  return Math.abs(oneMs - otherMs);
}

describe('a jump of the clock of one server', () => {
  it('forward ends what lives shorter than the jump, at once, and nowhere else', async () => {
    for (const client of clients) {
      await client.set('short', 'x', 'PX', HOUR_MS);
      await client.set('long', 'x', 'PX', 3 * HOUR_MS);
    }
    const [moved, still] = clients as [Redis, Redis];
    await jump(HOUR_MS);
    expect(await moved.exists('short')).toBe(0);
    expect(await still.exists('short')).toBe(1);
    expect(apartMs(await moved.pttl('long'), 2 * HOUR_MS)).toBeLessThan(SLOW_MS);
    expect(apartMs(await still.pttl('long'), 3 * HOUR_MS)).toBeLessThan(SLOW_MS);
  });

  it('back lets everything live longer, and nowhere else', async () => {
    for (const client of clients) await client.set('key', 'x', 'PX', HOUR_MS);
    await jump(-HOUR_MS);
    const [moved, still] = clients as [Redis, Redis];
    expect(apartMs(await moved.pttl('key'), 2 * HOUR_MS)).toBeLessThan(SLOW_MS);
    expect(apartMs(await still.pttl('key'), HOUR_MS)).toBeLessThan(SLOW_MS);
  });

  it('is seen by TIME, in scripts too, when it is resolved', async () => {
    const [moved, still] = clients as [Redis, Redis];
    for (const jumpMs of [MINUTE_MS, -2 * MINUTE_MS, 90 * 24 * HOUR_MS, -90 * 24 * HOUR_MS]) {
      await jump(jumpMs);
      // Read before the real clock is: the distance is never larger than the offset.
      for (const distance of [await offsetMs(moved), await offsetMs(moved, true)]) {
        expect(distance).toBeLessThanOrEqual(standsAtMs + 5);
        expect(distance).toBeGreaterThan(standsAtMs - SLOW_MS);
      }
    }
    expect(await offsetMs(still)).toBeLessThan(5);
  });

  it('back leaves the timers of the server running, without a spin', async () => {
    const [moved] = clients as [Redis];
    await jump(-HOUR_MS);
    const expired = await infoField(moved, 'expired_keys');
    await moved.set('expires', 'x', 'PX', 1);
    // By a timer, without being asked for.
    await eventually(async () => expect(await infoField(moved, 'expired_keys')).not.toBe(expired));
    const before = await cpuMs(moved);
    const startedAt = performance.now();
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const share = ((await cpuMs(moved)) - before) / (performance.now() - startedAt);
    expect(share).toBeLessThan(0.5);
  });

  it('costs no speed: scripts need about as much of the processor as on a plain server', async () => {
    const costs = await Promise.all(clients.map(scriptCostMs));
    expect(costs[0]! / costs[1]!).toBeLessThan(2);
  });
});

/** Processor time of a server for some thousand votes. */
async function scriptCostMs(client: Redis): Promise<number> {
  await client.set('marker', '1-1 1000 run 0 600000 -');
  const before = await cpuMs(client);
  for (let round = 0; round < 40; round += 1) {
    // By its own clock, wherever the tests before have left that: a ballot far behind it is refused.
    const ballot = Math.trunc((Date.now() + (await offsetMs(client))) * 1000);
    const pipeline = client.pipeline();
    for (let vote = 0; vote < 100; vote += 1) {
      const key = `${round}:${vote}`;
      // No gate fits so short a start: every vote looks at the clock.
      const values = [ballot + vote, 'holder', 60_000];
      pipeline.eval(salted(ACQUIRE, 'run', '-').text, 4, 'marker', 'gate', key, `f${key}`, ...values);
    }
    const replies = await pipeline.exec();
    expect(replies!.every(([error, reply]) => error === null && reply === 1)).toBe(true);
  }
  return (await cpuMs(client)) - before;
}

async function cpuMs(client: Redis): Promise<number> {
  const names = ['used_cpu_user', 'used_cpu_sys'];
  const seconds = await Promise.all(names.map((name) => infoField(client, name)));
  return seconds.reduce((sum, value) => sum + Number(value) * 1000, 0);
}

/** Files that a libfaketime in this process has made and not removed. */
function sharedMemoryOf(pid: number): string[] {
  const names = [`sem.faketime_sem_${pid}`, `faketime_shm_${pid}`];
  return names.map((name) => join('/dev/shm', name)).filter((file) => existsSync(file));
}

/** Starts a guarded process, and the files for it, whatever the version of libfaketime. */
const PROGRAM = `
  import { mkdtempSync, writeFileSync } from 'node:fs';
  import { GuardedProcess } from './test/support/redis-servers/guarded-process.ts';
  const directory = mkdtempSync('${join(tmpdir(), 'fenced-lock-clock-')}');
  const log = directory + '/log';
  const { pid } = await GuardedProcess.start(['sleep', '60'], directory, log, process.env);
  for (const name of ['sem.faketime_sem_', 'faketime_shm_']) writeFileSync('/dev/shm/' + name + pid, '');
  setInterval(() => undefined, 1_000);
  process.send(pid);
`;

describe('the offset of a clock', () => {
  it('outlives a restart, with the data and without', async () => {
    const [server] = servers as [RedisServer];
    const [client] = clients as [Redis];
    await client.set('kept', 'x');
    // Away from 0, wherever the other tests have left it.
    await jump(-7 * HOUR_MS);
    await server.restart({ keepData: true });
    await eventually(async () => expect(await client.exists('kept')).toBe(1));
    expect(apartMs(await offsetMs(client), standsAtMs)).toBeLessThan(SLOW_MS);
    await server.restart();
    await eventually(async () => expect(await client.exists('kept')).toBe(0));
    expect(apartMs(await offsetMs(client), standsAtMs)).toBeLessThan(SLOW_MS);
  });

  it('may be set while the server is killed or frozen', async () => {
    const [server] = servers as [RedisServer];
    const [client] = clients as [Redis];
    await server.kill();
    await jump(HOUR_MS);
    await server.restart();
    const wrongByMs = async () => apartMs(await offsetMs(client), standsAtMs);
    await eventually(async () => expect(await wrongByMs()).toBeLessThan(SLOW_MS));
    await server.freeze();
    await jump(HOUR_MS);
    await server.resume();
    await eventually(async () => expect(await wrongByMs()).toBeLessThan(SLOW_MS));
  });

  it('leaves nothing in the shared memory of the machine', async () => {
    const [server] = servers as [RedisServer];
    const { pid } = server;
    const wasAlive = existsSync(`/proc/${pid}`);
    await server.kill();
    await server.restart();
    expect(wasAlive).toBe(true);
    expect(sharedMemoryOf(pid!)).toEqual([]);
  });

  it('leaves nothing there either when its process is killed before the server is ready', async () => {
    const child = spawn(
      process.execPath,
      [
        '--import',
        './test/support/typescript-loader.mjs',
        '--input-type=module',
        '--eval',
        PROGRAM,
      ],
      { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] },
    );
    try {
      const [pid] = (await once(child, 'message')) as [number];
      expect(sharedMemoryOf(pid)).toHaveLength(2);
      child.kill('SIGKILL');
      await eventually(() => expect(sharedMemoryOf(pid)).toEqual([]));
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('is out of reach where a server was not started for it, and this is said', async () => {
    await expect(servers[1]!.moveClock(1)).rejects.toThrow('without movableClock');
    const [named] = urlServers(['redis://:secret@127.0.0.1:1'], 1, {});
    await expect(named!.moveClock(1)).rejects.toThrow(/cannot move the clock .* REDIS_NODES/);
    await expect(named!.moveClock(1)).rejects.not.toThrow('secret');
    expect(() => urlServers(['redis://127.0.0.1:1'], 1, { movableClock: true })).toThrow(
      'movableClock',
    );
    await expect(DockerServer.start('redis', { movableClock: true })).rejects.toThrow(
      'not in a container',
    );
  });
});

describe('a lock node whose server jumps', () => {
  it.each([HOUR_MS, -HOUR_MS])('by %i ms votes again', async (jumpMs) => {
    const redlock = new Redlock([new RedisLockNode(servers[0]!.url)], {
      ttl: '1s',
      restartGuard: true,
    });
    redlock.open();
    try {
      const first = await redlock.acquire('key', { wait: '20s' });
      await first.release();
      await jump(jumpMs);
      const second = await redlock.acquire('key', { wait: '20s' });
      expect(second.token.value).toBeGreaterThan(first.token.value);
    } finally {
      await redlock.close();
    }
  });
});
