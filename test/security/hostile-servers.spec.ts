import assert from 'node:assert/strict';
import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { isRedlockError } from '../../lib/core/errors.ts';
import type { Duration } from '../../lib/core/options/duration.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { JOIN, salted } from '../../lib/redis/joining.ts';
import { BATCH } from '../../lib/redis/batch.ts';
import { ACQUIRE, EXTEND, RELEASE } from '../../lib/redis/scripts.ts';
import type { Script } from '../../lib/redis/scripts.ts';
import { createRedisNode } from '../support/clients.ts';
import { eventually } from '../support/eventually.ts';
import { NodeDriver } from '../support/node-driver.ts';
import { ScriptedRedis, bulk, isQuestion, JOINED, shakeHands } from '../support/scripted-redis.ts';
import { redisNodes, useRedlocks } from '../support/use-redlocks.ts';

/** Answers of one hostile server to each script: RESP bytes; an empty text = nothing, ever. */
interface Answers {
  readonly acquire: string;
  readonly extend: string;
  readonly release: string;
}

const ACCEPTED = ':1\r\n';

const openRedlock = useRedlocks();
const servers: ScriptedRedis[] = [];

afterEach(() => Promise.all(servers.splice(0).map((server) => server.stop())));

async function serverThat(answers: Answers, place = 0): Promise<ScriptedRedis> {
  // Each is a server of its own: two with one run id would be one.
  const start = `1a2b3c4${place}`;
  const known = (script: Script) => salted(script, start, 'salt').sha1;
  const byScript = new Map([
    [known(ACQUIRE), answers.acquire],
    [known(EXTEND), answers.extend],
    [RELEASE.sha1, answers.release],
    [JOIN.text, JOINED.replace('1a2b3c4d', start)],
  ]);
  const server = await ScriptedRedis.start((command) => {
    const [name = '', script = '', keyCount, ...values] = command;
    if (!/^eval/i.test(name)) return shakeHands(command);
    if (isQuestion(command)) return ':1\r\n';
    if (script !== known(BATCH)) return byScript.get(script) ?? '';
    // A letter, and three values.
    const requests = values.slice(Number(keyCount)).filter((_, index) => index % 4 === 0);
    const { acquire: a, extend: e, release: r } = answers;
    const replies = requests.map(([letter]) => ({ a, e, r })[letter as 'a' | 'e' | 'r']);
    return `*${replies.length}\r\n${replies.join('')}`;
  });
  servers.push(server);
  return server;
}

async function serviceOver(all: readonly Answers[], nodeTimeout: Duration): Promise<Redlock> {
  const nodes = await Promise.all(all.map(serverThat));
  return openRedlock(redisNodes(nodes), { ttl: '1h', nodeTimeout, wait: 0 });
}

const integer = fc
  .oneof(fc.constantFrom(0, 1, 2, -1, -2, -3, -4, 1e15, 2 ** 53), fc.integer())
  .map((value) => `:${value}\r\n`);
const text = fc
  .oneof(
    fc.constantFrom('1', 'OK', '', '0000000000000001', '__proto__'),
    fc.string({ maxLength: 30 }),
  )
  .map(bulk);
const scalar = fc.oneof(integer, text, fc.constantFrom('$-1\r\n', '*-1\r\n', '+OK\r\n', '*0\r\n'));
const array = fc
  .array(
    fc.oneof(
      scalar,
      scalar.map((inner) => `*1\r\n${inner}`),
    ),
    { maxLength: 6 },
  )
  .map((items) => `*${items.length}\r\n${items.join('')}`);
/** Replies that never end, break the protocol, or are larger than any honest one (below what slows ioredis down). */
const rude = fc.constantFrom(
  '',
  '$1000000000\r\nxxxx',
  '*1000000\r\n:1\r\n',
  ':',
  '?what\r\n',
  ':abc\r\n',
  '$-5\r\n',
  `*5000\r\n${':1\r\n'.repeat(5_000)}`,
  bulk('x'.repeat(20_000)),
  `${'*1\r\n'.repeat(200)}:1\r\n`,
  '-ERR no\r\n',
  '-NOSCRIPT No matching script\r\n',
  '-LOADING\r\n',
  '-\r\n',
  '+PONG\r\n+PONG\r\n',
);
// Half of the answers are a yes, so that quorums are as frequent as their absence.
const reply = fc.oneof({ arbitrary: fc.constant(ACCEPTED), weight: 3 }, scalar, array, rude);
// An answer that ends in the frame of the next one turns the elements of that into answers, and a second answer to one question is
// taken for that to the next: a yes among them is one that the server has said. No vote follows an extension.
const whole = reply.filter((bytes) => bytes !== ':' && bytes !== '+PONG\r\n+PONG\r\n');
const answers: fc.Arbitrary<Answers> = fc.record({ acquire: whole, extend: reply, release: whole });

