import { afterEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { closeAll, closeLater } from '../../test/nest/support/applications.ts';
import { eventually } from '../../test/support/eventually.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import { Contenders, type Member, startPair } from './replicated-pair.ts';

const NAME = 'mymaster';
const QUIET_MS = 500;

afterEach(closeAll);

/** Three Sentinels that watch this primary, and know its replica and each other. */
async function startSentinels({ server }: Member): Promise<{ host: string; port: number }[]> {
  const sentinels = await startRedisServers(3, { own: true, sentinel: true });
  const clients = sentinels.map(({ url }) => new Redis(url));
  for (const sentinel of sentinels) closeLater({ close: () => sentinel.stop() });
  for (const client of clients) {
    await client.call('SENTINEL', 'MONITOR', NAME, server.host, server.port, 2);
    const settings = ['down-after-milliseconds', QUIET_MS, 'failover-timeout', 5_000];
    await client.call('SENTINEL', 'SET', NAME, ...settings);
  }
  for (const client of clients) {
    await eventually(async () => {
      const said = (await client.call('SENTINEL', 'MASTER', NAME)) as string[];
      const known = ['num-slaves', 'num-other-sentinels'].map(
        (name) => said[said.indexOf(name) + 1],
      );
      expect(known).toEqual(['1', '2']);
    });
    client.disconnect();
  }
  return sentinels.map(({ host, port }) => ({ host, port }));
}

describe('a held lock that the replica never received', () => {
  it('has no second holder when Sentinels promote the replica, and is given again after the guard', async () => {
    const [primary, replica] = await startPair();
    const sentinels = await startSentinels(primary);
    const node = { sentinels, name: NAME };
    const contenders = await Contenders.start(node, { failover: { maxLag: 0 } });
    await replica.follow(primary);
    await primary.cutReplicas();
    await contenders.hold();
    await contenders.contend(async () => {
      await primary.server.kill();
      await replica.promoted();
    });
    expect(contenders.overlaps).toBe(0);
  });
});
