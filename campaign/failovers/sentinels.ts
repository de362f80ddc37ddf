import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { Link } from '../../test/support/link.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { eventually } from '../../test/support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';
import { LAG_MS, Member, type Topology } from './topology.ts';

const NAME = 'locks';
const QUIET_MS = 700;

/**
 * Three Sentinels, which find primary and replica by the links in front of them. Clients ask the Sentinels; where it fails over in
 * a partition, those on the `old` side have the primary's own address, which that leaves to them.
 */
export class Sentinels implements Topology {
  readonly keyPrefix = 'lock:';

  private constructor(
    private primary: Member,
    private replica: Member,
    private readonly sentinels: readonly RedisServer[],
    private readonly old: Link,
    private readonly isPartitioned: boolean,
  ) {}

  static async start(isPartitioned: boolean): Promise<Sentinels> {
    const [primary, replica] = (await Member.start(2)) as [Member, Member];
    for (const { admin, link } of [primary, replica]) {
      await admin.config('SET', 'replica-announce-ip', '127.0.0.1');
      await admin.config('SET', 'replica-announce-port', link.port);
    }
    await replica.follow(primary);
    const servers = await startRedisServers(3, { own: true, sentinel: true });
    const old = await Link.open(primary.server);
    const sentinels = new Sentinels(primary, replica, servers, old, isPartitioned);
    await sentinels.#ask(async (client) => {
      await client.call('SENTINEL', 'MONITOR', NAME, '127.0.0.1', primary.link.port, 2);
      const settings = ['down-after-milliseconds', QUIET_MS, 'failover-timeout', 1_500];
      await client.call('SENTINEL', 'SET', NAME, ...settings);
    });
    await sentinels.#agree(primary, replica);
    return sentinels;
  }

  get inputs() {
    const sentinels = this.sentinels.map(({ host, port }) => ({ host, port }));
    const found = { sentinels, name: NAME };
    return { old: this.isPartitioned ? this.old.url : found, new: found };
  }

  async fail(fault: string, random: SeededRandom): Promise<number> {
    const { primary, replica } = this;
    await replica.needReplicas(0);
    await primary.heard();
    primary.link.setMode({ kind: 'lose' });
    if (fault !== 'partition') await sleep(random.between(0, LAG_MS));
    if (fault === 'killed') await primary.server.kill();
    if (fault === 'frozen') await primary.server.freeze();
    await this.#agree(replica);
    if (fault === 'frozen') primary.goOnLater(random);
    return historyNow();
  }

  async heal(): Promise<void> {
    const { primary, replica } = this;
    if (!primary.server.isRunning) {
      await primary.server.restart();
      await eventually(() => primary.admin.config('SET', 'replica-announce-ip', '127.0.0.1'));
      await primary.admin.config('SET', 'replica-announce-port', primary.link.port);
    }
    await primary.server.resume();
    await primary.follow(replica);
    primary.link.setMode({ kind: 'pass' });
    this.old.target = replica.server;
    this.old.resetConnections();
    [this.primary, this.replica] = [replica, primary];
    await this.#agree(replica, primary);
  }

  async close(): Promise<void> {
    await Promise.all([this.primary, this.replica, this.old].map((each) => each.close()));
    await Promise.all(this.sentinels.map((sentinel) => sentinel.stop()));
  }

  /** Resolves when all of them have this primary, and would promote that replica. */
  async #agree(primary: Member, replica?: Member): Promise<void> {
    await this.#ask((client) =>
      eventually(
        async () => {
          const of = async (what: string) => String(await client.call('SENTINEL', what, NAME));
          const [master, replicas] = [await of('MASTER'), await of('REPLICAS')];
          const isReady =
            replica === undefined ||
            (/flags,master,.*num-other-sentinels,2,/.test(master) &&
              replicas.includes(`port,${replica.link.port},`) &&
              /flags,slave,.*master-link-status,ok,/.test(replicas));
          if (!master.includes(`port,${primary.link.port},`) || !isReady)
            throw new Error(`a Sentinel knows other servers: ${master} ${replicas}`);
        },
        { everyMs: 50 },
      ),
    );
  }

  async #ask(question: (client: Redis) => Promise<unknown>): Promise<void> {
    await Promise.all(
      this.sentinels.map(async ({ url }) => {
        const client = new Redis(url);
        await question(client).finally(() => client.disconnect());
      }),
    );
  }
}
