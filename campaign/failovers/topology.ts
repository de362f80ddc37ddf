import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { RedisNodeInput } from '../../lib/redis/client/client-source.ts';
import { Link } from '../../test/support/link.ts';
import { historyNow } from '../../test/history/lock-history.ts';
import { eventually } from '../../test/support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';

/** Clients that stay with the primary of before as long as they can, or move to the new one as soon as they can. */
export type Side = 'old' | 'new';

/** Setting `min-replicas-max-lag` of all servers, in seconds. */
export const MAX_LAG_S = 2;
/** Longest time between the end of replication and what ends the primary: as long as it takes writes, or nearly. */
export const LAG_MS = 1_500;
/** A frozen primary goes on so long after the promotion at most, so that the guard is over sooner or later than that. */
const LONGEST_FREEZE_MS = 9_000;

/** A Redis that fails over again and again, as clients on both sides reach it. */
export interface Topology {
  readonly keyPrefix: string;
  readonly inputs: Readonly<Record<Side, RedisNodeInput>>;
  /** Makes it fail over. Resolves with the moment from which on the new primary was one. */
  fail(fault: string, random: SeededRandom): Promise<number>;
  /** Makes the primary of before a replica of the new one; resolves when that is in step. */
  heal(): Promise<void>;
  close(): Promise<void>;
}

/** A server that is a primary or a replica, a client to say so, and the way of the replica to it. */
export class Member {
  readonly admin: Redis;

  private constructor(
    readonly server: RedisServer,
    readonly link: Link,
  ) {
    this.admin = new Redis(server.url, { retryStrategy: () => 50 });
    this.admin.on('error', () => undefined);
  }

  static async of(server: RedisServer): Promise<Member> {
    return new Member(server, await Link.open(server));
  }

  static async start(count: number): Promise<Member[]> {
    const settings = {
      'repl-diskless-sync-delay': 0,
      'repl-ping-replica-period': 1,
      'min-replicas-max-lag': MAX_LAG_S,
    };
    const args = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const servers = await startRedisServers(count, { own: true, args });
    return Promise.all(servers.map((server) => Member.of(server)));
  }

  /** Becomes a replica; resolves when the primary counts it as one that keeps up, and so needs it for writes. */
  async follow(primary: Member): Promise<void> {
    await eventually(() => this.admin.replicaof('127.0.0.1', primary.link.port));
    await eventually(async () => {
      const [own, said] = await Promise.all(
        [this, primary].map(({ admin }) => admin.info('replication')),
      );
      if (!/master_link_status:up/.test(own!) || !/state=online.*lag=[01]\b/.test(said!))
        throw new Error('the replica is not in step');
    });
    await primary.needReplicas(1);
  }

  async needReplicas(count: number): Promise<void> {
    await this.admin.config('SET', 'min-replicas-to-write', count);
  }

  /** Resolves just after the replica was heard of, and at a whole second, from which on the lag is counted. */
  async heard(): Promise<void> {
    await sleep(1_000 - (Date.now() % 1_000) + 3);
    await eventually(() => this.admin.set('heard', 1));
    await this.admin.call('WAIT', 1, 200);
  }

  /** A frozen one goes on when another one is primary, before the guard of that is over, or after it. */
  goOnLater(random: SeededRandom): void {
    const goOn = () => void (this.server.isRunning && this.server.resume());
    setTimeout(goOn, random.between(0, LONGEST_FREEZE_MS)).unref();
  }

  async close(): Promise<void> {
    this.admin.disconnect();
    await this.link.close();
    await this.server.stop();
  }
}

/** A primary and a replica behind one address, that of the `new` side; the `old` side stays where it is. */
export class OneAddress implements Topology {
  static readonly faults = [
    'killed, connections reset',
    'partition, connections reset',
    'partition, connections kept by a proxy',
    'partition, connections in a black hole',
    'roles swapped, connections kept by a proxy',
  ] as const;
  /** A primary that does not run does not look for its replicas either: when it goes on, it takes writes for a moment. */
  static readonly uncovered = [
    'frozen in a partition, connections reset',
    'frozen, connections reset',
  ] as const;
  readonly keyPrefix = 'lock:';

  private constructor(
    private primary: Member,
    private replica: Member,
    private readonly links: Readonly<Record<Side, Link>>,
  ) {}

  static async start(): Promise<OneAddress> {
    const [primary, replica] = (await Member.start(2)) as [Member, Member];
    await replica.follow(primary);
    const links = { old: await Link.open(primary.server), new: await Link.open(primary.server) };
    return new OneAddress(primary, replica, links);
  }

  get inputs() {
    return { old: this.links.old.url, new: this.links.new.url };
  }

  async fail(fault: string, random: SeededRandom): Promise<number> {
    const { primary, replica, links } = this;
    const isSwap = fault.startsWith('roles swapped');
    if (!isSwap) {
      await primary.heard();
      primary.link.forget();
    }
    const isAlive = isSwap || fault.startsWith('partition');
    if (!isAlive) await sleep(random.between(0, LAG_MS));
    if (fault.startsWith('killed')) await primary.server.kill();
    if (fault.startsWith('frozen')) await primary.server.freeze();
    await replica.needReplicas(0);
    await replica.admin.replicaof('NO', 'ONE');
    const promotedAt = historyNow();
    if (fault.startsWith('frozen')) primary.goOnLater(random);
    links.new.target = replica.server;
    // Clients that connect again find the new one, except in a partition.
    if (fault.startsWith('frozen,')) links.old.target = replica.server;
    if (fault.endsWith('reset')) links.new.resetConnections();
    if (fault.endsWith('black hole')) links.new.forget();
    if (fault.endsWith('proxy')) await links.new.followTarget();
    if (isSwap) await primary.admin.replicaof('127.0.0.1', replica.link.port);
    return promotedAt;
  }

  async heal(): Promise<void> {
    const { primary, replica, links } = this;
    if (!primary.server.isRunning) await primary.server.restart();
    await primary.server.resume();
    // It still needs its replica: without that it would take writes again until it follows.
    await primary.follow(replica);
    links.old.target = replica.server;
    links.old.resetConnections();
    [this.primary, this.replica] = [replica, primary];
  }

  async close(): Promise<void> {
    const { primary, replica, links } = this;
    await Promise.all([primary, replica, links.old, links.new].map((each) => each.close()));
  }
}
