import { setTimeout as sleep } from 'node:timers/promises';
import { historyNow } from '../../test/history/lock-history.ts';
import { eventually } from '../../test/support/eventually.ts';
import { freePort } from '../../test/support/redis-servers/free-port.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import { startRedisCluster } from '../../test/fencing/support/redis-cluster.ts';
import { LAG_MS, Member, type Topology } from './topology.ts';

const SETTINGS = [
  ['cluster-node-timeout', 1_000],
  ['repl-diskless-sync-delay', 0],
  ['repl-ping-replica-period', 1],
] as const;

/**
 * Three primaries, and a replica of the one that has the slot of the locks. Clients on both sides know another primary. In a crash
 * the replica gets nothing any more before it; nobody else would promote a replica that a link lets down.
 */
export class ClusterOfThree implements Topology {
  static readonly faults = ['killed', 'frozen', 'CLUSTER FAILOVER', 'slot migrated'] as const;
  readonly keyPrefix = '{lock}:';

  private constructor(
    private primary: Member,
    private replica: Member,
    private readonly others: readonly [Member, Member],
    private readonly slot: number,
  ) {}

  static async start(): Promise<ClusterOfThree> {
    const servers = await startRedisCluster(3);
    const members = await Promise.all(servers.map((server) => Member.of(server)));
    const slot = await members[0]!.admin.cluster('KEYSLOT', '{lock}:');
    const port = await ownerOf(slot, members[0]!);
    const primary = members.find(({ server }) => server.port === port)!;
    const others = members.filter((member) => member !== primary) as [Member, Member];
    const bus = await freePort();
    const args = ['--cluster-enabled', 'yes', '--cluster-port', String(bus)];
    const [server] = await startRedisServers(1, { own: true, args });
    const replica = await Member.of(server!);
    const cluster = new ClusterOfThree(primary, replica, others, slot);
    await primary.admin.call('CLUSTER', 'MEET', server!.host, server!.port, bus);
    for (const { admin } of cluster.#members)
      for (const [name, value] of SETTINGS) await admin.config('SET', name, value);
    await cluster.#inStep();
    return cluster;
  }

  get inputs() {
    const [{ server }] = this.others;
    const node = { cluster: [{ host: server.host, port: server.port }] };
    return { old: node, new: node };
  }

  async fail(fault: string, random: SeededRandom): Promise<number> {
    const { primary, replica, others } = this;
    if (fault === 'slot migrated') {
      await this.#migrate(primary, others[0]);
      return historyNow();
    }
    if (fault === 'CLUSTER FAILOVER') await replica.admin.call('CLUSTER', 'FAILOVER');
    if (fault === 'killed') {
      await primary.admin.acl('SETUSER', 'default', '-psync', '-sync');
      await primary.admin.call('CLIENT', 'KILL', 'TYPE', 'replica');
      await sleep(random.between(0, LAG_MS));
      await primary.server.kill();
    }
    if (fault === 'frozen') await primary.server.freeze();
    await eventually(async () => {
      if ((await ownerOf(this.slot, others[0])) !== replica.server.port)
        throw new Error('the replica has no slots yet');
    });
    const promotedAt = historyNow();
    if (fault === 'frozen') primary.goOnLater(random);
    [this.primary, this.replica] = [replica, primary];
    return promotedAt;
  }

  async heal(): Promise<void> {
    const { primary, replica, others } = this;
    // The slot that was migrated goes back to the one that has a replica: a failover that nobody counts.
    if ((await ownerOf(this.slot, primary)) === others[0].server.port)
      await this.#migrate(others[0], primary);
    const args = SETTINGS.flatMap(([name, value]) => [`--${name}`, String(value)]);
    if (!replica.server.isRunning) await replica.server.restart({ keepData: true, args });
    await replica.server.resume();
    await this.#inStep();
  }

  async close(): Promise<void> {
    await Promise.all(this.#members.map((member) => member.close()));
  }

  get #members(): readonly Member[] {
    return [this.primary, this.replica, ...this.others];
  }

  async #migrate(from: Member, to: Member): Promise<void> {
    const { slot } = this;
    const [source, target] = await Promise.all(
      [from, to].map(({ admin }) => admin.cluster('MYID')),
    );
    const { host, port } = to.server;
    await to.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source!);
    await from.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target!);
    for (;;) {
      const keys = (await from.admin.cluster('GETKEYSINSLOT', slot, 100)) as string[];
      if (keys.length === 0) break;
      await from.admin.call('MIGRATE', host, port, '', 0, 5_000, 'REPLACE', 'KEYS', ...keys);
    }
    for (const { admin } of [to, from, ...this.others])
      await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', target!);
  }

  /** The one that is to be the replica is one, and all of them know it. */
  async #inStep(): Promise<void> {
    const { primary, replica } = this;
    const id = await primary.admin.cluster('MYID');
    await eventually(
      async () => {
        if (!String(await replica.admin.cluster('NODES')).includes('myself,slave'))
          await replica.admin.call('CLUSTER', 'REPLICATE', id);
        if ((await replica.admin.role())[3] !== 'connected') throw new Error('not in step');
        for (const { admin } of this.#members) {
          const nodes = String(await admin.cluster('NODES'));
          if (!nodes.includes(`slave ${id}`) || /fail|handshake/.test(nodes))
            throw new Error(`not everybody knows: ${nodes}`);
        }
      },
      { everyMs: 50 },
    );
  }
}

/** The port of the primary that has the slot, as this one knows. */
async function ownerOf(slot: number, { admin }: Member): Promise<number | undefined> {
  const ranges = await admin.cluster('SLOTS');
  return ranges.find(([first, last]) => first <= slot && slot <= last)?.[2]?.[1];
}
