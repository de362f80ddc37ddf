import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { LockNames, NodeFacts } from '../../lib/core/nodes/lock-node.ts';
import { createRedisNode } from '../support/clients.ts';
import { gateName } from '../../lib/redis/scripts.ts';
import { REQUIRED_COMMANDS, requiredAclRules } from '../../lib/redis/preflight.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import { joinRequest } from '../support/join-request.ts';

let server: RedisServer;
let admin: Redis;
let driver: NodeDriver;
/** Nodes of one test. */
const ownDrivers: NodeDriver[] = [];
let names: LockNames;
let tests = 0;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
  admin = new Redis(server.url);
});
beforeEach(async () => {
  tests += 1;
  names = new NodeNames('lock:', [`scripts:${tests}`]);
  driver = await NodeDriver.open(createRedisNode(server.url));
  await driver.join();
});
afterEach(async () => {
  for (const { node } of [driver, ...ownDrivers.splice(0)]) await node.close();
});
afterAll(async () => {
  admin.disconnect();
  await server.stop();
});

/** Opens another node, logged in as a user with these rules. */
async function nodeOfUser(rules: string): Promise<NodeDriver> {
  const user = `user${tests}`;
  await admin.call('acl', ['setuser', user, 'reset', 'on', '>secret', ...rules.split(' ')]);
  const url = server.url.replace('//', `//${user}:secret@`);
  const limited = await NodeDriver.open(createRedisNode(url));
  ownDrivers.push(limited);
  return limited;
}

/** Writes of scripts while `work` runs: command and key. */
async function writesDuring(work: () => Promise<void>): Promise<string[]> {
  return commandsDuring(
    work,
    ([command = ''], source) => source === 'lua' && /^(psetex|pexpire|set|del)$/i.test(command),
  );
}

/** The commands that are executed while `work` runs, each with its first argument. */
async function commandsDuring(
  work: () => Promise<void>,
  counts: (command: string[], source: string) => boolean,
): Promise<string[]> {
  const monitor = await admin.monitor();
  const seen: string[] = [];
  monitor.on('monitor', (_time: string, command: string[], source: string) => {
    const [name = '', argument = ''] = command;
    if (counts(command, source)) seen.push(`${name.toLowerCase()} ${argument.split('\n')[0]}`);
  });
  try {
    await work();
    await new Promise((resolve) => {
      monitor.on('monitor', (_time: string, [, text]: string[]) => {
        if (text === 'seen by the monitor') resolve(undefined);
      });
      void admin.echo('seen by the monitor');
    });
    return seen;
  } finally {
    monitor.disconnect();
  }
}

describe('a join', () => {
  const joinCommands = (work: () => Promise<void>) =>
    commandsDuring(work, ([name = ''], source) => source !== 'lua' && /eval|script/i.test(name));
  const JOINS = expect.stringMatching(/^eval -- JOIN/);

  it('goes by its text, and loads afterwards what the server lacks', async () => {
    await admin.script('FLUSH');
    const loads = Array<string>(5).fill('script LOAD');
    const looks = Array<unknown>(3).fill(expect.stringMatching(/^evalsha/));
    const joining = (joins: NodeDriver) => joinCommands(async () => void (await joins.join()));
    expect((await joining(driver)).slice(-9)).toEqual([...loads, ...looks, JOINS]);
    const other = await NodeDriver.open(createRedisNode(server.url));
    for (const each of [driver, other]) expect(await joining(each)).toEqual([JOINS, ...looks]);
    await other.node.close();
  });

  it('that is refused makes no server able to vote, and costs one command', async () => {
    await admin.script('FLUSH');
    const request = joinRequest({ floorRetentionMs: 1 });
    const refused = await joinCommands(async () => {
      const reply = await new Promise((settle) => driver.node.join(request, settle));
      expect(reply).toMatchObject({ kind: 'disagree' });
    });
    expect(refused).toEqual([JOINS]);
    const reply = await driver.acquire(names, 'a', ballotNow());
    expect(reply).toMatchObject({ kind: 'failed', mustJoin: true });
  });

  it('is answered only when votes are possible', async () => {
    await admin.script('FLUSH');
    const [joined, vote] = await Promise.all([
      driver.join().then(() => driver.acquire(names, 'after', ballotNow())),
      driver.acquire(names, 'before', ballotNow()),
    ]);
    expect(joined).toEqual({ kind: 'accepted' });
    expect(vote).toMatchObject({ kind: 'failed', mustJoin: true });
  });
});

