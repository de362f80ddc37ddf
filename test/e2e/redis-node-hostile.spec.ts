import { afterEach, describe, expect, it } from '@jest/globals';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { isQuestion, JOINED, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';

const names = new NodeNames('lock:', ['hostile']);
let server: ScriptedRedis | undefined;
let node: RedisLockNode | undefined;

/** A node on a server that answers every script with these bytes. */
async function against(
  answer: (command: readonly string[]) => string | undefined,
  silenceLimitMs?: number,
): Promise<NodeDriver> {
  server = await ScriptedRedis.start((command) =>
    command[0]?.toLowerCase().startsWith('eval') ? answer(command) : shakeHands(command),
  );
  node = new RedisLockNode(server.url);
  return NodeDriver.open(node, { silenceLimitMs });
}

afterEach(async () => {
  await node?.close();
  await server?.stop();
});

describe('a server that answers what no script returns', () => {
  it('is given up when its reply never ends, and a second connection is answered', async () => {
    const driver = await against((command) => {
      if (isQuestion(command)) return ':1\r\n';
      return command[0] === 'evalsha' ? `$1000000000\r\n${'x'.repeat(1_000)}` : JOINED;
    }, 200);
    const reply = driver.acquire(names, 'holder', ballotNow());
    expect(await reply).toMatchObject({ kind: 'failed', nothingWritten: false });
    await driver.untilEvents(3);
    expect(driver.events[1]).toContain('given up');
    expect(driver.settled).toBe(1);
  });
});

describe('a server that knows no voting scripts any more', () => {
  it('is joined again before it is asked for others: it may be another one, and come back', async () => {
    let asked = 0;
    const answered: string[] = [];
    const driver = await against((command) => {
      if (!isQuestion(command)) {
        answered.push(command[0]!);
        return JOINED.replace('salt', answered.length === 1 ? 'salt' : 'next');
      }
      if (answered.at(-1) !== 'asked') answered.push('asked');
      // The three of the first join are known, those of the second are not.
      return (asked += 1) > 3 && asked <= 6 ? '-NOSCRIPT\r\n' : ':1\r\n';
    });
    expect(await driver.join()).toMatchObject({ kind: 'joined' });
    expect(await driver.join()).toMatchObject({ kind: 'joined' });
    expect(answered).toEqual(['eval', 'asked', 'eval', 'asked', 'eval', 'asked']);
  });
});

describe('a server that accepts and closes', () => {
  it('is tried with growing pauses, without an event and without a crash', async () => {
    let times = 0;
    server = await ScriptedRedis.start((_, socket) => {
      times += 1;
      socket.destroy();
      return undefined;
    });
    node = new RedisLockNode(server.url);
    const driver = await NodeDriver.open(node, { connected: false });
    await eventually(() => expect(times).toBeGreaterThan(3));
    expect(driver.events).toEqual([]);
    expect(await driver.release(names, 'holder')).toMatchObject({
      kind: 'failed',
      nothingWritten: true,
      reason: 'unreachable',
    });
  });
});
