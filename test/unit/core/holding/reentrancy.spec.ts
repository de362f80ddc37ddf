import { describe, expect, it } from '@jest/globals';
import { LockLostError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { Cluster, ProcessOptions } from '../support/cluster.ts';

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
        const refused = { code: 'FENCED_USAGE', message: expect.stringMatching(/nested: 'join'/) };
        for (const call of [
          redlock.withLock('a', () => ran.push('a')),
          redlock.withLock(['a', 'b'], () => ran.push('a b'), { wait: 0 }),
          redlock.acquire('b'),
          redlock.tryAcquire('b'),
        ])
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

  it('acquires as usual with `nested` where it holds none of the keys', async () => {
    const { cluster, redlock } = await newProcess();
    const own = () => redlock.withLock('b', ({ keys }) => keys, JOIN);
    expect(await cluster.settle(own())).toEqual(['b']);
    expect(await cluster.settle(redlock.withLock('a', own, JOIN))).toEqual(['b']);
  });

  it('joins it with the ttl and the minHold of that lock, whatever it asks for', async () => {
    const { cluster, redlock, node } = await newProcess();
    const other = { ttl: 1_000, minHold: 900, ...JOIN };
    const work = async (outer: Lock) => {
      await redlock.withLock('a', (lock) => lock.extend(), other);
      expect(outer.remainingMs).toBeGreaterThan(1_000);
    };
    await cluster.settle(redlock.withLock('a', work, { release: 'confirmed' }));
    expect([node.asked('release').length, cluster.holders('a')]).toEqual([1, 0]);
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
    const refused = (message: RegExp) =>
      expect(redlock.acquire(['a', 'b'])).rejects.toMatchObject({
        code: 'FENCED_USAGE',
        message: expect.stringMatching(message),
      });
    await cluster.settle(
      redlock.withLock('a', async () => {
        await refused(/already holds some .* \(in one lock\)\. Acquire all of them together/);
        expect(cluster.holders('b')).toBe(0);
        await redlock.withLock('b', () => refused(/in several locks/));
      }),
    );
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

  it('acquires for itself once its section has ended or its lock was lost', async () => {
    const { cluster, redlock } = await newProcess({ extend: false });
    let outlived!: Promise<Lock>;
    const first = await cluster.settle(
      redlock.withLock('a', (lock) => {
        outlived = sleep(cluster, 500).then(() => {
          expect([redlock.current(), redlock.holds('a')]).toEqual([undefined, false]);
          expect(() => lock.ensure()).toThrow(/used after its release/);
          return redlock.acquire('a');
        });
        return lock;
      }),
    );
    const second = await cluster.settle(outlived);
    expect(second.token.value).toBeGreaterThan(first.token.value);
    await cluster.settle(second.release());
    const lossy = redlock.withLock(
      'a',
      async ({ token }) => {
        await sleep(cluster, 4_000);
        return (await redlock.acquire('a')).token.value > token.value;
      },
      { onLost: 'ignore' },
    );
    expect(await cluster.settle(lossy)).toBe(true);
  });

  it('joins the section around one that has ended, and nothing after that', async () => {
    const { cluster, redlock } = await newProcess();
    const seen: unknown[] = [];
    const look = () =>
      seen.push([redlock.holds('a'), redlock.holds('b'), redlock.current()?.keys[0]]);
    let late!: Promise<unknown>;
    const outer = redlock.withLock('a', async () => {
      await redlock.withLock('b', () => {
        late = sleep(cluster, 100)
          .then(look)
          .then(() => sleep(cluster, 100))
          .then(look);
      });
      await sleep(cluster, 150);
    });
    await cluster.settle(outer);
    await cluster.settle(late);
    expect(seen.flat()).toEqual([true, false, 'a', false, false, undefined]);
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
    // Also when the lock was lost.
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

  it('knows of the loss although no timer has noticed it yet', async () => {
    const { cluster, redlock } = await newProcess();
    const late = () => (cluster.environment.skip(10_000), 'late');
    const lost = { code: 'LOCK_LOST', result: 'late' };
    expect(await cluster.failure(redlock.withLock('a', late))).toMatchObject(lost);
    const nested = redlock.withLock('a', () => rejection(redlock.withLock('a', late, JOIN)), {
      onLost: 'ignore',
    });
    expect(await cluster.settle(nested)).toMatchObject(lost);
  });
});

describe('a section that outlives the work whose lock it joined', () => {
  /** The outer work ends after 100 ms, its section on the same lock `sectionMs` after its own begin. */
  async function leftBehind(sectionMs: number, options: ProcessOptions = {}) {
    const process = await newProcess(options);
    const { cluster, redlock } = process;
    let section!: Promise<string>;
    let joined!: Lock;
    const work = async (lock: Lock) => {
      const join = async (nested: Lock) => {
        joined = nested;
        await sleep(cluster, sectionMs);
        return 'section';
      };
      section = redlock.withLock('a', join, JOIN);
      section.catch(() => undefined);
      await sleep(cluster, 100);
      return lock;
    };
    const startedAtMs = cluster.nowMs;
    const outer = await cluster.settle(redlock.withLock('a', work));
    const types = () => process.events.map(({ type }) => type).slice(4);
    return Object.assign(process, { outer, section, joined, startedAtMs, types });
  }

  it('keeps the lock, extended, until it ends; the outer handle has ended, and its caller its result', async () => {
    const { cluster, outer, section, joined, startedAtMs, received } = await leftBehind(10_000);
    expect(cluster.nowMs - startedAtMs).toBeLessThan(110);
    expect([outer.isHeld, outer.remainingMs, joined.isHeld]).toEqual([false, 0, true]);
    expect(() => outer.ensure()).toThrow(/used after its release/);
    await cluster.advance(9_000);
    expect([joined.isHeld, cluster.holders('a'), received('released')]).toEqual([true, 3, []]);
    expect(await cluster.settle(section)).toBe('section');
    expect([joined.isHeld, received('released').length]).toEqual([false, 1]);
    expect(received('released')[0]!.heldMs).toBeGreaterThanOrEqual(10_000);
    await cluster.advance(5);
    expect([cluster.holders('a'), outer.signal.aborted]).toEqual([0, false]);
  });

  it('is reported once when it delays the release by more than a ttl', async () => {
    const { cluster, received } = await leftBehind(10_000);
    await cluster.advance(2_990);
    expect(received('release-delayed')).toEqual([]);
    await cluster.advance(20_000);
    const delayed = { keys: ['a'], sections: 1, sinceMs: 3_000 };
    expect(received('release-delayed')).toMatchObject([delayed]);
    const quick = await leftBehind(1_000);
    await quick.cluster.advance(10_000);
    expect(quick.received('release-delayed')).toEqual([]);
  });

  it('is aborted and rejected when the lock is lost: one event, and none for the outer work', async () => {
    const { cluster, outer, section, joined, types } = await leftBehind(10_000, { extend: false });
    const { signal } = joined;
    await cluster.advance(3_000);
    expect([signal.aborted, outer.signal.aborted, joined.remainingMs]).toEqual([true, false, 0]);
    expect(() => joined.ensure()).toThrow(LockLostError);
    expect(() => outer.ensure()).toThrow(/used after its release/);
    expect(await cluster.failure(section)).toMatchObject({ reason: 'expired', result: 'section' });
    expect(types()).toEqual(['lost']);
  });

  it('counts for minHold, which is measured from the grant to the last end', async () => {
    const { cluster, section } = await leftBehind(1_500, { minHold: 2_000 });
    await cluster.settle(section);
    await cluster.advance(450);
    expect(cluster.holders('a')).toBe(3);
    await cluster.advance(100);
    expect(cluster.holders('a')).toBe(0);
  });
});

function raise(error: Error): never {
  throw error;
}
