import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

const HAND_OVERS = 120;
const MOST_GRANTS = 4_000;
let servers: RedisServer[];
const services: Redlock[] = [];

beforeAll(async () => {
  servers = await startRedisServers(3);
  for (let count = 0; count < 3; count += 1)
    services.push(await serviceOf(servers.map(({ url }) => url)));
});
async function serviceOf(urls: readonly string[]): Promise<Redlock> {
  const nodes = urls.map((url) => new RedisLockNode(url));
  const service = new Redlock(nodes, { restartGuard: false, wait: '60s' });
  service.open();
  if (!(await service.ready(10_000))) throw new Error('No quorum of servers joined.');
  return service;
}

afterAll(async () => {
  await Promise.all(services.map((service) => service.close()));
  await Promise.all(servers.map((server) => server.stop()));
});

describe('a process with many waiters', () => {
  // Counted in rows of grants: hand-over inside a process is so quick that others hardly ever won a race.
  it('does not starve other processes that wait for the same key', async () => {
    const rows = services.map(() => 0);
    let [latest, grants, handOvers] = [0, 0, 0];
    const caller = async (index: number) => {
      while (handOvers < HAND_OVERS && grants < MOST_GRANTS) {
        await services[index]!.withLock('hot', async () => {
          grants += 1;
          if (index !== latest) {
            handOvers += 1;
            rows[index]! += 1;
          }
          latest = index;
          await new Promise((resolve) => setTimeout(resolve, 2));
        });
      }
    };
    await Promise.all([...Array.from({ length: 24 }, () => caller(0)), caller(1), caller(2)]);
    expect(Math.min(...rows) / handOvers).toBeGreaterThan(0.3);
  });
});
