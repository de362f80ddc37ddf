import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService, RedlockModule } from '../../lib/index.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, closeLater, silentLogger, startModule } from '../nest/support/applications.ts';

@Injectable()
class Seats {
  runs = 0;

  @Fenced((...parts: unknown[]) => `seat:${parts.join('/')}`)
  async book(...parts: unknown[]): Promise<string> {
    this.runs += 1;
    return `booked ${parts.length}`;
  }
}

afterEach(closeAll);

const boot = (options: object) =>
  start(RedlockModule.forRoot({ nodes: createMemoryNodes(1), ...options }));

async function start(module: ReturnType<typeof RedlockModule.forRoot>): Promise<unknown> {
  const building = Test.createTestingModule({ imports: [module] }).setLogger(silentLogger);
  return closeLater(await (await building.compile()).init());
}

describe('options of the module', () => {
  it.each([
    [{ TTL: '1s' }, "'TTL' can't be given: it is unknown; RedlockModule"],
    [{ retryCount: 5 }, 'it is unknown; '],
    [{ timeout: 3 }, 'it is unknown; '],
    [{ servers: ['redis://one'] }, 'it is unknown; '],
    [{ duration: 3 }, 'it is unknown; '],
    [{ prefix: 'a' }, 'it is unknown; '],
    [{ useFactory: () => ({}) }, "'useFactory' can't be given here: forRoot takes the options"],
    [{ isolated: true }, "'isolated' can't be given: it is unknown; RedlockModule"],
    [
      { nodes: [{ url: 'redis://:secret@one' }] },
      "'nodes[0]' can't be an object without a host: each is a URL",
    ],
    [
      { nodes: [{ socket: { host: 'one' } }] },
      "'nodes[0]' can't be an object without a host: each is a URL",
    ],
    [{ nodes: [['redis://one']] }, "'nodes[0]' can't be an array: each is a URL"],
    [{ nodes: [{ host: undefined }] }, "'nodes[0]' can't be an object without a host"],
    [{ nodes: [{ host: 'redis://:secret@one' }] }, "'nodes[0]' can't be a node with a wrong host"],
    [{ nodes: ['redis://one', { redisUrl: 'secret' }] }, "'nodes[1]' can't be an object without a"],
    [{ nodes: ['redis://'] }, "'nodes[0]' can't be this URL: give redis:"],
    [{ startupTimout: 3 }, 'it is unknown; '],
    [{ retry: { delay: 5 } }, "'retry.delay' can't be given: it is unknown; retry takes baseDelay"],
    [{ retry: 5 }, "'retry' can't be a number: give an object: retry takes baseDelay, maxDelay"],
    [{ strict: 'yes' }, "'strict' can't be \"yes\": use true or false"],
    [{ isInTransaction: true }, "'isInTransaction' can't be true: give a function"],
    [{ fence: {} }, "'fence' can't be an object: give one such as postgresFence(pool)"],
    [{ nodes: 'redis://:secret@one' }, "'nodes' can't be a string: give an array"],
    [{ nodes: undefined }, "'nodes' can't be undefined: give an array"],
    [{ nodes: [] }, "'nodes' can't be an empty array"],
    [{ startupTimeout: 0 }, "'startupTimeout' can't be 0"],
    [{ shutdownTimeout: 'never' }, "'shutdownTimeout' can't be \"never\""],
    [{ ttl: 0 }, "'ttl' can't be 0"],
    [{ ttl: null }, "'ttl' can't be null: give a value, or leave it out"],
    [{ waitForVotes: null }, "'waitForVotes' can't be null: give a value, or leave it out"],
    [{ nodes: null }, "'nodes' can't be null: give an array"],
    [{ ttl: 10 }, "'ttl' can't be 10: give milliseconds"],
    [{ quorum: 2 }, "'quorum' can't be 2: give 1, the only possible value"],
    [{ quorum: 1, nodes: createMemoryNodes(2) }, "'quorum' can't be 1: give 2, the only possible"],
    [{ waitForVotes: 'no' }, "'waitForVotes' can't be \"no\": use true or false"],
    [{ keyPrefix: Symbol('lock'), nodes: ['redis://one'] }, "'keyPrefix' can't be a symbol"],
    [{ onEvent: 'log' }, "'onEvent' can't be \"log\": give a function"],
    [{ nodes: ['redis://one', undefined] }, "'nodes[1]' can't be undefined: each is a URL"],
    [
      { nodes: ['redis://:secret@a:1,redis://b:2'] },
      "'nodes[0]' can't be this URL: give redis://user:password@host:port/db (or rediss://) of one server",
    ],
  ])('are refused when the application starts: %j', async (options, message) => {
    await expect(boot(options)).rejects.toMatchObject({ code: 'REDLOCK_CONFIG' });
    await expect(boot(options)).rejects.toThrow(message);
  });

  it.each<[object, string]>([
    [{ nodes: createMemoryNodes(1) }, "'nodes' can't be given here: return it from useFactory"],
    [
      { useFactory: () => ({}), ttl: '5s' },
      "'ttl' can't be given here: return it from useFactory, as in forRootAsync({ useFactory: () => ({ ttl: … }) }).",
    ],
    [
      { useFactory: () => ({}), useClass: Seats },
      "'useClass' can't be given beside useFactory: give one of",
    ],
    [{ useFactory: null }, "'useFactory' can't be undefined: give one of useFactory, useClass"],
    [{ useFactory: { nodes: [] } }, "'useFactory' can't be an object: give a function that return"],
    [{ useClass: 'Settings' }, "'useClass' can't be a string: give the class"],
    [{ useFactory: () => ({}), isGlobal: 'no' }, "'isGlobal' can't be \"no\": use true or false"],
    [{ factory: () => ({}) }, "'factory' can't be given: it is unknown; forRootAsync takes use"],
    [{ useFactry: () => ({}) }, 'it is unknown; '],
    [{ useFactory: () => ({}), global: false }, 'unknown; forRootAsync'],
    [{}, "'useFactory' can't be undefined: give one of useFactory, useClass and useExisting"],
  ])('are refused by forRootAsync that says what it takes: %j', (options, message) => {
    expect(() => RedlockModule.forRootAsync(options)).toThrow(message);
  });

  it('are refused with isGlobal among those that there are, where global was meant', async () => {
    const message =
      /'global' can't be given: it is unknown; RedlockModule \(forRoot, or the factory of forRootAsync\) takes nodes, .*, isGlobal\.$/;
    await expect(boot({ global: false })).rejects.toThrow(message);
    expect(() => RedlockModule.forRoot([] as never)).toThrow(
      /forRoot takes nodes, .*, isGlobal\.$/,
    );
  });

  it('are refused by forRoot at once where isGlobal is neither true nor false', () => {
    expect(() => RedlockModule.forRoot({ nodes: [], isGlobal: 'no' as never })).toThrow(
      `'isGlobal' can't be "no": use true or false`,
    );
  });

  it('are refused by forRoot at once where they are a URL or a list', () => {
    expect(() => RedlockModule.forRoot('redis://one' as never)).toThrow(
      "'options' can't be a string: give an object: forRoot takes nodes, ttl",
    );
    expect(() => RedlockModule.forRoot(['redis://one'] as never)).toThrow(
      "'options' can't be an array: give an object: forRoot takes nodes, ttl",
    );
  });

  it('are not isGlobal in what the factory returns: it belongs beside it', async () => {
    const made = { nodes: createMemoryNodes(1), isGlobal: false };
    const module = RedlockModule.forRootAsync({ useFactory: () => made as never });
    await expect(start(module)).rejects.toThrow(
      "'isGlobal' can't be given here: put it beside useFactory, not into what",
    );
  });

  it('are asked of the class that makes them, by its name', async () => {
    @Injectable()
    class Settings {}
    @Module({ providers: [Settings], exports: [Settings] })
    class SettingsModule {}
    const made = { useClass: Settings as never };
    await expect(start(RedlockModule.forRootAsync(made))).rejects.toThrow(
      "'useClass' can't be Settings: it needs a method createRedlockOptions() that returns the opt",
    );
    const found = { imports: [SettingsModule], useExisting: Settings as never };
    await expect(start(RedlockModule.forRootAsync(found))).rejects.toThrow(
      "'useExisting' can't be Settings: it needs a method createRedlockOptions()",
    );
  });

  it('name forRootAsync, where its factory asks for what it did not import', async () => {
    class Settings {}
    const made = { useFactory: () => ({ nodes: [] }), inject: [Settings] };
    await expect(start(RedlockModule.forRootAsync(made))).rejects.toThrow(
      /Symbol\(nestjs-fenced-lock\/module-options: .*forRootAsync.* imports: \[the module that exports what it injects\]/,
    );
    @Module({ imports: [RedlockModule] })
    class Bare {}
    const bare = Test.createTestingModule({ imports: [Bare] }).setLogger(silentLogger);
    await expect(bare.compile()).rejects.toThrow(/import RedlockModule\.forRoot\({ nodes }\)/);
  });

  it('are refused without their value, which may be a password', async () => {
    await expect(boot({ pasword: 'secret' })).rejects.toMatchObject({ value: undefined });
    await expect(boot({ pasword: 'secret' })).rejects.not.toThrow('secret');
  });

  it('are asked for where forRoot, or the factory of forRootAsync, gives none', async () => {
    const module = RedlockModule.forRootAsync({ useFactory: () => undefined as never });
    await expect(start(module)).rejects.toThrow(/RedlockModule \(forRoot, or .* takes nodes, ttl/);
    await expect(start(RedlockModule.forRoot(undefined as never))).rejects.toThrow("'nodes' can't");
    const list = RedlockModule.forRootAsync({ useFactory: () => ['redis://one'] as never });
    await expect(start(list)).rejects.toThrow("'options' can't be an array: give an object");
  });

  it('are all accepted that docs/options.md lists', async () => {
    const [, table = ''] = readFileSync('docs/options.md', 'utf8').split('\n## Module options');
    const rows = table
      .split('\n## ')[0]!
      .matchAll(/^(?:\| |.* also take )`([a-zA-Z]+)(?:\.\w+)?`/gm);
    const names = new Set([...rows].map(([, name]) => name!));
    const refused = await boot({ none: 1 }).catch((error: Error) => error.message);
    const [, known] = /takes (.*)\.$/.exec(String(refused))!;
    expect(known!.split(', ').sort()).toEqual([...names].sort());
  });
});

it('a server that was not reached yet is said to be that, once', async () => {
  const node = new RedisLockNode('redis://127.0.0.1:1');
  const reply = await new Promise((resolve) => node.examine(resolve));
  expect(reply).toMatchObject({ message: 'no connection: not connected yet' });
});

describe('a call', () => {
  const config = 'REDLOCK_CONFIG';

  it.each<[string, string, string, (locks: any) => Promise<unknown>]>([
    ['an unknown option', config, 'it is unknown; ', (locks) => locks.acquire('a', { timeout: 5 })],
    ['a wrong case', config, 'it is unknown; ', (locks) => locks.withLock('a', run, { TTL: 5 })],
    [
      'an option of withLock',
      config,
      "'onLost' can't be given: it is unknown; acquire takes ttl, wait, extend, minHold, signal.",
      (locks) => locks.acquire('a', { onLost: 'ignore' }),
    ],
    [
      'frozen options that withLock has taken',
      config,
      "'onLost' can't be given",
      async (locks) => {
        const options = Object.freeze({ onLost: 'ignore' });
        await locks.withLock('a', () => undefined, options);
        return locks.acquire('a', options);
      },
    ],
    [
      'a claim',
      config,
      "'claim' can't be given",
      (locks) => locks.tryAcquire('a', { claim: true }),
    ],
    [
      'a slip of withLock',
      config,
      "'clam' can't be given: it is unknown; withLock takes ttl, wait, extend, minHold, signal, onLost, release, nested, claim.",
      (locks) => locks.withLock('a', run, { clam: true }),
    ],
    [
      'a slip beside a claim',
      config,
      'it is unknown; withLock takes ttl, wait, extend, minHold, signal, onLost, release, nested, claim.',
      (locks) => locks.withLock('a', run, { claim: false, wiat: 5 }),
    ],
    ['a number', config, "can't be a number", (locks) => locks.acquire('a', 5000)],
    ['a number', config, "can't be a number", (locks) => locks.tryAcquire('a', 5000)],
    ['an array', config, 'give an object', (locks) => locks.tryAcquire('a', [])],
    ['a controller', config, 'signal', (locks) => locks.acquire('a', { signal: controller })],
    ['a null signal', config, 'signal', (locks) => locks.acquire('a', { signal: null })],
    ['options first', 'FENCED_USAGE', 'not an object', (locks) => locks.withLock('a', {}, run)],
    ['no work', 'FENCED_USAGE', 'not undefined', (locks) => locks.withLock('a')],
  ])('with %s is refused before anything is locked', async (_what, code, text, call) => {
    const { locks } = await startSeats();
    await expect(call(locks)).rejects.toMatchObject({ code });
    await expect(call(locks)).rejects.toThrow(text);
    await using free = await locks.tryAcquire('a');
    expect(free).not.toBeNull();
  });

  const run = () => 'done';
  const controller = new AbortController();

  const unbound =
    'A method of LockService was called without its service: call locks.withLock(…), not';

  it.each<[string, (methods: any) => Promise<unknown>]>([
    ['withLock', ({ withLock }) => withLock('a', run)],
    ['acquire', ({ acquire }) => acquire('a')],
    ['tryAcquire', ({ tryAcquire }) => tryAcquire('a')],
    ['inspect', ({ inspect }) => inspect('a')],
    ['ready', ({ ready }) => ready(0)],
  ])('of %s without its service is a promise that says how to call it', async (_name, call) => {
    const { locks } = await startSeats();
    const refused = call(locks);
    await expect(refused).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    await expect(call(locks)).rejects.toThrow(unbound);
  });

  it('of current or holds without its service says how to call it', async () => {
    const { current, holds } = (await startSeats()).locks as { [name: string]: any };
    expect(() => current()).toThrow(unbound);
    expect(() => holds('a')).toThrow(unbound);
  });

  const wraps: [string, (locks: LockService) => LockService][] = [
    ['a proxy', (locks) => new Proxy(locks, {})],
    ['an object that inherits from it', (locks) => Object.create(locks) as LockService],
  ];

  it.each(wraps)('works through %s', async (_what, wrap) => {
    const module = await startModule({}, { fence: { claim: async () => undefined } });
    const locks = wrap(module.get(LockService));
    const inside = () => [locks.holds('a'), locks.current()?.keys];
    for (const options of [{}, { claim: true }, { claim: false }])
      expect(await locks.withLock('a', inside, options)).toEqual([true, ['a']]);
    await using acquired = await locks.acquire('b');
    await using tried = await locks.tryAcquire('c');
    expect([acquired.isHeld, tried?.isHeld, await locks.ready(0)]).toEqual([true, true, true]);
    expect(await locks.inspect('a')).toMatchObject({ holder: null });
  });

  it.each<[string, (locks: LockService) => Promise<unknown>]>([
    ['withLock', (locks) => locks.withLock(revoked(), run)],
    ['withLock with options', (locks) => locks.withLock('a', run, revoked())],
    ['acquire', (locks) => locks.acquire(revoked())],
    ['tryAcquire', (locks) => locks.tryAcquire('a', revoked())],
    ['inspect', (locks) => locks.inspect(revoked())],
  ])('of %s answers with a promise, whatever it is given', async (_name, call) => {
    const { locks } = await startSeats();
    await expect(call(locks)).rejects.toThrow(TypeError);
  });

  /** An object that throws whatever is asked of it. */
  function revoked(): any {
    const { proxy, revoke } = Proxy.revocable([], {});
    revoke();
    return proxy;
  }

  it('takes null for its options like none', async () => {
    const { locks } = await startSeats();
    await expect(locks.withLock('a', run, null as never)).resolves.toBe('done');
    await using tried = await locks.tryAcquire('a', null as never);
    await using acquired = await locks.acquire('b', null as never);
    expect([tried?.isHeld, acquired.isHeld]).toEqual([true, true]);
  });
});

describe('a method under @Fenced', () => {
  it.each([
    ['a proxy', (seats: Seats) => new Proxy(seats, {})],
    ['an object that inherits from it', (seats: Seats) => Object.create(seats) as Seats],
  ])('names the wrapper when its instance is called through %s', async (_what, wrap) => {
    const { seats } = await startSeats();
    await expect(wrap(seats).book('a')).rejects.toThrow(/wrapper of an instance .*value\.bind/);
    expect(seats.runs).toBe(0);
  });

  it.each([
    [{ ttl: '10 sec' }, /^Seats\.book: Option 'ttl' can't be "10 sec"/],
    [{ timeout: 5 }, /^Seats\.book: Option 'timeout' can't be given/],
  ])('is named by the refusal of its options: %j', (options, message) => {
    const decorate = Fenced('seat', options as object) as (...args: unknown[]) => void;
    const method = Object.getOwnPropertyDescriptor(Seats.prototype, 'book');
    expect(() => decorate(Seats.prototype, 'book', method)).toThrow(message);
  });

  // Only types would refuse these, and what strips types without a look at them lets them through.
  it('is refused without parentheses, where it would lock nothing', () => {
    const bare = Fenced as unknown as (...args: unknown[]) => void;
    const method = Object.getOwnPropertyDescriptor(Seats.prototype, 'book');
    expect(() => bare(Seats.prototype, 'book', method)).toThrow(/^Seats\.book: .*@Fenced\('/);
    expect(() => bare(Seats)).toThrow(/^Seats: .*works on methods/);
  });

  it('is refused on a class', () => {
    const decorate = Fenced('seat') as (...args: unknown[]) => void;
    expect(() => decorate(Seats)).toThrow(/^Seats: .*works on methods/);
  });

  it('is refused as a decorator of the third stage, and the setting is named', () => {
    const context = { kind: 'method', name: 'book', static: false };
    const decorate = Fenced('seat') as unknown as (method: unknown, context: unknown) => void;
    expect(() => decorate(async () => undefined, context)).toThrow(/experimentalDecorators/);
  });
});

async function startSeats() {
  const module = await startModule({ providers: [Seats] });
  return { seats: module.get(Seats), locks: module.get(LockService) };
}
