import { describe, expect, it } from '@jest/globals';
import { Command } from 'ioredis';
import { createRedisNode } from '../../lib/redis/client/create-redis-node.ts';
import { NodeDriver } from '../support/node-driver.ts';
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

describe('a cluster as one node', () => {
  const keyPrefix = '{lock}:';

  /** Servers of which the second one has the slot of the prefix, and the third one is its replica, until that is told to take over. */
  async function startCluster() {
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
    const input = { cluster: [{ host: '127.0.0.1', port: asked.port }] };
    const node = closing(createRedisNode(input, { keyPrefix }));
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