describe('a server that was made a replica', () => {
  afterEach(() => admin.replicaof('NO', 'ONE'));

  it('joins nobody, although its marker is still its own until it has the data of its primary', async () => {
    await admin.replicaof('127.0.0.1', 1);
    const refused = { kind: 'failed', message: expect.stringContaining('READONLY') };
    expect(await driver.join()).toMatchObject(refused);
  });
});

describe('a server whose clock went back', () => {
  const guardMs = 600_000;
  let own: NodeNames;
  let other: NodeNames;
  let guarded: NodeDriver;
  const join = () => guarded.join(guardMs, { markerName: own.marker });
  /** Moves the end of the guard in the marker: it ends as much later as the clock went back. */
  const moveGuard = async (ms: number) => {
    const words = (await admin.get(own.marker))!.split(' ');
    await admin.set(own.marker, words.with(1, String(Number(words[1]) + ms)).join(' '));
  };

  beforeEach(async () => {
    const keyPrefix = `back:${tests}:`;
    [own, other] = [new NodeNames(keyPrefix, ['a']), new NodeNames(keyPrefix, ['b'])];
    guarded = await NodeDriver.open(createRedisNode(server.url, { keyPrefix }));
    ownDrivers.push(guarded);
    await join();
  });

  it('votes no more before a join, and then waits for its whole guard again', async () => {
    await moveGuard(guardMs);
    expect(await guarded.acquire(own, 'a', ballotNow())).toEqual({ kind: 'unjoined' });
    expect(await guarded.extend(own, 'a', ballotNow())).toEqual({ kind: 'unjoined' });
    expect(await join()).toMatchObject({ kind: 'joined', quarantineMs: guardMs });
    expect((await guarded.acquire(own, 'a', ballotNow())).kind).toBe('quarantined');
  });

  it('lets no vote through its gate while it may not vote', async () => {
    await moveGuard(-guardMs - 1);
    expect(await guarded.acquire(other, 'b', ballotNow())).toEqual({ kind: 'accepted' });
    const backMs = 60_000;
    await moveGuard(backMs);
    const name = gateName(own.marker);
    const gate = (await admin.get(name))!;
    const [low, high] = [gate.slice(0, 16), gate.slice(16, 32)].map((micros) =>
      String(Number(micros) + backMs * 1_000),
    );
    await admin.set(name, `${low}${high}${gate.slice(32)}`, 'KEEPTTL');
    expect((await guarded.acquire(own, 'a', ballotNow())).kind).toBe('quarantined');
  });
});