/** A typed error with a message that people can read. */
function assertOurs(error: unknown): void {
  assert.ok(isRedlockError(error), String(error));
  assert.ok(error.message.length < 4_000);
}

describe('three servers that answer anything', () => {
  it('three servers that answer anything give a lock only if two of them said exactly 1, and every failure is a typed error', async () => {
    let granted = 0;
    await fc.assert(
      fc.asyncProperty(fc.tuple(answers, answers, answers), async (all) => {
        const redlock = await serviceOver(all, 50);
        const yes = all.filter(({ acquire }) => acquire === ACCEPTED).length;
        const lock = await redlock.tryAcquire('a').catch((error: unknown) => {
          assertOurs(error);
          return null;
        });
        if (lock !== null) {
          granted += 1;
          assert.ok(yes >= 2, 'granted without a quorum');
          await lock.extend().catch(assertOurs);
          await lock.release();
          assert.equal(lock.isHeld, false);
        }
        await redlock.inspect('a').catch(assertOurs);
        await redlock.close();
      }),
      // The servers of all runs are stopped at the end.
      { seed: 42, numRuns: 40, endOnFailure: true },
    );
    expect(granted).toBeGreaterThan(0);
  });
});

describe('one hostile server of three', () => {
  it.each([
    ['nothing', ''],
    ['a reply that never ends', '$1000000000\r\nxxxx'],
    ['what breaks the protocol', '?what\r\n'],
    ['null', '$-1\r\n'],
  ])(
    'one of three servers that sends %s changes nothing: locks, extensions and releases work',
    async (_, rubbish) => {
      const honest = { acquire: ACCEPTED, extend: '*2\r\n:1\r\n:0\r\n', release: ':1\r\n' };
      const hostile = { acquire: rubbish, extend: rubbish, release: rubbish };
      // Two answers decide, however long they take.
      const redlock = await serviceOver([honest, hostile, honest], '10m');
      for (let round = 0; round < 3; round += 1) {
        const lock = await redlock.acquire('a', { wait: '1h' });
        await lock.extend();
        expect(lock.isHeld).toBe(true);
        await lock.release();
      }
    },
  );
});

describe('a server that breaks the rules of subscriptions', () => {
  const SUBSCRIBED = `*3\r\n${bulk('subscribe')}${bulk('lock:a')}:1\r\n`;

  // node-redis takes any answer to SUBSCRIBE for a yes. Who waits finds its turn when it asks again.
  const instead = [
    ['says a number instead', ':1\r\n'],
    ['says null instead', '$-1\r\n'],
    ['confirms what was not asked for', `*3\r\n${bulk('unsubscribe')}${bulk('lock:a')}:0\r\n`],
  ] as const;

  // Jest fails a test during which something is thrown outside of it.
  it.each([
    ...(process.env['CLIENT'] === 'node-redis' ? [] : instead),
    ['says OK and null in one piece', '+OK\r\n$-1\r\n'],
    ['says null three times in one piece', '$-1\r\n*-1\r\n$-1\r\n'],
    ['says a number and the null of RESP3 in one piece', ':1\r\n_\r\n'],
    ['sends nothing in an array', `${SUBSCRIBED}*0\r\n`],
    ['sends null in an array', `${SUBSCRIBED}*1\r\n$-1\r\n`],
    ['sends null', `${SUBSCRIBED}$-1\r\n`],
    ['sends a message without a channel', `${SUBSCRIBED}*2\r\n${bulk('message')}$-1\r\n`],
  ])('a server that %s loses the connection, and nothing else happens', async (_, rubbish) => {
    let subscriptions = 0;
    const server = await ScriptedRedis.start((command) => {
      if (!/^subscribe$/i.test(command[0]!)) return shakeHands(command);
      subscriptions += 1;
      return subscriptions === 1 ? rubbish : SUBSCRIBED;
    });
    servers.push(server);
    const driver = await NodeDriver.open(createRedisNode(server.url));
    driver.node.listen('lock:a');
    await eventually(() => expect(subscriptions).toBe(2));
    await driver.untilListening(1);
    expect(driver.events).toEqual(['opened']);
    await driver.node.close();
  });

  // Several in one piece: the rest is read although the connection was given up.
  it.each(['$-1\r\n', '*-1\r\n', ':1\r\n', '+OK\r\n$-1\r\n', ':1\r\n-ERR\r\n$-1\r\n'])(
    'a server that sends %j unasked loses the connection for commands, and nothing else happens',
    async (rubbish) => {
      const server = await ScriptedRedis.start((command, socket) => {
        if (!/^info$/i.test(command[0]!)) return '+PONG\r\n';
        setTimeout(() => socket.write(rubbish), 10);
        return shakeHands(command);
      });
      servers.push(server);
      const driver = await NodeDriver.open(createRedisNode(server.url));
      await driver.untilEvents(3);
      expect(driver.events[1]).toBe('closed: the server sent a reply to no request');
      await driver.node.close();
    },
  );
});
