import { setTimeout } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster } from '../support/cluster.ts';

const newProcess = processFactory();
const JOIN = { nested: 'join' } as const;

function sleep(cluster: Cluster, ms: number): Promise<void> {
  return new Promise((resolve) => void cluster.environment.timers.set(resolve, ms));
}

describe('work that holds a key', () => {
  it('is refused the key that it holds, and joins its lock when it says so: same token, no second vote', async () => {
    const { cluster, redlock, node } = await newProcess();
    const tokens = await cluster.settle(
      redlock.withLock(['a', 'b'], async (outer) => {
        const ran: string[] = [];
        // Only withLock has the option.
        const advice = "give it nested: 'join'";
        const join = { code: 'FENCED_USAGE', message: expect.stringContaining(advice) };
        const other = { code: 'FENCED_USAGE', message: expect.not.stringContaining(advice) };
        for (const [call, refused] of [
          [redlock.withLock('a', () => ran.push('a')), join],
          [redlock.withLock(['a', 'b'], () => ran.push('a b'), { wait: 0 }), join],
          [redlock.acquire('b'), other],
          [redlock.tryAcquire('b'), other],
        ] as const)
          await expect(call).rejects.toMatchObject(refused);
        expect(ran).toEqual([]);
        const [token, inner] = await redlock.withLock(
          'a',
          async (lock) => {
            expect([lock.isHeld, lock.remainingMs]).toEqual([true, outer.remainingMs]);
            await lock.extend();
            await lock[Symbol.asyncDispose]();
            return [lock.token, lock] as const;
          },
          JOIN,
        );
        expect([inner.isHeld, inner.remainingMs, outer.isHeld]).toEqual([false, 0, true]);
        expect(() => inner.ensure()).toThrow(/used after its release/);
        return [outer.token, token];
      }),
    );
    expect(new Set(tokens).size).toBe(1);
    for (const name of ['acquire', 'extend', 'release'] as const)
      expect(node.asked(name)).toHaveLength(1);
  });

  it('knows its innermost lock, and which keys it holds', async () => {
    const { cluster, redlock } = await newProcess();
    const known = () => [redlock.current()?.keys[0], redlock.holds('a'), redlock.holds(['b'])];
    const seen = [known()];
    await cluster.settle(
      redlock.withLock('a', async () => {
        seen.push(known());
        await redlock.withLock('b', () => seen.push(known()));
        seen.push(known());
        expect([redlock.holds(['a', 'b']), redlock.holds('')]).toEqual([false, false]);
      }),
    );
    const outside = [undefined, false, false];
    const inA = ['a', true, false];
    expect([...seen, known()]).toEqual([outside, inA, ['b', true, true], inA, outside]);
  });

  it('is refused a set that it holds partly, or in several locks, before anything is locked', async () => {
    const { cluster, redlock } = await newProcess();
    const refused = () =>
      expect(redlock.acquire(['a', 'b'])).rejects.toMatchObject({ code: 'FENCED_USAGE' });
    await cluster.settle(
      redlock.withLock('a', async () => {
        await refused();
        expect(cluster.holders('b')).toBe(0);
        await redlock.withLock('b', refused);
      }),
    );
  });

  it('has the options of its nested calls checked', async () => {
    const { cluster, redlock } = await newProcess();
    const wrong = [{ signal: AbortSignal.abort({ code: 'ABORTED' }) }, { ttl: '1h' as const }];
    const outer = redlock.withLock('a', () =>
      Promise.all(
        wrong.map((options) =>
          rejection(redlock.withLock('a', () => 'ran', { ...options, ...JOIN })),
        ),
      ),
    );
    const codes = [{ code: 'ABORTED' }, { code: 'REDLOCK_CONFIG' }];
    expect(await cluster.settle(outer)).toMatchObject(codes);
  });

  it('does not join the lock of another service', async () => {
    const { cluster, redlock } = await newProcess();
    const second = await cluster.process();
    const outcome = redlock.withLock('a', () =>
      second.redlock.withLock('b', () => [second.redlock.current()?.keys, redlock.current()?.keys]),
    );
    expect(await cluster.settle(outcome)).toEqual([['b'], ['a']]);
    const other = redlock.withLock('a', () => second.redlock.tryAcquire('a'));
    expect(await cluster.settle(other)).toBeNull();
  });
});

describe('withLock', () => {
  it('runs the work only when the lock is granted, and passes its result or its error on', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const own = new Error('no seats left');
    cluster.occupy('busy', [0, 1], 60_000);
    let runs = 0;
    const work = () => (runs += 1);
    await cluster.failure(redlock.withLock('busy', work, { wait: 0 }));
    expect(await cluster.settle(redlock.withLock('a', work))).toBe(1);
    expect(await cluster.failure(redlock.withLock('a', () => raise(own)))).toBe(own);
    // The error is passed on also when the lock was lost.
    const late = () => sleep(cluster, 5_000).then(() => raise(own));
    expect(await cluster.failure(redlock.withLock('a', late))).toBe(own);
    await cluster.advance(5);
    expect(cluster.holders('a')).toBe(0);
  });

  it('rejects with the loss and the result when the work finished although the lock was lost', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const work = () => sleep(cluster, 5_000).then(() => ({ paid: true }));
    const error = await cluster.failure(redlock.withLock('a', work));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'expired', result: { paid: true } });
    const ignored = redlock.withLock('a', work, { onLost: 'ignore' });
    expect(await cluster.settle(ignored)).toEqual({ paid: true });
  });

  it('rejects with the loss where its signal has ended a timer of Node.js, and with another error of that name as it is', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    const wait = ({ signal }: Lock) => setTimeout(3_600_000, undefined, { signal });
    const lost = await cluster.failure(redlock.withLock('a', wait, { onLost: 'ignore' }));
    expect(lost).toMatchObject({ code: 'LOCK_LOST', reason: 'expired', keys: ['a'] });
    const own = new DOMException('of a caller', 'AbortError');
    const ends = (lock: Lock) => wait(lock).catch(() => raise(own));
    expect(await cluster.failure(redlock.withLock('a', ends))).toBe(own);
  });
});

function raise(error: Error): never {
  throw error;
}
