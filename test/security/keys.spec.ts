import assert from 'node:assert/strict';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { FencedUsageError } from '../../lib/core/errors.ts';
import type { Redlock } from '../../lib/core/redlock.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { useRedlocks } from '../support/use-redlocks.ts';
import { anyKey, isGoodKey, twinKeys } from './strange-keys.ts';

const openRedlock = useRedlocks();

/** Two services that compete for the locks of the same servers. */
async function twoServices(): Promise<readonly [Redlock, Redlock]> {
  const nodes = createMemoryNodes(3);
  const others = createMemoryNodes(nodes.map(({ server }) => server));
  return [await openRedlock(nodes, { ttl: '1m' }), await openRedlock(others, { ttl: '1m' })];
}

describe('any string as a key', () => {
  it('any string is refused as a key with nothing locked, or is a lock that excludes and can be released', async () => {
    const [ours, theirs] = await twoServices();
    await fc.assert(
      fc.asyncProperty(anyKey, async (key) => {
        let lock;
        try {
          lock = await ours.acquire(key);
        } catch (error) {
          assert.ok(error instanceof FencedUsageError);
          assert.ok(error.message.length < 1_000);
          assert.ok(!isGoodKey(key));
          return;
        }
        assert.ok(isGoodKey(key));
        expect(lock.keys).toEqual([key]);
        await expect(theirs.tryAcquire(key)).resolves.toBeNull();
        await lock.release();
        const next = await theirs.tryAcquire(key);
        expect(next?.token.value).toBeGreaterThan(lock.token.value);
        await next?.release();
      }),
      { seed: 42, numRuns: 200 },
    );
  });

  it('twins of a key under normalisation, case, trimming and escaping are other locks', async () => {
    const [ours, theirs] = await twoServices();
    await fc.assert(
      fc.asyncProperty(twinKeys, async ([key, twin]) => {
        await using first = await ours.acquire(key, { wait: 0 });
        await using second = await theirs.acquire(twin, { wait: 0 });
        expect([first.isHeld, second.isHeld]).toEqual([true, true]);
      }),
      { seed: 42, numRuns: 200 },
    );
  });
});
