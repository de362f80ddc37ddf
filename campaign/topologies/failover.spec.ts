import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Link } from '../../test/support/link.ts';
import { closeAll, closeLater } from '../../test/nest/support/applications.ts';
import { Contenders, type Member, startPair } from './replicated-pair.ts';

/**
 * Fate of the connections of clients when the address moves: they are `reset`; they `stay` on the server they
 * have; or a proxy keeps them, and gives each a connection to the new server once the old one has answered (`follow`).
 */
type Connections = 'reset' | 'stay' | 'follow';
type ContenderOptions = Parameters<typeof Contenders.start>[1];
/** The time in which a replica acknowledges at least once. */
const ACKNOWLEDGED_MS = 1_200;
const LONGEST_FREEZE_MS = 5_000;

afterEach(closeAll);

/** Starts one address in front of a primary with a replica, and two services behind it. */
async function startStage(options?: ContenderOptions) {
  const [primary, replica] = await startPair();
  const address = closeLater(await Link.open(primary.server));
  /** New connections lead to this member from now on; resolves when old ones were treated as well. */
  const move = async (to: Member, connections: Connections): Promise<void> => {
    address.target = to.server;
    if (connections === 'reset') address.resetConnections();
    if (connections === 'follow') await address.followTarget();
  };
  const contenders = await Contenders.start(address.url, options);
  /** The two change places. */
  const swap = async (from: Member, to: Member, connections: Connections): Promise<void> => {
    await to.promote();
    await move(to, connections);
    await from.follow(to);
  };
  return { primary, replica, move, contenders, swap };
}

/** The primary is killed; its replica never received the lock. */
async function crash(options?: ContenderOptions): Promise<Contenders> {
  const { primary, replica, move, contenders } = await startStage(options);
  await replica.follow(primary);
  await replica.lag();
  await contenders.hold();
  await contenders.contend(async () => {
    await primary.server.kill();
    await replica.promote();
    await move(replica, 'reset');
  });
  return contenders;
}

describe('a held lock that the promoted replica never received has no second holder', () => {
  it('when the primary crashes', async () => {
    expect((await crash()).overlaps).toBe(0);
  });

  it('when the primary crashes, with failover', async () => {
    expect((await crash({ failover: { maxLag: 0 } })).overlaps).toBe(0);
  });

  it('which without the restart guard it has', async () => {
    // The ttl is so long that no extension of the first holder comes before the second one.
    const { overlaps } = await crash({ restartGuard: false, ttl: 5_000 });
    expect(overlaps).toBe(1);
  });

  it.each<[string, Connections]>([
    ['are reset', 'reset'],
    ['stay on the demoted server', 'stay'],
    ['are kept by a proxy', 'follow'],
  ])('when roles are swapped and connections %s', async (_, connections) => {
    const { primary, replica, contenders, swap } = await startStage();
    await replica.follow(primary);
    await replica.lag();
    await contenders.hold();
    await contenders.contend(() => swap(primary, replica, connections));
    expect(contenders.overlaps).toBe(0);
  });

  it('when the primary is a replica for a while, with failover, and nobody leaves it or joins meanwhile', async () => {
    const { primary, replica, contenders } = await startStage({
      ttl: 5_000,
      failover: { maxLag: 0 },
    });
    await replica.follow(primary);
    await replica.promote();
    await contenders.hold();
    await primary.follow(replica);
    await primary.promote();
    await contenders.contend(() => Promise.resolve());
    expect(contenders.overlaps).toBe(0);
  });

  it.each([
    ['lacks the lock', false],
    ['lacks also that its replica was joined', true],
  ])(
    'when a proxy fails over, and back to a server that nobody restarted and that %s',
    async (_, lagsAtOnce) => {
      const { primary, replica, move, contenders, swap } = await startStage();
      await replica.follow(primary);
      await swap(primary, replica, 'follow');
      if (lagsAtOnce) await primary.lag();
      await contenders.contend(() => Promise.resolve());
      if (!lagsAtOnce) {
        await primary.follow(replica);
        await primary.lag();
      }
      await contenders.hold();
      await contenders.contend(async () => {
        await primary.promote();
        await move(primary, 'follow');
      });
      expect(contenders.overlaps).toBe(0);
    },
  );
});

/**
 * The primary freezes. Its replica, whose latest acknowledgements it has yet to read, is cut off and promoted. It wakes when the
 * other service has the key there, or after the longest freeze; the first service still reaches it only.
 */
async function freeze(maxLagMs: number): Promise<Contenders> {
  const [primary, replica] = await startPair();
  const replication = closeLater(await Link.open(primary.server));
  const address = closeLater(await Link.open(primary.server));
  await replica.admin.replicaof('127.0.0.1', replication.port);
  await primary.admin.config('SET', 'min-replicas-to-write', 1, 'min-replicas-max-lag', 1);
  const contenders = await Contenders.start(address.url, {
    ttl: 500,
    failover: { maxLag: maxLagMs },
    holderNode: primary.server.url,
  });
  await primary.server.freeze();
  const longestFreeze = sleep(LONGEST_FREEZE_MS);
  await sleep(ACKNOWLEDGED_MS);
  replication.setMode({ kind: 'lose' });
  await replica.promote();
  address.target = replica.server;
  address.resetConnections();
  const other = contenders.holdToo();
  await Promise.race([other, longestFreeze]);
  await primary.server.resume();
  await contenders.hold();
  await other;
  return contenders;
}

describe('a lock that a primary grants after it was frozen and cut off', () => {
  it('ends before the promoted replica gives the key, when maxLag is longer than that of the servers by the freeze', async () => {
    expect((await freeze(1_000 + LONGEST_FREEZE_MS)).overlaps).toBe(0);
  });

  it('has a second holder otherwise', async () => {
    expect((await freeze(1_000)).overlaps).toBe(1);
  });
});
