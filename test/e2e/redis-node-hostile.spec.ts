import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { createRedisNode } from '../support/clients.ts';
import type { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { bulk, isQuestion, JOINED, ScriptedRedis, shakeHands } from '../support/scripted-redis.ts';
import type { ScriptedReply } from '../support/scripted-redis.ts';
import { stopTimers } from '../support/stop-timers.ts';

const names = new NodeNames('lock:', ['hostile']);
let server: ScriptedRedis | undefined;
let node: RedisLockNode | undefined;

/** A node on a server that answers every script with these bytes. */
async function against(answer: ScriptedReply, silenceLimitMs?: number): Promise<NodeDriver> {
  server = await ScriptedRedis.start((command, socket) =>
    command[0]?.toLowerCase().startsWith('eval') ? answer(command, socket) : shakeHands(command),
  );
  node = createRedisNode(server.url);
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

describe('a server that answers several votes with too few replies, or too many', () => {
  it.each([1, 3])('has given none of them: %i for two', async (count) => {
    let votes = 0;
    const driver = await against((command) => {
      if (isQuestion(command)) return ':1\r\n';
      if (command[0] !== 'evalsha') return JOINED;
      return (votes += 1) === 1 ? ':1\r\n' : `*${count}\r\n${':1\r\n'.repeat(count)}`;
    });
    await driver.join();
    const replies = ['alone', 'first', 'second'].map((holder) =>
      driver.acquire(names, holder, ballotNow()),
    );
    const unknown = { kind: 'failed', nothingWritten: false, reason: 'error' };
    expect(await Promise.all(replies)).toMatchObject([{ kind: 'accepted' }, unknown, unknown]);
    expect(votes).toBe(2);
  });
});

describe('a second connection beside one that is silent', () => {
  it('does not take its place where the server shakes hands but refuses the join', async () => {
    let joins = 0;
    const driver = await against((command) => {
      if (isQuestion(command)) return ':1\r\n';
      if (command[0] === 'evalsha') return undefined;
      joins += 1;
      return joins === 1 ? JOINED : '-BUSY a script is running\r\n';
    }, 200);
    await driver.join();
    void driver.acquire(names, 'holder', ballotNow());
    await eventually(() => expect(joins).toBeGreaterThan(3));
    expect(driver.events).toEqual(['opened']);
  });
});

describe('a second connection that is being made when the first one ends', () => {
  afterEach(() => void jest.useRealTimers());

  it('ends with it, so that the next one is the only one', async () => {
    const sockets: Socket[] = [];
    server = await ScriptedRedis.start((command, socket) => {
      if (!sockets.includes(socket)) sockets.push(socket);
      return sockets.indexOf(socket) === 1 ? undefined : shakeHands(command);
    });
    node = createRedisNode(server.url);
    const driver = await NodeDriver.open(node);
    stopTimers();
    node.renew();
    await eventually(() => expect(sockets).toHaveLength(2));
    sockets[0]!.destroy();
    await driver.untilEvents(2);
    await eventually(() => expect(server!.connections).toBe(0));
    jest.advanceTimersByTime(50);
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', expect.stringMatching(/^closed: /), 'opened']);
    expect(server.connections).toBe(1);
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

  it('is given new ones each time, since another server may have received the ones before', async () => {
    const nothingLoaded = JOINED.replace('$4\r\nsalt', '$0\r\n');
    const driver = await against((command) => (isQuestion(command) ? ':1\r\n' : nothingLoaded));
    const others = createRedisNode(server!.url);
    const other = await NodeDriver.open(others);
    for (const each of [driver, other]) expect((await each.join()).kind).toBe('joined');
    await others.close();
    const votes = server!.commands
      .filter(([name, , text]) => name === 'script' && text!.startsWith('local start'))
      .map(([, , text]) => text);
    expect([votes.length, new Set(votes).size]).toEqual([6, 6]);
  });
});

describe('a server that is no primary any more', () => {
  it.each(['READONLY', 'NOREPLICAS', 'MASTERDOWN', 'MOVED 1 h:1'])(
    'is left when it answers a vote with %s: its address may lead to the new primary',
    async (word) => {
      const driver = await against((command) => {
        if (isQuestion(command)) return ':1\r\n';
        return command[0] === 'evalsha' ? `-${word} no\r\n` : JOINED;
      });
      await driver.join();
      expect(await driver.acquire(names, 'holder', ballotNow())).toMatchObject({
        kind: 'failed',
        nothingWritten: true,
      });
      await driver.untilEvents(3);
      expect(driver.events).toEqual(['opened', `closed: ${word} no`, 'opened']);
    },
  );

  it('is left as well where it is Redis 6, which says first where in the script it refused', async () => {
    const driver = await against((command) => {
      if (isQuestion(command)) return ':1\r\n';
      const at = `(call to f_${'0a'.repeat(20)}): @user_script:44: @user_script: 44: `;
      return command[0] === 'evalsha' ? `-ERR Error running script ${at}-READONLY no\r\n` : JOINED;
    });
    await driver.join();
    void driver.acquire(names, 'holder', ballotNow());
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', 'closed: READONLY no', 'opened']);
  });

  it('is not heard any more once it is left', async () => {
    const asked: Socket[] = [];
    const driver = await against((command, socket) => {
      if (isQuestion(command)) return ':1\r\n';
      if (command[0] !== 'evalsha') return JOINED;
      return asked.push(socket) === 2 ? '-READONLY no\r\n' : undefined;
    });
    await driver.join();
    Object.assign(driver, { closed: () => asked[0]!.write(':1\r\n') });
    const release = driver.release(names, 'before');
    await eventually(() => expect(asked).toHaveLength(1));
    const vote = driver.acquire(names, 'holder', ballotNow());
    expect(await release).toMatchObject({ kind: 'failed', message: 'READONLY no' });
    expect(await vote).toMatchObject({ kind: 'failed', reason: 'unreachable' });
  });
});

describe('a server that is asked which one has a slot', () => {
  it('harms nobody by an odd answer: the next one is asked, and the last one is named', async () => {
    const answers = [
      '+OK',
      ':1',
      '*1|:1',
      '*1|*0',
      '*1|*3|:0|:16383|$-1',
      '*1|*3|*0|*0|*0',
      '-ERR no',
      '*-1',
    ];
    const odd = [...answers];
    server = await ScriptedRedis.start((command) =>
      command[0] === 'cluster'
        ? `${odd.shift()!.replaceAll('|', '\r\n')}\r\n`
        : shakeHands(command),
    );
    const port = Number(new URL(server.url).port);
    const cluster = answers.map(() => ({ host: '127.0.0.1', port }));
    node = createRedisNode({ cluster }, { keyPrefix: '{lock}:' });
    const reasons: string[] = [];
    const driver = await NodeDriver.open(node, { connected: false });
    Object.assign(driver, { unreachable: (message: string) => reasons.push(message) });
    await eventually(() => expect(reasons).toHaveLength(1));
    expect(odd).toEqual([]);
    expect(reasons[0]).toContain(`127.0.0.1:${port}`);
  });
});

describe('a node whose server is no primary any more', () => {
  it('listens for turns on the one that its address leads to by now', async () => {
    const channel = 'lock:#turns:mine';
    server = await ScriptedRedis.start((command) => {
      if (isQuestion(command)) return ':1\r\n';
      if (command[0] === 'subscribe') return `*3\r\n${bulk('subscribe')}${bulk(channel)}:1\r\n`;
      if (command[0] === 'evalsha') return '-READONLY no\r\n';
      return command[0] === 'eval' ? JOINED : shakeHands(command);
    });
    node = createRedisNode(server.url);
    const driver = await NodeDriver.open(node);
    await driver.join();
    await driver.listen(channel);
    void driver.acquire(names, 'holder', ballotNow());
    await driver.untilListening(2);
    await driver.untilEvents(3);
    expect(driver.events).toEqual(['opened', 'closed: READONLY no', 'opened']);
  });
});

describe('a node that is closed while it looks for several servers behind its address', () => {
  afterEach(() => void jest.useRealTimers());

  it('leaves no connection, although none of them was answered', async () => {
    const sockets = new Set<Socket>();
    server = await ScriptedRedis.start((command, socket) => {
      sockets.add(socket);
      return sockets.size === 1 ? shakeHands(command) : undefined;
    });
    node = createRedisNode(server.url);
    const driver = await NodeDriver.open(node);
    stopTimers();
    void driver.examine();
    await eventually(() => expect(sockets.size).toBe(6));
    await node.close();
    await eventually(() => expect(server!.connections).toBe(0));
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
    node = createRedisNode(server.url);
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

describe('a server that says nothing', () => {
  const count = (wanted: string) => server!.commands.filter(([name]) => name === wanted).length;

  beforeEach(stopTimers);
  afterEach(() => void jest.useRealTimers());

  it('when it is connected is left after five seconds, with the reason, and tried again', async () => {
    server = await ScriptedRedis.start(() => undefined);
    node = createRedisNode(server.url);
    const driver = await NodeDriver.open(node, { connected: false });
    const reasons: string[] = [];
    Object.assign(driver, { unreachable: (message: string) => reasons.push(message) });
    await eventually(() => expect(count('info')).toBe(1));
    jest.advanceTimersByTime(5_000);
    // The pause before the next try.
    jest.advanceTimersByTime(50);
    await eventually(() => expect(count('info')).toBe(2));
    expect(reasons).toEqual([expect.stringContaining('did not answer')]);
  });

  it('on an idle connection is asked for life within 12.5 seconds', async () => {
    await against(() => JOINED);
    jest.advanceTimersByTime(12_500);
    await eventually(() => expect(count('ping')).toBe(1));
  });
});
