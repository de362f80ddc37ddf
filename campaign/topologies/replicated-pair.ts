import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { LockService, type Lock, type NodeInput } from '../../lib/index.ts';
import { closeLater, startModule } from '../../test/nest/support/applications.ts';
import { clientOf } from '../../test/support/clients.ts';
import { eventually } from '../../test/support/eventually.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';

/** Time beyond the guard in which locks must be back. */
const GRACE_MS = 2_000;
const KEY = 'seat:12A';
/** Nothing listens there: a replica of it keeps what it has. */
const NOWHERE = ['127.0.0.1', 1] as const;

/** A server that can be a primary or a replica, and a client to say so. */
export class Member {
  readonly admin: Redis;

  constructor(readonly server: RedisServer) {
    this.admin = new Redis(server.url);
    this.admin.on('error', () => undefined);
    closeLater({
      close: async () => {
        this.admin.disconnect();
        await server.stop();
      },
    });
  }

  /** Resolves when it has all data of the primary. */
  async follow({ server, admin }: Member): Promise<void> {
    await this.admin.replicaof(server.host, server.port);
    await eventually(async () => {
      const own = await this.admin.info('replication');
      assert.match(own, /^master_link_status:up/m);
      const offset = /^master_repl_offset:(\d+)/m;
      const sent = await admin.info('replication');
      assert.equal(offset.exec(own)?.[1], offset.exec(sent)?.[1]);
    });
  }

  /** Nothing reaches this replica any more, as if replication lagged by the time that follows. */
  async lag(): Promise<void> {
    await this.admin.replicaof(...NOWHERE);
  }

  /** Replicas get nothing of it any more, whatever Sentinel or the cluster tell them. */
  async cutReplicas(): Promise<void> {
    await this.admin.acl('SETUSER', 'default', '-psync');
    await this.admin.call('CLIENT', 'KILL', 'TYPE', 'replica');
  }

  /** Resolves when it has become a primary. */
  async promoted(): Promise<void> {
    await eventually(async () => assert.equal((await this.admin.role())[0], 'master'));
  }

  async promote(): Promise<void> {
    await this.admin.replicaof('NO', 'ONE');
  }
}

/** A primary and a replica that is in step. */
export async function startPair(): Promise<[primary: Member, replica: Member]> {
  const servers = await startRedisServers(2, {
    own: true,
    args: ['--repl-diskless-sync-delay', '0'],
  });
  const [primary, replica] = servers.map((server) => new Member(server)) as [Member, Member];
  await replica.follow(primary);
  return [primary, replica];
}

/** Two services, as of two processes, that want one key behind one address. */
export class Contenders {
  /** The grants at which the lock before was still held. */
  overlaps = 0;
  readonly #locks: Lock[] = [];

  private constructor(
    private readonly holder: LockService,
    private readonly rival: LockService,
    private readonly guardMs: number,
  ) {}

  /**
   * Resolves when both may have locks.
   * @param options `ttl`: ms, also the restart guard; `failover` makes that longer. `holderNode`: another way of the first one
   */
  static async start(
    node: NodeInput,
    {
      ttl = 1_000,
      failover,
      restartGuard = failover === undefined || undefined,
      keyPrefix,
      holderNode = node,
    }: {
      ttl?: number;
      restartGuard?: boolean | undefined;
      failover?: { maxLag: number } | undefined;
      keyPrefix?: string;
      holderNode?: NodeInput;
    } = {},
  ): Promise<Contenders> {
    const nodes = (input: NodeInput) => [typeof input === 'string' ? clientOf(input) : input];
    const settings = {
      nodes: nodes(node),
      ttl,
      startupTimeout: 30_000,
      ...(restartGuard !== undefined && { restartGuard }),
      ...(failover !== undefined && { failover }),
      ...(keyPrefix !== undefined && { keyPrefix }),
    };
    const guardMs = failover === undefined ? ttl : ttl + (failover.maxLag + 3_000) * 1.01;
    const modules = await Promise.all([
      startModule({}, { ...settings, nodes: nodes(holderNode) }),
      startModule({}, settings),
    ]);
    const [holder, rival] = modules.map((module) => module.get(LockService));
    const contenders = new Contenders(holder!, rival!, guardMs);
    for (const service of [contenders.holder, contenders.rival])
      await (await service.acquire('warm', { wait: '20s' })).release();
    return contenders;
  }

  /** The first of the two takes the key, and keeps it. */
  async hold(): Promise<void> {
    await this.#take(this.holder, '5s');
  }

  /** The other one takes the key as soon as it gets it, and keeps it. */
  async holdToo(): Promise<void> {
    await this.#take(this.rival, '20s');
  }

  /** Runs the fault; then the other one, and after it the first one again, get the key in time, each with a larger token. */
  async contend(fault: () => Promise<void>): Promise<void> {
    await fault();
    const since = performance.now();
    for (const service of [this.rival, this.holder]) {
      const lock = await eventually(() => this.#take(service, '50ms'), {
        timeoutMs: this.guardMs + GRACE_MS - (performance.now() - since),
      });
      await lock.release();
    }
    const tokens = this.#locks.map(({ token }) => token.value);
    for (const [index, token] of tokens.slice(1).entries()) assert.ok(token > tokens[index]!);
  }

  async #take(service: LockService, wait: `${number}${'s' | 'ms'}`): Promise<Lock> {
    const lock = await service.acquire(KEY, { wait });
    if (this.#locks.some(({ isHeld }) => isHeld)) this.overlaps += 1;
    this.#locks.push(lock);
    return lock;
  }
}
