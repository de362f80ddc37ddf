import assert from 'node:assert/strict';
import { afterEach, describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { FencedUsageError, LockBusyError } from '../../lib/core/errors.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { NOTORIOUS_KEYS, anyKey, goodKey, isReserved, twinKeys } from './strange-keys.ts';

const open: Redlock[] = [];

/** Two services that compete for the locks of the same servers. */
function twoServices(): [Redlock, Redlock] {
  const nodes = createMemoryNodes(3);
  const others = createMemoryNodes(nodes.map(({ server }) => server));
  const services = [nodes, others].map(
    (own) => new Redlock(own, { restartGuard: false, ttl: '1m' }),
  );
  for (const service of services) service.open();
  open.push(...services);
  return services as [Redlock, Redlock];
}

afterEach(async () => {
  await Promise.all(open.splice(0).map((service) => service.close()));
});

describe('any string as a key', () => {
  it('is refused as a wrong use with nothing locked, or is a lock that excludes and can be released', async () => {
    const [ours, theirs] = twoServices();
    await Promise.all([ours.ready(5_000), theirs.ready(5_000)]);
    await fc.assert(
      fc.asyncProperty(anyKey, async (key) => {
        let lock;
        try {
          lock = await ours.acquire(key);
        } catch (error) {
          assert.ok(error instanceof FencedUsageError);
          assert.ok(error.message.length < 1_000);
          assert.ok(isReserved(key) || key.length > 1_024 || /[\uD800-\uDFFF]/u.test(key));
          return;
        }
        expect(lock.keys).toEqual([key]);
        await expect(theirs.tryAcquire(key)).resolves.toBeNull();
        await lock.release();
        const next = await theirs.tryAcquire(key);
        expect(next?.token.value).toBeGreaterThan(lock.token.value);
        await next?.release();
      }),
      { numRuns: 200 },
    );
  });

  it('is no other lock: twins under normalisation, case, trimming and escaping are held at once', async () => {
    const [ours, theirs] = twoServices();
    await Promise.all([ours.ready(5_000), theirs.ready(5_000)]);
    await fc.assert(
      fc.asyncProperty(twinKeys, async ([key, twin]) => {
        await using first = await ours.acquire(key, { wait: 0 });
        await using second = await theirs.acquire(twin, { wait: 0 });
        expect([first.isHeld, second.isHeld]).toEqual([true, true]);
      }),
      { numRuns: 200 },
    );
  });

  it('in a set: the set excludes each of its keys, and no key that is not in it', async () => {
    const [ours, theirs] = twoServices();
    await Promise.all([ours.ready(5_000), theirs.ready(5_000)]);
    const sets = fc.uniqueArray(goodKey, { minLength: 2, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(sets, async ([outside, ...inside]) => {
        await using set = await ours.acquire([...inside, ...inside], { wait: 0 });
        expect([...set.keys].sort()).toEqual([...inside].sort());
        for (const key of inside) await expect(theirs.tryAcquire(key)).resolves.toBeNull();
        await using free = await theirs.tryAcquire(outside!);
        expect(free?.isHeld).toBe(true);
      }),
      { numRuns: 60 },
    );
  });
});

describe('a key with the name of a property', () => {
  it.each(NOTORIOUS_KEYS.slice(0, 9))(
    '%s changes no prototype and joins no foreign lock',
    async (key) => {
      const [ours, theirs] = twoServices();
      await Promise.all([ours.ready(5_000), theirs.ready(5_000)]);
      const before = Object.getOwnPropertyNames(Object.prototype);
      await ours.withLock(key, async (lock) => {
        await expect(theirs.acquire(key, { wait: 0 })).rejects.toThrow(LockBusyError);
        await ours.withLock(key, (inner) => expect(inner.token).toBe(lock.token));
        await ours.withLock(`${key}_`, (other) => expect(other.token).not.toBe(lock.token));
      });
      expect(Object.getOwnPropertyNames(Object.prototype)).toEqual(before);
      expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    },
  );
});

describe('what is no string', () => {
  it('is refused as a key, whatever it is', async () => {
    const [ours] = twoServices();
    const odd = fc
      .anything({
        withBigInt: true,
        withDate: true,
        withNullPrototype: true,
        withSparseArray: true,
      })
      .filter((value) => typeof value !== 'string' && !isArrayOfStrings(value));
    await fc.assert(
      fc.asyncProperty(odd, async (value) => {
        await expect(ours.acquire(value as string, { wait: 0 })).rejects.toThrow(FencedUsageError);
      }),
      { numRuns: 200 },
    );
  });
});

function isArrayOfStrings(value: unknown): boolean {
  return (
    Array.isArray(value) && value.length > 0 && value.every((item) => typeof item === 'string')
  );
}
