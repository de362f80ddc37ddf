import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();

describe('work that holds a key', () => {
  it('joins its lock when it asks for the key again: same token, no second vote, no deadlock', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    const tokens = await cluster.settle(
      redlock.withLock(['a', 'b'], async (outer) => {
        const inner = await redlock.acquire('b');
        const nested = await redlock.withLock('a', async (lock) => lock.token);
        await inner.release();
        expect(inner.isHeld).toBe(false);
        expect(outer.isHeld).toBe(true);
        return [outer.token, inner.token, nested];
      }),
    );
    expect(new Set(tokens).size).toBe(1);
    expect(nodes[0]!.asked('acquire')).toHaveLength(1);
    expect(nodes[0]!.asked('release')).toHaveLength(1);
  });

  it('knows its innermost lock', async () => {
    const { cluster, redlock } = await newProcess();
    expect(redlock.current()).toBeUndefined();
    await cluster.settle(
      redlock.withLock('a', async () => {
        expect(redlock.current()?.keys).toEqual(['a']);
        await redlock.withLock('b', async () => expect(redlock.current()?.keys).toEqual(['b']));
        expect(redlock.current()?.keys).toEqual(['a']);
      }),
    );
    expect(redlock.current()).toBeUndefined();
  });

  it('is refused a set that it holds partly, before anything is locked', async () => {
    const { cluster, redlock } = await newProcess();
    await cluster.settle(
      redlock.withLock('a', async () => {
        await expect(redlock.acquire(['a', 'b'])).rejects.toMatchObject({
          code: 'FENCED_USAGE',
          message: expect.stringMatching(/partly held already .* Acquire all of them in one lock/),
        });
        await redlock.withLock('b', async () => {
          await expect(redlock.withLock(['a', 'b'], () => 1)).rejects.toMatchObject({
            code: 'FENCED_USAGE',
          });
        });
      }),
    );
    await cluster.advance(10);
    expect(cluster.holders('b')).toBe(0);
  });

  it('does not join the lock of another service', async () => {
    const cluster = await newCluster();
    const first = await cluster.process();
    const second = await cluster.process();
    const outcome = first.redlock.withLock('a', () => second.redlock.tryAcquire('a'));
    expect(await cluster.settle(outcome)).toBeNull();
  });

  it('that outlives its lock sees a released lock, and asks for a new one', async () => {
    const { cluster, redlock } = await newProcess();
    let outlived: Promise<Lock> | undefined;
    const first = await cluster.settle(
      redlock.withLock('a', async (lock) => {
        outlived = (async () => {
          await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 500));
          expect(redlock.current()?.isHeld).toBe(false);
          expect(() => lock.ensure()).toThrow(/used after its release/);
          return redlock.acquire('a');
        })();
        return lock;
      }),
    );
    const second = await cluster.settle(outlived!);
    expect(second.token.value).toBeGreaterThan(first.token.value);
  });

  it('whose lock was lost does not join it', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const outcome = redlock.withLock(
      'a',
      async (outer) => {
        await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 4_000));
        const inner = await redlock.acquire('a');
        return [outer.token.value, inner.token.value] as const;
      },
      { onLost: 'ignore' },
    );
    const [outer, inner] = await cluster.settle(outcome);
    expect(inner).toBeGreaterThan(outer);
  });
});

describe('withLock', () => {
  it('returns what the work returns, and releases', async () => {
    const { cluster, redlock } = await newProcess();
    expect(await cluster.settle(redlock.withLock('a', () => 'done'))).toBe('done');
    await cluster.advance(5);
    expect(cluster.holders('a')).toBe(0);
  });

  it("passes the work's own error on, thrown at once or later, also when the lock was lost", async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const own = new Error('no seats left');
    const later = async () => {
      await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 5_000));
      throw own;
    };
    const atOnce = () => {
      throw own;
    };
    expect(await cluster.failure(redlock.withLock('a', atOnce))).toBe(own);
    expect(await cluster.failure(redlock.withLock('a', later))).toBe(own);
    await cluster.advance(5);
    expect(cluster.holders('a')).toBe(0);
  });

  it('rejects with the loss and the result when the work finished although the lock was lost', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const work = async () => {
      await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 5_000));
      return { paid: true };
    };
    const error = await cluster.failure(redlock.withLock('a', work));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'expired', result: { paid: true } });
    const ignored = redlock.withLock('a', work, { onLost: 'ignore' });
    expect(await cluster.settle(ignored)).toEqual({ paid: true });
  });

  it('sees the loss although no timer has told of it yet', async () => {
    const { cluster, redlock } = await newProcess();
    const outcome = redlock.withLock('a', async () => {
      cluster.environment.skip(10_000);
      return 'late';
    });
    expect(await cluster.failure(outcome)).toMatchObject({ code: 'LOCK_LOST', result: 'late' });
  });

  it('does not run the work when the lock cannot be had', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0, 1], 60_000);
    let ran = false;
    await cluster.failure(redlock.withLock('a', () => (ran = true), { wait: 0 }));
    expect(ran).toBe(false);
  });
});
