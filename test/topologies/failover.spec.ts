import { afterEach, describe, expect, it } from '@jest/globals';
import { Link } from '../campaign/world/link.ts';
import { closeAll, closeLater } from '../nest/support/applications.ts';
import { Contenders, type Member, startPair } from './replicated-pair.ts';

/**
 * Fate of the connections of clients when the address moves: they are `reset`; they `stay` on the server they
 * have; or a proxy keeps them, and gives each a connection to the new server once the old one has answered (`follow`).
 */
type Connections = 'reset' | 'stay' | 'follow';
type ContenderOptions = Parameters<typeof Contenders.start>[1];

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
