import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { Socket } from 'node:net';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { isQuestion, JOINED, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import type { ScriptedReply } from '../support/scripted-redis.ts';
import { stopTimers } from '../support/stop-timers.ts';
import { useClosing } from '../support/use-redlocks.ts';

const closing = useClosing();
const SILENCE_LIMIT_MS = 60_000;
const names = new NodeNames('lock:', ['renewal']);

afterEach(() => void jest.useRealTimers());

/** A node that has joined a server, which answers its later commands with these bytes. */
async function against(answer: ScriptedReply) {
  const sockets: Socket[] = [];
  const scripted = await ScriptedRedis.start((command, socket) => {
    if (!sockets.includes(socket)) sockets.push(socket);
    if (isQuestion(command)) return ':1\r\n';
    return answer(command, socket) ?? shakeHands(command);
  });
  const node = createRedisNode(scripted.url);
  closing({ close: () => node.close().then(() => scripted.stop()) });
  const driver = await NodeDriver.open(node, { silenceLimitMs: SILENCE_LIMIT_MS });
  await driver.join();
  const count = (wanted: string) =>
    scripted.commands.filter((command) => command[0] === wanted && !isQuestion(command)).length;
  return { scripted, sockets, driver, renew: () => node.renew(), count };
}

describe('a connection that is renewed', () => {
  it('takes over when the first one has answered everything: no release overtakes its vote', async () => {
    const replies: Record<string, string[]> = { eval: [JOINED, '', JOINED], ping: ['+PONG\r\n'] };
    const stage = await against(([name]) => replies[name!]?.shift());
    const { driver, sockets, scripted, count } = stage;
    stage.renew();
    await eventually(() => expect(count('eval')).toBe(2));
    const vote = driver.acquire(names, 'holder', ballotNow());
    await eventually(() => expect(count('evalsha')).toBe(1));
    sockets[1]!.write(JOINED);
    await eventually(() => expect(count('ping')).toBe(2));
    void driver.release(names, 'holder');
    void driver.join();
    await eventually(() => expect(count('eval')).toBe(3));
    expect(count('evalsha')).toBe(1);
    sockets[0]!.write(':1\r\n+PONG\r\n');
    expect(await vote).toEqual({ kind: 'accepted' });
    await eventually(() => expect([count('evalsha'), scripted.connections]).toEqual([2, 1]));
    expect(driver.events).toEqual(['opened']);
  });

  it('writes what waits for the first one when the node is closed', async () => {
    const replies: Record<string, string[]> = { eval: [JOINED, JOINED], ping: ['+PONG\r\n'] };
    const { driver, renew, count } = await against(([name]) => replies[name!]?.shift());
    renew();
    await eventually(() => expect(count('ping')).toBe(2));
    const released = driver.release(names, 'holder');
    await driver.node.close();
    await eventually(() => expect(count('evalsha')).toBe(1));
    expect(await released).toMatchObject({ kind: 'failed', nothingWritten: false });
  });

  it('is not renewed again while it holds requests back: they would be written after those of a third one', async () => {
    let pings = 0;
    const stage = await against(([name]) => {
      if (name === 'ping') return (pings += 1) === 2 ? undefined : '+PONG\r\n';
      return name === 'eval' ? JOINED : name === 'evalsha' ? ':1\r\n' : undefined;
    });
    stage.renew();
    await eventually(() => expect(stage.count('ping')).toBe(2));
    const release = stage.driver.release(names, 'holder');
    stage.renew();
    await stage.driver.join();
    stage.sockets[0]!.write('+PONG\r\n');
    expect(await release).toEqual({ kind: 'released', deleted: 1 });
    expect(stage.sockets).toHaveLength(2);
  });

  it('is not doubted either, should it become silent while the first one still answers', async () => {
    stopTimers();
    const replies: Record<string, string[]> = { eval: [JOINED], ping: ['+PONG\r\n'] };
    const stage = await against(([name]) => replies[name!]?.shift());
    const { driver, sockets, count } = stage;
    const heard: string[] = [];
    Object.assign(driver, {
      spoke: () => heard.push('spoke'),
      stalled: () => heard.push('stalled'),
    });
    stage.renew();
    await eventually(() => expect([heard, count('eval')]).toEqual([['spoke'], 2]));
    const answers = Array.from({ length: 6 }, () => driver.inspect(names));
    await eventually(() => expect(count('eval')).toBe(8));
    sockets[1]!.write(JOINED);
    await eventually(() => expect(count('ping')).toBe(2));
    void driver.join();
    for (const answer of answers) {
      sockets[0]!.write('*4\r\n:0\r\n$1\r\n0\r\n$-1\r\n$-1\r\n');
      expect(await answer).toMatchObject({ holder: null });
      jest.advanceTimersByTime(SILENCE_LIMIT_MS / 4);
    }
    await eventually(() => expect(heard).toEqual(['spoke', 'stalled']));
    expect(sockets).toHaveLength(2);
  });

  it('is reported as lost and made again where it leads to another server', async () => {
    let joins = 0;
    const stage = await against(([name]) => {
      if (name === 'eval') return JOINED.replace('1a2b3c4d', `1a2b3c4${(joins += 1)}`);
      return name === 'ping' ? '+PONG\r\n' : undefined;
    });
    stage.renew();
    await stage.driver.untilEvents(3);
    expect(stage.driver.events).toEqual(['opened', expect.stringMatching(/^closed: /), 'opened']);
  });
});
