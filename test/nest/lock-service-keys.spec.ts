import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, type Lock, LockService, type RedlockModuleOptions } from '../../lib/index.ts';
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

describe('LockService', () => {
  afterEach(closeAll);

  it('takes any text as a key, and looks for no templates or words in it', async () => {
    const locks = (await startModule({}, fenced)).get(LockService);
    const keys = ['seat:{0}', '{0.id}', 'seat:{42}', '{id}', '{}', '{10.0.0.1}', 'undefined'];
    for (const [, call] of [...calls, ...questions])
      for (const key of keys) {
        const made = await call(locks, key);
        expect(made).not.toBeNull();
        await release(made);
      }
  });

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
});

const release = (lock: unknown) => (lock as { release?: () => Promise<void> } | null)?.release?.();

const fenced: Partial<RedlockModuleOptions> = {
  nodes: createMemoryNodes(1),
  fence: { claim: async () => undefined },
};

@Injectable()
class Seats {
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
