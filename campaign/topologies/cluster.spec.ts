import { afterEach, describe, expect, it } from '@jest/globals';
import { startRedisCluster } from '../../test/fencing/support/redis-cluster.ts';
import { closeAll } from '../../test/nest/support/applications.ts';
import { eventually } from '../../test/support/eventually.ts';
import { freePort } from '../../test/support/redis-servers/free-port.ts';
import { startRedisServers } from '../../test/support/redis-servers/index.ts';
import { Contenders, Member } from './replicated-pair.ts';

const keyPrefix = '{lock}:';

afterEach(closeAll);

/** Three primaries, a replica of the one that has the slot of the locks, and two services that know another one. */
async function startStage() {
  const members = (await startRedisCluster(3)).map((server) => new Member(server));
  const slot = await members[0]!.admin.cluster('KEYSLOT', keyPrefix);
  const slots = await members[0]!.admin.cluster('SLOTS');
  const port = slots.find(([first, last]) => first <= slot && slot <= last)![2]![1];
  const owner = members.find(({ server }) => server.port === port)!;
  const [other, third] = members.filter((member) => member !== owner) as [Member, Member];
  const replica = await startReplica(owner);
  for (const { admin } of [...members, replica])
    await admin.config('SET', 'cluster-node-timeout', 1_000);
  const { host, port: known } = other.server;
  const contenders = await Contenders.start(
    { cluster: [{ host, port: known }] },
    { keyPrefix, failover: { maxLag: 0 } },
  );
  return { slot, owner, other, third, replica, contenders };
}

async function startReplica(owner: Member): Promise<Member> {
  const bus = await freePort();
  const args = ['--cluster-enabled', 'yes', '--cluster-port', String(bus)];
  const replica = new Member(
    (
      await startRedisServers(1, { own: true, args: [...args, '--repl-diskless-sync-delay', '0'] })
    )[0]!,
  );
  const { host, port } = replica.server;
  const id = await owner.admin.cluster('MYID');
  await owner.admin.call('CLUSTER', 'MEET', host, port, bus);
  await eventually(() => replica.admin.call('CLUSTER', 'REPLICATE', id));
  await eventually(async () => expect((await replica.admin.role())[3]).toBe('connected'));
  return replica;
}

describe('a held lock in a cluster has no second holder, and is given again after the guard', () => {
  it('when its primary is killed, and the replica never received it', async () => {
    const { owner, replica, contenders } = await startStage();
    await owner.cutReplicas();
    await contenders.hold();
    await contenders.contend(async () => {
      await owner.server.kill();
      await replica.promoted();
    });
    expect(contenders.overlaps).toBe(0);
  });

  it('when primary and replica change places', async () => {
    const { replica, contenders } = await startStage();
    await contenders.hold();
    await contenders.contend(async () => {
      await replica.admin.call('CLUSTER', 'FAILOVER');
      await replica.promoted();
    });
    expect(contenders.overlaps).toBe(0);
  });

  it('when its slot moves to another primary', async () => {
    const { slot, owner, other, third, contenders } = await startStage();
    await contenders.hold();
    await contenders.contend(async () => {
      const [from, to] = await Promise.all(
        [owner, other].map(({ admin }) => admin.cluster('MYID')),
      );
      const { host, port } = other.server;
      await other.admin.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from!);
      await owner.admin.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to!);
      for (;;) {
        const keys = (await owner.admin.cluster('GETKEYSINSLOT', slot, 100)) as string[];
        if (keys.length === 0) break;
        await owner.admin.call('MIGRATE', host, port, '', 0, 5_000, 'KEYS', ...keys);
      }
      for (const { admin } of [other, owner, third])
        await admin.call('CLUSTER', 'SETSLOT', slot, 'NODE', to!);
    });
    expect(contenders.overlaps).toBe(0);
  });
});
