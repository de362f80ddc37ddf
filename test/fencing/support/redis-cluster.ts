import { Redis } from 'ioredis';
import { eventually } from '../../support/eventually.ts';
import { freePort } from '../../support/redis-servers/free-port.ts';
import { startRedisServers, type RedisServer } from '../../support/redis-servers/index.ts';

const SLOTS = 16_384;

/** A bound that only a hang crosses. */
const PATIENCE = { timeoutMs: 90_000 } as const;
/** Nor does a server that stands still for a while count as failed. */
const NODE_TIMEOUT_MS = '60000';

/** Masters of one Redis Cluster, which share all slots. They must be processes of this machine. */
export async function startRedisCluster(count: number): Promise<readonly RedisServer[]> {
  const servers: RedisServer[] = [];
  const buses: number[] = [];
  const clients: Redis[] = [];
  try {
    for (let index = 0; index < count; index += 1) {
      const bus = await freePort();
      const args = [
        '--cluster-enabled',
        'yes',
        '--cluster-port',
        String(bus),
        '--cluster-node-timeout',
        NODE_TIMEOUT_MS,
      ];
      servers.push(...(await startRedisServers(1, { own: true, args })));
      buses.push(bus);
    }
    clients.push(...servers.map(({ url }) => new Redis(url)));
    for (const [index, client] of clients.entries()) {
      const [first, end] = [index, index + 1].map((part) => Math.floor((SLOTS * part) / count));
      await client.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1);
      await client.call('CLUSTER', 'ADDSLOTSRANGE', first!, end! - 1);
      if (index === 0) continue;
      const { host, port } = servers[index]!;
      await clients[0]!.call('CLUSTER', 'MEET', host, port, buses[index]!);
    }
    for (const client of clients)
      await eventually(async () => {
        const info = String(await client.cluster('INFO'));
        const isWhole =
          info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${count}\r`);
        if (!isWhole) throw new Error(`no cluster of ${count} yet: ${info}`);
      }, PATIENCE);
    return servers;
  } catch (error) {
    await Promise.all(servers.map((server) => server.stop()));
    throw error;
  } finally {
    for (const client of clients) client.disconnect();
  }
}
