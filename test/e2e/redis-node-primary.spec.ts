import { describe, expect, it } from '@jest/globals';
import { Command } from 'ioredis';
import type { ClientSourceOptions } from '../../lib/redis/client/client-source.ts';
import { createRedisNode } from '../support/clients.ts';
import type { LinkTarget } from '../support/link.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { startRedisCluster } from '../fencing/support/redis-cluster.ts';
import { bulk, isQuestion, JOINED, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import { useClosing } from '../support/use-redlocks.ts';

interface Member {
  readonly scripted: ScriptedRedis;
  readonly port: number;
  /** It, as the reply to CLUSTER SLOTS has it. */
  readonly member: string;
}

const closing = useClosing();

describe('a connection that leads to another server by now, as behind a proxy', () => {
  it('says so when it is joined again', async () => {
    let runId = '1a2b3c4d';
    const scripted = await ScriptedRedis.start((command) => {
      if (isQuestion(command)) return ':1\r\n';
      return command[0] === 'eval' ? JOINED.replace('1a2b3c4d', runId) : shakeHands(command);
    });
    closing({ close: () => scripted.stop() });
    const driver = await NodeDriver.open(closing(createRedisNode(scripted.url)));
    for (let join = 0; join < 2; join += 1)
      expect(await driver.join()).not.toHaveProperty('isMoved');
    runId = '5e6f7a8b';
    expect(await driver.join()).toMatchObject({ kind: 'joined', isMoved: true });
    expect(await driver.join()).not.toHaveProperty('isMoved');
    expect(driver.events).toEqual(['opened']);
  });
});

describe('the primary that a Sentinel names', () => {
  /** Its Sentinel names it by an address that leads to it only by `natMap`. */
  async function startPrimary() {
    const named = '10.255.255.1:6379';
    const [host, port] = named.split(':') as [string, string];
    const sentinel = await ScriptedRedis.start((command) =>
      command[0] === 'sentinel' ? `*2\r\n${bulk(host)}${bulk(port)}` : shakeHands(command),
    );
    const primary = await ScriptedRedis.start((command) => {
      if (isQuestion(command)) return ':1\r\n';
      return command[0] === 'eval' ? JOINED : shakeHands(command);
    });
    for (const each of [sentinel, primary]) closing({ close: () => each.stop() });
    const places = [sentinel, primary].map(({ url }) => {
      const { hostname, port: own } = new URL(url);
      return { host: hostname, port: Number(own) };
    });
    const natMap: Record<string, LinkTarget> = { [named]: places[1]! };
    return { sentinel, primary, natMap, input: { sentinels: [places[0]!], name: 'm' } };
  }

  it('is where natMap says, a table or a function', async () => {
    const { natMap, input } = await startPrimary();
    for (const map of [natMap, (address: string) => natMap[address] ?? null]) {
      const node = closing(createRedisNode({ ...input, natMap: map }));
      expect((await (await NodeDriver.open(node)).join()).kind).toBe('joined');
    }
  });

  it('gets the password of the node, and the Sentinel only its own', async () => {
    const { sentinel, primary, natMap, input } = await startPrimary();
    const logins = ({ commands }: ScriptedRedis) =>
      new Set(commands.filter(([name]) => name === 'auth').map(String));
    for (const own of [{}, { sentinelPassword: 'hunter2-s' }]) {
      const node = closing(createRedisNode({ ...input, natMap, password: 'hunter2', ...own }));
      await NodeDriver.open(node);
    }
    expect(logins(primary)).toEqual(new Set(['auth,hunter2']));
    expect(logins(sentinel)).toEqual(new Set(['auth,hunter2-s']));
  });
});

describe('a cluster as one node', () => {
  const keyPrefix = '{lock}:';

  /** Servers of which the second one has the slot of the prefix, and the third one is its replica, until that is told to take over. */
  async function startCluster(options: ClientSourceOptions = {}) {
    const slot = new Command('get', [keyPrefix]).getSlot()!;
    let slots = '';
    const start = async (runId: string) => {
      const scripted = await ScriptedRedis.start((command) => {
        if (command[0] === 'cluster') return slots;
        if (isQuestion(command)) return ':1\r\n';
        if (command[0] !== 'eval') return shakeHands(command);
        const known = command[13]!;
        const joined = JOINED.replace('1a2b3c4d', runId);
        // It was up when the one was joined that is known.
        return known === '' || known === runId ? joined : `${joined.replace('*5', '*6')}:9000\r\n`;
      });
      closing({ close: () => scripted.stop() });
      const { port } = new URL(scripted.url);
      const member = `*3\r\n${bulk('127.0.0.1')}:${port}\r\n${bulk(port)}`;
      return { scripted, port: Number(port), member };
    };
    const servers = ['11111111', '22222222', '33333333'].map(start);
    const [asked, primary, replica] = (await Promise.all(servers)) as [Member, Member, Member];
    const range = (first: number, last: number, ...members: Member[]) =>
      `*${2 + members.length}\r\n:${first}\r\n:${last}\r\n${members.map(({ member }) => member).join('')}`;
    const others = [range(0, slot - 1, asked), range(slot + 1, 16_383, asked)];
    const give = (...members: Member[]) => {
      slots = `*3\r\n${others[0]}${range(slot, slot, ...members)}${others[1]}`;
    };
    give(primary, replica);
    const input = { cluster: [{ host: '127.0.0.1', port: asked.port }], password: 'hunter2-0' };
    const node = closing(createRedisNode(input, { keyPrefix, ...options }));
    return { asked, primary, replica, give, driver: await NodeDriver.open(node) };
  }

  it('is the primary of the slot of its key prefix, whichever server is asked for that', async () => {
    const { asked, primary, replica, driver } = await startCluster();
    expect((await driver.join()).kind).toBe('joined');
    const joins = [asked, primary, replica].map(
      ({ scripted }) => scripted.commands.filter(([name]) => name === 'eval').length,
    );
    expect(joins).toEqual([0, 1, 0]);
  });

  it('is the one server that was asked where that has met no other, and does not know its own address', async () => {
    const [server] = await startRedisCluster(1);
    closing({ close: () => server!.stop() });
    const { host, port } = server!;
    const node = closing(createRedisNode({ cluster: [{ host, port }] }, { keyPrefix }));
    const driver = await NodeDriver.open(node);
    const markerName = `${keyPrefix}#marker`;
    expect((await driver.join(0, { markerName })).kind).toBe('joined');
  });

  it('is looked for with what credentials() give now, and not with the password in its options', async () => {
    const { asked, driver } = await startCluster({
      credentials: () => ({ password: 'hunter2-1' }),
    });
    expect((await driver.join()).kind).toBe('joined');
    const logins = asked.scripted.commands.filter(([name]) => name === 'auth');
    expect(new Set(logins.map(String))).toEqual(new Set(['auth,hunter2-1']));
  });

  it('keeps its locks where the slot goes to a server that has been up: that has them, too', async () => {
    const { primary, replica, give, driver } = await startCluster();
    expect((await driver.join()).kind).toBe('joined');
    give(replica);
    await primary.scripted.stop();
    await driver.untilEvents(3);
    const joined = await driver.join();
    expect(joined).toMatchObject({ kind: 'joined', server: '33333333' });
    expect(joined).not.toHaveProperty('upMs');
  });
});