describe('the floor', () => {
  it('is two numbers of 16 digits, and outlives its lock by the retention', async () => {
    const ballot = ballotNow();
    await driver.acquire(names, 'a', ballot);
    await driver.release(names, 'a');
    await driver.acquire(names, 'b', ballot + 1);
    const [lock, floor] = names.pairs as [string, string];
    expect(await admin.get(floor)).toBe(`${ballot + 1} ${ballot}`);
    expect(await admin.pttl(floor)).toBeGreaterThan((await admin.pttl(lock)) + 599_000);
    await driver.release(names, 'b', { granted: false });
    expect(await admin.get(floor)).toBe(`${ballot} ${ballot}`);
    expect(await admin.pttl(floor)).toBeGreaterThan(599_000);
  });

  it('is written before the lock, and restored before the lock goes: no holder is ever without its floor', async () => {
    const [lock, floor] = names.pairs as [string, string];
    const both = new NodeNames('lock:', [`scripts:${tests}`, `scripts:${tests}:b`]);
    const gate = gateName(names.marker);
    await admin.del(gate);
    const ballot = ballotNow();
    const written = await writesDuring(async () => {
      await driver.acquire(names, 'a', ballot);
      await driver.release(names, 'a');
      await driver.acquire(both, 'b', ballot + 1);
      await driver.release(both, 'b', { granted: false });
      await driver.acquire(names, 'c', ballot + 2);
      await admin.unlink(lock, floor);
      await driver.extend(names, 'c', ballot + 2);
    });
    expect(written).toEqual([
      `set ${floor}`,
      `set ${lock}`,
      `set ${gate}`,
      `del ${lock}`,
      `set ${floor}`,
      `psetex ${lock}`,
      `set ${floor}:b`,
      `psetex ${lock}:b`,
      `set ${floor}`,
      `del ${lock}`,
      `del ${floor}:b`,
      `del ${lock}:b`,
      `set ${floor}`,
      `set ${lock}`,
      `psetex ${floor}`,
      `psetex ${lock}`,
    ]);
  });

  it('that is no number refuses, and nothing is written', async () => {
    const [lock, floor] = names.pairs as [string, string];
    await admin.set(floor, 'not a floor');
    const reply = await driver.acquire(names, 'a', ballotNow());
    expect(reply).toMatchObject({ kind: 'failed', reason: 'error' });
    expect(await admin.exists(lock)).toBe(0);
    expect(await admin.get(floor)).toBe('not a floor');
  });
});

describe("data of the user under a lock's name", () => {
  it('is never overwritten: a single lock, a set of locks and an extension leave it as it is', async () => {
    const [lock, floor] = names.pairs as [string, string];
    await admin.hset(lock, 'customer', 'ana');
    const pair = new NodeNames('lock:', ['other', lock.slice('lock:'.length)]);
    const refused = { kind: 'failed', nothingWritten: true, reason: 'error' };
    expect(await driver.acquire(names, 'a', ballotNow())).toMatchObject(refused);
    expect(await driver.acquire(pair, 'a', ballotNow())).toMatchObject(refused);
    expect(await driver.extend(names, 'a', ballotNow())).toMatchObject({ kind: 'lost' });
    expect(await admin.hgetall(lock)).toEqual({ customer: 'ana' });
    expect(await admin.exists(floor, ...pair.pairs.slice(0, 2))).toBe(0);
  });
});

describe('a server whose memory is full', () => {
  const limitMemory = (bytes: string) => admin.config('SET', 'maxmemory', bytes);
  const OOM = { kind: 'failed', nothingWritten: true, message: expect.stringContaining('OOM') };

  it('grants nothing new, but extends, also a set of keys, and forgets what was abandoned', async () => {
    const both = new NodeNames('lock:', [`scripts:${tests}:a`, `scripts:${tests}:b`]);
    const ballot = ballotNow();
    await driver.acquire(names, 'a', ballot);
    await driver.acquire(both, 'b', ballot);
    await driver.release(both, 'b');
    await driver.acquire(both, 'b', ballot + 1);
    await limitMemory('1');
    try {
      const other = new NodeNames('lock:', [`scripts:${tests}:other`]);
      expect(await driver.acquire(other, 'c', ballotNow())).toMatchObject(OOM);
      for (const [of, holder, granted] of [
        [names, 'a', ballot],
        [both, 'b', ballot + 1],
      ] as const) {
        const extended = await driver.extend(of, holder, granted, 600_000);
        expect(extended).toEqual({ kind: 'extended', recreated: 0 });
        for (const [index, name] of of.pairs.entries())
          expect(await admin.pttl(name)).toBeGreaterThan(index % 2 === 0 ? 300_000 : 900_000);
      }
      const released = await driver.release(both, 'b', { granted: false });
      expect(released).toEqual({ kind: 'released', deleted: 2 });
      expect(await admin.exists(...both.locks)).toBe(0);
      expect(await driver.release(names, 'a')).toEqual({ kind: 'released', deleted: 1 });
    } finally {
      await limitMemory('0');
    }
  });

  it('sets no missing key again, and writes nothing then', async () => {
    const both = new NodeNames('lock:', [`scripts:${tests}`, `scripts:${tests}:b`]);
    const ballot = ballotNow();
    await driver.acquire(both, 'a', ballot);
    await admin.del(both.locks[0]!);
    await limitMemory('1');
    try {
      expect(await driver.extend(both, 'a', ballot)).toMatchObject(OOM);
      expect(await admin.exists(both.locks[0]!)).toBe(0);
    } finally {
      await limitMemory('0');
    }
    expect(await driver.extend(both, 'a', ballot)).toEqual({ kind: 'extended', recreated: 1 });
  });
});

