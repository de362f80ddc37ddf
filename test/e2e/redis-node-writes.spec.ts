import { AsyncLocalStorage } from 'node:async_hooks';
import type { Socket } from 'node:net';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  jest,
} from '@jest/globals';
import { Redis, type Command } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import type { AcquireRequest } from '../../lib/core/nodes/lock-node.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver, ballotNow } from '../support/node-driver.ts';
import { startRedisServers } from '../support/redis-servers/index.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';

let tests = 0;
let server: RedisServer;
let templates: Redis[] = [];
let driver: NodeDriver;

beforeAll(async () => {
  [server] = (await startRedisServers(1)) as [RedisServer];
});
beforeEach(() => {
  tests += 1;
});
afterEach(async () => {
  await driver.node.close();
  for (const template of templates.splice(0)) template.disconnect();
});
afterAll(() => server.stop());

/** A node on a client of this copy of ioredis, which joined; and the clients that it made. */
async function joined(Client: typeof Redis): Promise<Redis[]> {
  const template = new Client(server.url, { lazyConnect: true });
  templates.push(template);
  const made: Redis[] = [];
  const duplicate = template.duplicate.bind(template);
  template.duplicate = (override) => {
    made.push(duplicate(override));
    return made.at(-1)!;
  };
  driver = await NodeDriver.open(createRedisNode(template));
  expect((await driver.join()).kind).toBe('joined');
  // One is only made to see whether it would connect.
  return made.filter(({ status }) => status !== 'wait');
}

/** Records every `write` of the socket from now on. */
function writesOf(client: Redis | undefined): unknown[] {
  const { stream } = client as unknown as { readonly stream: Socket };
  const writes: unknown[] = [];
  const write = stream.write.bind(stream) as (text: string) => boolean;
  stream.write = ((text: string) => {
    writes.push(text);
    return write(text);
  }) as typeof stream.write;
  return writes;
}

function voteFor(...keys: string[]): AcquireRequest {
  const names = new NodeNames(
    'lock:',
    keys.map((key) => `writes:${tests}:${key}`),
  );
  return { names, holder: `holder of ${keys[0]}`, ballot: ballotNow(), ttlMs: 60_000 };
}

function commandsIn(text: unknown): number {
  return String(text).split('evalsha').length - 1;
}

function votesIn(text: unknown): number {
  return String(text).split('holder of ').length - 1;
}

/** Three votes in one turn. */
async function threeVotes(): Promise<unknown[]> {
  return Promise.all(
    ['a', 'b', 'c'].map((key) => {
      const { names, holder, ballot } = voteFor(key);
      return driver.acquire(names, holder, ballot);
    }),
  );
}

interface TracedPrototype {
  sendCommand: (
    command: { name: string; resolve: (reply: unknown) => void; reject: (error: unknown) => void },
    stream: unknown,
  ) => unknown;
}

const ACCEPTED = Array(3).fill({ kind: 'accepted' });

/** ioredis once more, as an application has it that installed another version than this package. */
async function anotherCopy(): Promise<{ Redis: typeof Redis; Command: typeof Command }> {
  let copy: { Redis: typeof Redis; Command: typeof Command } | undefined;
  await jest.isolateModulesAsync(async () => {
    copy = await import('ioredis');
  });
  return copy!;
}

