import { expect, it } from '@jest/globals';
import { eventually } from '../../test/support/eventually.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';
import { redisNodes, useRedlocks } from '../../test/support/use-redlocks.ts';

const KILLS = 3;
const openRedlock = useRedlocks();
const servers = useRedisServers(1, {
  own: true,
  appendonly: true,
  args: ['--appendfsync', 'always'],
});

it('a lock on a single server that syncs always, without restart guard, stays with its holder when that is killed, and tokens go on growing', async () => {
  const [server] = servers;
  const settings = { ttl: 20_000, nodeTimeout: 1_500 };
  const holder = await openRedlock(redisNodes(servers), settings);
  const other = await openRedlock(redisNodes(servers), settings);
  const lock = await holder.acquire('key');
  const refusal = () => other.acquire('key', { wait: 0 }).catch(({ code }) => code as string);
  for (let kill = 0; kill < KILLS; kill += 1) {
    await server!.kill();
    expect(await refusal()).toBe('QUORUM_UNAVAILABLE');
    await server!.restart({ keepData: true });
    await eventually(async () => expect(await refusal()).toBe('LOCK_BUSY'));
  }
  await eventually(() => lock.extend());
  await lock.release();
  const next = await other.acquire('key', { wait: '20s' });
  expect(next.token.value).toBeGreaterThan(lock.token.value);
  await next.release();
});
