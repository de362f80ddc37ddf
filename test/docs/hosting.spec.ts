import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from '@jest/globals';
import { LockService, type RedlockModuleOptions } from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from '../nest/support/applications.ts';
import { eventually } from '../support/eventually.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

/** One address of a service that moves to another server. */
class MovingAddress {
  private readonly sockets = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    private target: RedisServer,
  ) {
    server.on('connection', (socket) => {
      const other = connect(this.target.port, this.target.host);
      for (const [one, two] of [
        [socket, other],
        [other, socket],
      ] as const) {
        this.sockets.add(one);
        one.pipe(two).on('error', () => undefined);
        one.on('close', () => two.destroy());
      }
    });
  }

  static async open(target: RedisServer): Promise<MovingAddress> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new MovingAddress(server, target);
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  moveTo(target: RedisServer): void {
    this.target = target;
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
  }

  async close(): Promise<void> {
    this.server.close();
    this.moveTo(this.target);
  }
}

describe('one address with failover', () => {
  afterEach(closeAll);
  const servers = useRedisServers(2, {
    own: true,
    args: ['--repl-diskless-sync-delay', '0'],
  });

  /** A holder, another process, and the promotion of a replica that never received the lock. */
  async function failOver(options: Partial<RedlockModuleOptions>) {
    const [primary, replica] = [servers[0]!, servers[1]!];
    const admins = servers.map(({ url }) => new Redis(url));
    for (const each of admins) closeLater({ close: () => each.quit() });
    await Promise.all(admins.map((each) => each.flushall()));
    const admin = admins[1]!;
    await admin.replicaof(primary.host, primary.port);
    const address = closeLater(await MovingAddress.open(primary));
    const start = () => startModule({}, { nodes: [address.url], ...options });
    const [holder, other] = [(await start()).get(LockService), (await start()).get(LockService)];
    await (await holder.acquire('warm', { wait: '5s' })).release();
    await eventually(async () => expect(await admin.exists('lock:#marker')).toBe(1));
    await admin.replicaof('NO', 'ONE');
    const lock = await holder.acquire('seat:12A');
    address.moveTo(replica);
    const second = await eventually(() => other.acquire('seat:12A', { wait: 0 }));
    const outcome = { overlapMs: lock.remainingMs, isHeld: second.isHeld };
    await Promise.all([lock.release(), second.release()]);
    return outcome;
  }

  it('can give a held lock to a second holder without the restart guard', async () => {
    const { overlapMs } = await failOver({ restartGuard: false, ttl: '10s' });
    expect(overlapMs).toBeGreaterThan(0);
  });

  it('never does with the restart guard, when the primary has crashed', async () => {
    const outcome = await failOver({ restartGuard: true, ttl: '1s' });
    expect(outcome).toEqual({ overlapMs: 0, isHeld: true });
  });
});
