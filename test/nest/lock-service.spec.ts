import 'reflect-metadata';
import { Injectable } from '@nestjs/common';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Fenced, LockService } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';

const fence = { claim: async () => undefined };

@Injectable()
class Seats {
  @Fenced('seat:{0}')
  async book(name: string): Promise<string> {
    return name;
  }
}

describe('LockService', () => {
  afterEach(closeAll);

  const takes: readonly [string, (locks: LockService, key: any) => Promise<unknown>][] = [
    ['withLock', (locks, key) => locks.withLock(key, () => 'done')],
    ['withLock with a claim', (locks, key) => locks.withLock(key, () => 'done', { claim: true })],
    ['acquire', async (locks, key) => (await locks.acquire(key)).release()],
    ['tryAcquire', async (locks, key) => (await locks.tryAcquire(key))!.release()],
  ];

  it.each(takes)('%s refuses a template, which is one lock for all values', async (_, take) => {
    const locks = (await startModule({}, { fence })).get(LockService);
    for (const key of ['seat:{0}', '{0.id}', 'a:{1}:{0.$b.1}', 'seat:${id}', ['a', 'b:{0}']]) {
      const refusal = take(locks, key);
      await expect(refusal).rejects.toMatchObject({ code: 'FENCED_USAGE' });
      await expect(refusal).rejects.toThrow(/is a template.*Nothing was locked\.$/);
    }
  });

  it.each(takes)('%s takes other braces and signs, such as a hash tag', async (_, take) => {
    const locks = (await startModule({}, { fence })).get(LockService);
    for (const key of [
      'seat:{42}',
      '{1}',
      '{10.0.0.1}',
      '{0.0.0.0}',
      '{id}',
      '{}',
      '$0',
      '$id',
      'null',
    ])
      await expect(take(locks, key)).resolves.not.toBeNull();
  });

  it('looks at any key, also one that reads like a template', async () => {
    const locks = (await startModule({})).get(LockService);
    await expect(locks.inspect('seat:{0}')).resolves.toMatchObject({ holder: null });
  });

  it('leaves the arguments of @Fenced alone, which may read like that', async () => {
    const seats = (await startModule({ providers: [Seats] })).get(Seats);
    for (const name of ['null', 'undefined', '{0}', '${0}', '[object Object]'])
      expect(await seats.book(name)).toBe(name);
  });

  it.each<[string, (locks: LockService) => Promise<unknown>, object]>([
    ...[Number.NaN, undefined, Number.POSITIVE_INFINITY, 3_000_000_000, -1].map(
      (timeoutMs): [string, (locks: LockService) => Promise<unknown>, object] => [
        `ready(${timeoutMs})`,
        (locks) => locks.ready(timeoutMs as number),
        { code: 'REDLOCK_CONFIG', option: 'timeoutMs' },
      ],
    ),
    [
      'inspect of several keys',
      (locks) => locks.inspect(['a', 'b'] as never),
      { code: 'FENCED_USAGE' },
    ],
    [
      'a list of a text in place of options',
      (locks) => locks.list('seat:' as never),
      { code: 'REDLOCK_CONFIG', option: 'options' },
    ],
    [
      'a list of a number',
      (locks) => locks.list({ prefix: 5 } as never),
      { code: 'REDLOCK_CONFIG', option: 'prefix' },
    ],
    [
      'a wait of null',
      (locks) => locks.tryAcquire('a', { wait: null } as never),
      { code: 'REDLOCK_CONFIG', option: 'wait' },
    ],
  ])('refuses %s at once', async (_, call, refusal) => {
    const locks = (await startModule({})).get(LockService);
    await expect(call(locks)).rejects.toMatchObject(refusal);
  });

  it('gives locks that a log shows with keys, token and whether they are held', async () => {
    const locks = (await startModule({})).get(LockService);
    await locks.withLock(['b', 'a'], (lock) => {
      const { value, holder } = lock.token;
      const shown = { keys: ['a', 'b'], token: value, holder, isHeld: true };
      expect(JSON.parse(JSON.stringify(lock))).toEqual(shown);
    });
  });
});