describe('a thousand keys', () => {
  it('are one atomic lock', async () => {
    const many = new NodeNames(
      'lock:',
      Array.from({ length: 1_000 }, (_, index) => `${tests}:${index}`),
    );
    const ballot = ballotNow();
    expect(await driver.acquire(many, 'a', ballot)).toEqual({ kind: 'accepted' });
    await admin.del(many.locks[500]!);
    expect(await driver.extend(many, 'a', ballot)).toEqual({ kind: 'extended', recreated: 1 });
    expect(await driver.release(many, 'a')).toEqual({ kind: 'released', deleted: 1_000 });
  });
});

describe('a user with the least rights', () => {
  it.each(REQUIRED_COMMANDS)(
    'is examined, and %s is reported when it is missing',
    async (command) => {
      const rules = requiredAclRules('lock:').replace(
        new RegExp(`\\+${command.replace('|', '\\|')}(?= |$)`),
        '',
      );
      const limited = await nodeOfUser(rules);
      const facts = await limited.examine();
      expect(facts).toMatchObject({ kind: 'facts' });
      const { missingRights, missingTurnRights = [] } = facts as NodeFacts;
      expect([...missingRights, ...missingTurnRights].join('\n').toLowerCase()).toMatch(
        new RegExp(`^${command.replace('|', '\\|')}: `, 'm'),
      );
    },
  );

  it('that reach few names release and vote although names out of reach go with them', async () => {
    const own = new NodeNames('lock:', [`orders:${tests}`]);
    const rules = requiredAclRules('lock:').replace('~lock:*', '~lock:#* ~lock:orders:*');
    const limited = await nodeOfUser(rules);
    /** Asks while another answer is due, so that the requests leave as one. */
    const together = (holder: string) => {
      limited.node.inspect({ names: own }, () => undefined);
      const ballot = ballotNow();
      const votes = [limited.acquire(own, holder, ballot), limited.acquire(names, 'b', ballot)];
      return Promise.all([limited.release(own, 'a'), ...votes]);
    };
    await limited.join();
    await limited.acquire(own, 'a', ballotNow());
    expect((await together('b'))[0]).toEqual({ kind: 'released', deleted: 1 });
    expect(await together('c')).toMatchObject([
      { deleted: 0 },
      { kind: 'accepted' },
      { kind: 'failed', nothingWritten: true },
    ]);
  });

  it('without MGET votes no more, and releases all the same when votes leave with them', async () => {
    const limited = await nodeOfUser(requiredAclRules('lock:'));
    await limited.join();
    await limited.acquire(names, 'a', ballotNow());
    await admin.call('acl', ['setuser', `user${tests}`, '-mget']);
    limited.node.inspect({ names }, () => undefined);
    const other = new NodeNames('lock:', ['other']);
    const vote = limited.acquire(other, 'b', ballotNow());
    expect(await limited.release(names, 'a')).toEqual({ kind: 'released', deleted: 1 });
    expect(await vote).toMatchObject({ kind: 'failed' });
  });
});
