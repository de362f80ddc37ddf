import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, type Lock, LockService, type RedlockModuleOptions } from '../../lib/index.ts';
import type { RedlockHost } from '../../lib/nest/host/redlock-host.ts';
import { REDLOCK_HOST } from '../../lib/nest/redlock.constants.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { closeAll, startModule } from './support/applications.ts';

type Keys = string | readonly string[];
const work = () => 'done';

const calls: readonly (readonly [string, (locks: LockService, keys: Keys) => Promise<unknown>])[] =
  [
    ['withLock', (locks, keys) => locks.withLock(keys, work, { nested: 'join' })],
    [
      'withLock with a claim',
      (locks, keys) => locks.withLock(keys, work, { claim: true, nested: 'join' }),
    ],
    ['acquire', (locks, keys) => locks.acquire(keys)],
    ['tryAcquire', (locks, keys) => locks.tryAcquire(keys)],
  ];

const questions: typeof calls = [
  ['inspect', (locks, keys) => locks.inspect([keys].flat().at(-1)!)],
];

const wrong: readonly Keys[] = [
  'seat:{0}',
  '{1.owner.name}:{0}',
  ['row:1', 'seat:{0.id}'],
  '{0}:{1}',
  '{12._id}',
];

/** Redis Cluster puts names with the same text in braces into one slot. */
const hashTags = [
  'seat:{42}',
  '{1000}.following',
  'cart:{1001}:items',
  'sku:{10}',
  '{1}:{2}',
  '{007}',
];

describe('LockService', () => {
  afterEach(closeAll);

  describe.each([...calls, ...questions])('%s', (_name, call) => {
    it.each(wrong.map((keys) => [keys]))('refuses a template: %j', async (keys) => {
      const module = await startModule({}, fenced);
      const locks = module.get(LockService);
      const refused = call(locks, keys);
      await expect(refused).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      await expect(call(locks, keys)).rejects.toThrow('LockService takes the key itself');
      await expect(call(locks, keys)).rejects.toThrow(/Nothing was locked\.$/);
      for (const key of typeof keys === 'string' ? [keys] : keys)
        expect(await redlockOf(module).inspect(key)).toMatchObject({ holder: null });
    });
  });

  it('takes keys with braces without a number, and looks for no words in them', async () => {
    const locks = (await startModule({}, fenced)).get(LockService);
    const keys = [
      '{id}',
      '{}',
      'seat:{a0}',
      '{id:0}',
      '{1.5}',
      '{10.0.0.1}',
      'seat:undefined',
      'null',
    ];
    for (const [, call] of [...calls, ...questions])
      for (const key of keys) {
        const made = await call(locks, key);
        expect(made).not.toBeNull();
        await release(made);
      }
  });

  it('answers holds() for keys that stand for nothing with false', async () => {
    const locks = (await startModule({}, fenced)).get(LockService);
    for (const keys of [...wrong, undefined, 12, [], [12]])
      expect(locks.holds(keys as never)).toBe(false);
  });

  it.each(hashTags)('takes a hash tag of digits: %s', async (key) => {
    const locks = (await startModule({}, fenced)).get(LockService);
    for (const [, call] of calls) {
      const made = await call(locks, key);
      expect(made).not.toBeNull();
      await release(made);
    }
  });

  it.each(['{0}', '{0.id}'])(
    'joins a lock that the call holds already, whatever the form of its key: %s',
    async (name) => {
      const seats = (await startModule({ providers: [Seats] }, fenced)).get(Seats);
      expect(await seats.again(name)).toEqual(['done', 'done']);
      await expect(seats.other(name)).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    },
  );

  it('leaves the keys of @Fenced to it, where a text that a caller gave may read like that', async () => {
    const seats = (await startModule({ providers: [Seats] }, fenced)).get(Seats);
    const { signal } = new AbortController();
    for (const name of ['null', 'undefined', '{0}', '[object Object]'])
      expect([
        await seats.book(name),
        await seats.claim(name),
        await seats.stop(name, signal),
      ]).toEqual([name, name, name]);
  });

  it('names the transaction, not the key, where @Fenced is called inside of one', async () => {
    const options = { ...fenced, isInTransaction: () => true };
    const seats = (await startModule({ providers: [Seats] }, options)).get(Seats);
    await expect(seats.book('null')).rejects.toThrow('was called inside an open transaction');
  });
});

const redlockOf = (module: TestingModule) => module.get<RedlockHost>(REDLOCK_HOST).redlock;

const release = (lock: unknown) => (lock as { release?: () => Promise<void> } | null)?.release?.();

const fenced: Partial<RedlockModuleOptions> = {
  nodes: createMemoryNodes(1),
  fence: { claim: async () => undefined },
};

@Injectable()
class Seats {
  constructor(private readonly locks: LockService) {}

  @Fenced('seat:{0}')
  async again(name: string): Promise<unknown[]> {
    const joining = calls.slice(0, 2);
    return Promise.all(joining.map(([, call]) => call(this.locks, `seat:${name}`)));
  }

  @Fenced('seat:{0}')
  async other(name: string): Promise<unknown> {
    return this.locks.withLock(`row:${name}`, work);
  }

  @Fenced('seat:{0}')
  async book(name: string): Promise<string> {
    return name;
  }

  @Fenced('seat:{0}', { claim: true })
  async claim(name: string): Promise<string> {
    return name;
  }

  @Fenced('seat:{0}', { signal: (_name: string, signal: AbortSignal) => signal })
  async stop(name: string, _signal: AbortSignal): Promise<string> {
    return name;
  }
}

describe('a wrong argument', () => {
  afterEach(closeAll);

  it.each([Number.NaN, undefined, Number.POSITIVE_INFINITY, 3_000_000_000, -1])(
    'ready(%p) is refused, and does not wait for the servers',
    async (timeoutMs) => {
      const locks = (await startModule({})).get(LockService);
      await expect(locks.ready(timeoutMs as number)).rejects.toMatchObject({
        code: 'REDLOCK_CONFIG',
        option: 'timeoutMs',
      });
    },
  );

  it('inspect of several keys, and a wait of null, are refused as elsewhere', async () => {
    const locks = (await startModule({})).get(LockService);
    const several = locks.inspect(['a', 'b'] as never);
    await expect(several).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    const none = locks.tryAcquire('a', { wait: null } as never);
    await expect(none).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'wait' });
  });
});

describe('a lock in a log', () => {
  afterEach(closeAll);

  it('has its keys, its token and whether it is held, also where it was joined', async () => {
    const locks = (await startModule({})).get(LockService);
    const look = (lock: Lock, keys: string[]) => {
      const { value, holder } = lock.token;
      const shown = { keys, token: value, holder, isHeld: true };
      expect(JSON.parse(JSON.stringify(lock))).toEqual(shown);
    };
    await locks.withLock(['b', 'a'], (lock) => {
      look(lock, ['a', 'b']);
      return locks.withLock('a', (joined) => look(joined, ['a']), { nested: 'join' });
    });
  });
});
