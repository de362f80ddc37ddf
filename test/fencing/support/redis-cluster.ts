import { Redis } from 'ioredis';
import { eventually } from '../../support/eventually.ts';
import { freePort } from '../../support/redis-servers/free-port.ts';
import { startRedisServers, type RedisServer } from '../../support/redis-servers/index.ts';

const SLOTS = 16_384;

/** Masters of one Redis Cluster, which share all slots. They must be processes of this machine. */
export async function startRedisCluster(count: number): Promise<readonly RedisServer[]> {
  const servers: RedisServer[] = [];
  const buses: number[] = [];
  const clients: Redis[] = [];
  try {
    for (let index = 0; index < count; index += 1) {
      const bus = await freePort();
      const args = ['--cluster-enabled', 'yes', '--cluster-port', String(bus)];
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
      });
    return servers;
  } catch (error) {
    await Promise.all(servers.map((server) => server.stop()));
    throw error;
  } finally {
    for (const client of clients) client.disconnect();
  }
}

/** Moves one slot from the master that has it to another one, step by step. */
export class SlotMover {
  private isMoving = false;
  private constructor(
    private readonly slot: number,
    readonly source: Redis,
    private readonly target: Redis,
    private readonly ids: readonly [source: string, target: string],
  ) {}

  static async begin(servers: readonly RedisServer[], slot: number): Promise<SlotMover> {
    const clients = servers.map(({ url }) => new Redis(url));
    const owned = await Promise.all(
      clients.map(async (client) => (await client.call('CLUSTER', 'NODES')) as string),
    );
    const has = (nodes: string): boolean => {
      const own = nodes.split('\n').find((line) => line.includes('myself'))!;
      const ranges = own
        .split(' ')
        .slice(8)
        .map((range) => range.split('-').map(Number));
      return ranges.some(([first = 0, last = first]) => first <= slot && slot <= last);
    };
    const from = owned.findIndex(has);
    const [source] = clients.splice(from, 1);
    const [target, ...others] = clients;
    for (const client of others) client.disconnect();
    const ids = [source!, target!].map(async (client) =>
      String(await client.call('CLUSTER', 'MYID')),
    );
    return new SlotMover(slot, source!, target!, (await Promise.all(ids)) as [string, string]);
  }

  async start(): Promise<void> {
    this.isMoving = true;
    await this.target.call('CLUSTER', 'SETSLOT', this.slot, 'IMPORTING', this.ids[0]);
    await this.source.call('CLUSTER', 'SETSLOT', this.slot, 'MIGRATING', this.ids[1]);
  }

  async move(name: string): Promise<void> {
    const { host, port } = this.target.options;
    await this.source.call('MIGRATE', host!, port!, name, 0, 5_000);
  }

  async end(): Promise<void> {
    if (this.isMoving) {
      const left = await this.source.call('CLUSTER', 'GETKEYSINSLOT', this.slot, 100);
      for (const name of left as string[]) await this.move(name);
      for (const each of [this.target, this.source])
        await each.call('CLUSTER', 'SETSLOT', this.slot, 'NODE', this.ids[1]);
      this.isMoving = false;
    }
  }

  close(): void {
    this.source.disconnect();
    this.target.disconnect();
  }
}