describe('commands', () => {
  it('go out at once while no answer is due; what is given meanwhile is one command', async () => {
    const writes = writesOf((await joined(Redis))[0]);
    const votes = ['a', 'b', 'c', 'd'].map((key) => voteFor(key));
    const settled: unknown[] = [];
    for (const vote of votes) driver.node.acquire(vote, (reply) => settled.push(reply));
    expect(writes.map(commandsIn)).toEqual([1]);
    driver.node.flush();
    driver.node.flush();
    expect(writes.map(commandsIn)).toEqual([1, 1]);
    expect(writes.map(votesIn)).toEqual([1, 3]);
    await driver.inspect(votes[0]!.names);
    expect(settled).toEqual(Array(4).fill({ kind: 'accepted' }));
  });

  it('for more than 128 names are several, so that none keeps the server from the others for long', async () => {
    const writes = writesOf((await joined(Redis))[0]);
    // Each key has two names.
    const keys = Array.from({ length: 32 }, (_, index) => `key ${index} of`);
    const [first, ...sets] = [['alone'], keys, keys, keys, [...keys, ...keys, 'one more']].map(
      (each, index) => voteFor(...each.map((key) => `${key} ${index}`)),
    );
    const settled: unknown[] = [];
    for (const vote of [first!, ...sets]) driver.node.acquire(vote, (reply) => settled.push(reply));
    driver.node.flush();
    await driver.inspect(first!.names);
    // One that has more by itself goes alone.
    expect(writes.filter(commandsIn).map(votesIn)).toEqual([1, 2, 1, 1]);
    expect(settled).toEqual(Array(5).fill({ kind: 'accepted' }));
  });

  it('of another copy of ioredis are written in the same way', async () => {
    const { Redis: Other } = await anotherCopy();
    expect(Other).not.toBe(Redis);
    const made = await joined(Other);
    const writes = writesOf(made[0]);
    expect(await threeVotes()).toEqual(ACCEPTED);
    expect(writes.map(commandsIn)).toEqual([1, 1]);
    expect(writes.map(votesIn)).toEqual([1, 2]);
  });

  it('are settled also when a tracer takes them apart', async () => {
    const { Redis: Other } = await anotherCopy();
    const prototype = Other.prototype as unknown as TracedPrototype;
    const { sendCommand } = prototype;
    const traced: string[] = [];
    // The instrumentation of OpenTelemetry does it in this way.
    prototype.sendCommand = function (command, stream) {
      const { resolve, reject } = command;
      traced.push(command.name);
      command.resolve = (reply) => resolve(reply);
      command.reject = (error) => reject(error);
      return sendCommand.call(this, command, stream);
    };
    await joined(Other);
    expect(await threeVotes()).toEqual(ACCEPTED);
    await driver.node.close();
    // Three of the join, and of the votes one alone and two as one.
    expect(traced.filter((name) => name === 'evalsha')).toHaveLength(5);
  });

  it('are answered also when a tracer throws over the one before them, whose outcome is unknown', async () => {
    const { Redis: Other } = await anotherCopy();
    const prototype = Other.prototype as unknown as TracedPrototype;
    const { sendCommand } = prototype;
    await joined(Other);
    prototype.sendCommand = () => {
      prototype.sendCommand = sendCommand;
      throw new Error('a fault of the tracer');
    };
    const unknown = { kind: 'failed', nothingWritten: false, reason: 'unreachable' };
    const [first, ...others] = await threeVotes();
    expect(first).toMatchObject(unknown);
    expect(others).toEqual(ACCEPTED.slice(1));
  });

  it('are answered also when a tracer throws over a subscription, without which turns are found by asking', async () => {
    const { Redis: Other } = await anotherCopy();
    const prototype = Other.prototype as unknown as TracedPrototype;
    const { sendCommand } = prototype;
    let thrown = 0;
    await joined(Other);
    prototype.sendCommand = function (command, stream) {
      if (command.name !== 'subscribe') return sendCommand.call(this, command, stream);
      thrown += 1;
      throw new Error('a fault of the tracer');
    };
    driver.node.listen(`lock:#turns:${tests}`);
    await eventually(() => expect(thrown).toBe(1));
    expect(await threeVotes()).toEqual(ACCEPTED);
  });
});

describe('whatever a node calls', () => {
  it('runs outside of the context of the request that happened to ask first', async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: [what: string, store: string | undefined][] = [];
    const note = (what: string) => () => void seen.push([what, context.getStore()]);
    const vote = voteFor('a');
    const node = createRedisNode(server.url);
    driver = await context.run('first request', () => NodeDriver.open(node));
    driver.turn = note('turn');
    driver.listening = note('listening');
    driver.closed = note('closed');
    await driver.join();
    context.run('second request', () => {
      node.listen('lock:#turns:service1');
      node.acquire(vote, note('vote'));
      node.release({ ...vote, granted: true, pass: true }, note('release'));
      node.flush();
    });
    const admin = new Redis(server.url);
    try {
      await eventually(() => expect(seen).toHaveLength(3));
      await admin.publish('lock:#turns:service1', '0 lock:a');
      await eventually(() => expect(seen).toHaveLength(4));
      await admin.call('client', ['kill', 'type', 'normal', 'skipme', 'yes']);
      await eventually(() => expect(seen).toHaveLength(5));
    } finally {
      admin.disconnect();
    }
    expect(new Set(seen.map(([what]) => what))).toEqual(
      new Set(['listening', 'turn', 'vote', 'release', 'closed']),
    );
    expect(seen.filter(([, store]) => store !== undefined)).toEqual([]);
  });
});
