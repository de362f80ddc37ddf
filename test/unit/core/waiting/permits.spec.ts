import { describe, expect, it } from '@jest/globals';
import { FencedUsageError } from '../../../../lib/core/errors.ts';
import type { Lock } from '../../../../lib/core/lock.ts';
import { clusterFactory, processFactory } from '../support/cluster.ts';
import type { Cluster, LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
/** Time for which a slot is kept for a process that is two ms away, and the try that follows. */
const TURN_MS = 25;

/** Takes so many permits of `api`, each at the first try. */
async function takeAll(cluster: Cluster, { redlock }: LockProcess, permits: number) {
  const locks: Lock[] = [];
  for (let taken = 0; taken < permits; taken += 1)
    locks.push(await cluster.settle(redlock.acquire('api', { permits, wait: 0 })));
  return locks;
}

const slotsOf = (locks: readonly Lock[]) => new Set(locks.map(({ slot }) => slot));

describe('a key with permits', () => {
  it('has so many holders at once in all processes, each with a slot and a token of its own', async () => {
    const cluster = await newCluster();
    const processes = [await cluster.process(), await cluster.process()];
    const locks = await cluster.settle(
      Promise.all(
        [0, 1, 0, 1, 0].map((index) =>
          processes[index]!.redlock.acquire('api', { permits: 5, wait: 0 }),
        ),
      ),
    );
    expect(slotsOf(locks)).toEqual(new Set([0, 1, 2, 3, 4]));
    for (const { keys, slot, token } of locks)
      expect([keys, token.keys]).toEqual([[`api#slot:${slot}`], [`api#slot:${slot}`]]);
    for (const { redlock } of processes) {
      expect(await cluster.settle(redlock.tryAcquire('api', { permits: 5 }))).toBeNull();
      expect(
        await cluster.failure(redlock.acquire('api', { permits: 5, wait: 100 })),
      ).toMatchObject({
        code: 'LOCK_BUSY',
        keys: ['api'],
        message: expect.stringMatching(
          /^None of the 5 permits of "api" could be had in time; the next one expires in \d+ ms/,
        ),
      });
    }
  });

  it('is free to a call with wait: 0 as long as one slot is, also where answers were slow before', async () => {
    const cluster = await newCluster();
    const options = { ttl: 1_000, nodeTimeout: 50 };
    const [holder, other] = [await cluster.process(options), await cluster.process(options)];
    const locks = await takeAll(cluster, holder, 2);
    await cluster.settle(locks[0]!.release());
    const answering = async (latencyMs: number) => {
      for (const node of other.nodes) node.latencyMs = latencyMs;
      const lock = await cluster.settle(other.redlock.acquire('b'));
      await cluster.settle(lock.release());
    };
    for (let calls = 0; calls < 10; calls += 1) {
      for (let slow = 0; slow < 10; slow += 1) await answering(48);
      for (const node of other.nodes) node.latencyMs = 18;
      const taken = await cluster.settle(other.redlock.tryAcquire('api', { permits: 2 }));
      expect(taken?.slot).toBe(locks[0]!.slot);
      await cluster.settle(taken!.release());
    }
  });

  it('costs one round trip where nobody else wants it, from a random slot on', async () => {
    const cluster = await newCluster();
    const { redlock, nodes } = await cluster.process();
    const locks: Lock[] = [];
    await cluster.settle((await cluster.settle(redlock.acquire('api', { permits: 5 }))).release());
    for (let index = 0; index < 30; index += 1) {
      const lock = await cluster.settle(redlock.acquire('api', { permits: 5 }));
      locks.push(lock);
      await cluster.settle(lock.release());
    }
    expect(slotsOf(locks)).toEqual(new Set([0, 1, 2, 3, 4]));
    for (const node of nodes)
      expect([node.asked('acquire').length, node.asked('wait')]).toEqual([31, []]);
  });

  it('is free to a call with wait: 0 as long as one slot is', async () => {
    const cluster = await newCluster();
    const [holder, other] = [await cluster.process(), await cluster.process()];
    const locks = await takeAll(cluster, holder, 5);
    for (const lock of locks) {
      await cluster.settle(lock.release());
      const taken = await cluster.settle(other.redlock.tryAcquire('api', { permits: 5 }));
      expect(taken?.slot).toBe(lock.slot);
    }
  });

  it('has one line: those who wait in other processes get the slots in the order in which they came', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process({ ttl: 60_000 });
    const locks = await takeAll(cluster, holder, 3);
    const order: number[] = [];
    for (let index = 0; index < 6; index += 1) {
      const { redlock } = await cluster.process({ wait: '1m' });
      const came = redlock.acquire('api', { permits: 3 }).then(async (lock) => {
        order.push(index);
        await cluster.environment.timers.set(() => void lock.release(), 10);
      });
      came.catch(() => undefined);
      await cluster.advance(30);
    }
    await cluster.settle(locks[1]!.release());
    await cluster.advance(6 * (10 + TURN_MS));
    expect(order).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('gives two slots that become free at once to two who wait, also where both were kept for one', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process({ ttl: 60_000 });
    const locks = await takeAll(cluster, holder, 2);
    const granted: number[] = [];
    for (let index = 0; index < 2; index += 1) {
      const { redlock } = await cluster.process({ wait: '1m' });
      void redlock.acquire('api', { permits: 2 }).then(() => granted.push(cluster.nowMs));
      await cluster.advance(30);
    }
    const releasedAtMs = cluster.nowMs;
    for (const lock of locks) void lock.release();
    await cluster.advance(100);
    expect(granted).toHaveLength(2);
    for (const atMs of granted) expect(atMs - releasedAtMs).toBeLessThan(TURN_MS);
  });

  it('lets nobody get ahead of those who wait: a process that got a slot stands behind them with its next caller', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process({ ttl: 60_000 });
    const locks = await takeAll(cluster, holder, 2);
    const [first, second] = [
      await cluster.process({ wait: '1m' }),
      await cluster.process({ wait: '1m' }),
    ];
    const order: string[] = [];
    const ask = async ({ redlock }: LockProcess, name: string) => {
      const asked = redlock.acquire('api', { permits: 2 });
      void asked.then(() => order.push(name));
      await cluster.advance(30);
      return asked;
    };
    void ask(first, 'came first');
    const asked = ask(second, 'came second');
    await cluster.advance(60);
    void ask(first, 'came third');
    await cluster.advance(30);
    for (const lock of locks) {
      await cluster.settle(lock.release());
      await cluster.advance(2 * TURN_MS);
    }
    expect(order).toEqual(['came first', 'came second']);
    await cluster.settle((await cluster.settle(asked)).release());
    await cluster.advance(2 * TURN_MS);
    expect(order).toEqual(['came first', 'came second', 'came third']);
  });

  it('goes past a process that died while it was first in line', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process({ ttl: 60_000 });
    const locks = await takeAll(cluster, holder, 2);
    const [dead, alive] = [
      await cluster.process({ wait: '1m' }),
      await cluster.process({ wait: '1m' }),
    ];
    for (let index = 0; index < 2; index += 1)
      void dead.redlock.acquire('api', { permits: 2 }).catch(() => undefined);
    await cluster.advance(30);
    const granted = alive.redlock.acquire('api', { permits: 2 }).then(() => cluster.nowMs);
    await cluster.advance(30);
    for (const node of dead.nodes) node.freeze();
    const releasedAtMs = cluster.nowMs;
    void locks[0]!.release();
    // A stopped process still listens: the slot is kept for it for a moment.
    expect((await cluster.settle(granted)) - releasedAtMs).toBeLessThan(2 * TURN_MS);
  });

  it('is left to others by a process whose callers want it again and again', async () => {
    const cluster = await newCluster();
    const [greedy, modest] = [await cluster.process(), await cluster.process()];
    const options = { permits: 2, wait: 5_000 };
    let isOver = false;
    const rounds = Array.from({ length: 6 }, async () => {
      while (!isOver) {
        const lock = await greedy.redlock.acquire('api', options);
        await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, 5));
        await lock.release();
      }
    });
    await cluster.advance(100);
    const waitsMs: number[] = [];
    for (let index = 0; index < 5; index += 1) {
      const askedAtMs = cluster.nowMs;
      const lock = await cluster.settle(modest.redlock.acquire('api', options));
      waitsMs.push(cluster.nowMs - askedAtMs);
      await cluster.settle(lock.release());
      await cluster.advance(20);
    }
    isOver = true;
    await cluster.settle(Promise.all(rounds));
    expect(Math.max(...waitsMs)).toBeLessThan(100);
  });

  it('gives each of 32 processes its share, and leaves no slot idle for long', async () => {
    const cluster = await newCluster();
    const [processes, permits, holdMs, durationMs] = [32, 5, 20, 1_500];
    const grants = Array.from({ length: processes }, () => 0);
    let isOver = false;
    const rounds: Promise<void>[] = [];
    for (const index of grants.keys()) {
      const { redlock } = await cluster.process({ wait: '1m' });
      const round = async () => {
        while (!isOver) {
          const lock = await redlock.acquire('api', { permits });
          grants[index]! += 1;
          await new Promise<void>((resolve) => cluster.environment.timers.set(resolve, holdMs));
          void lock.release();
        }
      };
      rounds.push(round());
    }
    await cluster.advance(durationMs);
    isOver = true;
    await cluster.settle(Promise.all(rounds));
    const sum = grants.reduce((total, count) => total + count, 0);
    const squares = grants.reduce((total, count) => total + count ** 2, 0);
    // Jain's index, and what there would be without a way between servers and processes.
    expect(sum ** 2 / (processes * squares)).toBeGreaterThan(0.95);
    expect(sum).toBeGreaterThan((0.7 * permits * durationMs) / holdMs);
  });

  it('leaves nothing behind at the servers when nobody holds or waits any more', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process();
    const locks = await takeAll(cluster, holder, 3);
    const others = [await cluster.process(), await cluster.process()];
    for (const { redlock } of others)
      await cluster.failure(redlock.acquire('api', { permits: 3, wait: 100 }));
    for (const lock of locks) await cluster.settle(lock.release());
    await cluster.advance(10);
    const queues = [0, 1, 2].map((slot) =>
      cluster.servers[0]!.call('ZCARD', `lock:api#slot:${slot}#queue`),
    );
    expect(queues).toEqual([0, 0, 0]);
    expect([holder, ...others].map(({ redlock }) => redlock.keyCount)).toEqual([0, 0, 0]);
  });

  it('counts the whole call as one wait, which a signal ends', async () => {
    const cluster = await newCluster();
    const [holder, waiting] = [await cluster.process(), await cluster.process()];
    await takeAll(cluster, holder, 3);
    const askedAtMs = cluster.nowMs;
    const error = await cluster.failure(waiting.redlock.acquire('api', { permits: 3, wait: 400 }));
    expect(error).toMatchObject({ code: 'LOCK_BUSY' });
    expect(cluster.nowMs - askedAtMs).toBeLessThanOrEqual(405);
    const controller = new AbortController();
    const options = { permits: 3, wait: 400, signal: controller.signal };
    const asked = waiting.redlock.acquire('api', options);
    await cluster.advance(50);
    const reason = new Error('enough');
    controller.abort(reason);
    expect(await cluster.failure(asked)).toBe(reason);
  });

  it('keeps a slot for minHold, and takes it from its holder after maxHold', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: 1_000 });
    const kept = await cluster.settle(redlock.acquire('api', { permits: 1, minHold: 500 }));
    await cluster.settle(kept.release());
    expect(await cluster.settle(redlock.tryAcquire('api', { permits: 1 }))).toBeNull();
    await cluster.advance(500);
    const held = await cluster.settle(redlock.acquire('api', { permits: 1, maxHold: 200 }));
    await cluster.advance(250);
    expect(held.signal.reason).toMatchObject({ reason: 'overdue', keys: ['api#slot:0'] });
  });

  it('shows each slot as a lock, which can be listed, inspected and taken away', async () => {
    const { redlock, cluster } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('api', { permits: 2 }));
    const [key] = lock.keys as [string];
    expect(redlock.held().held).toMatchObject([{ keys: [key] }]);
    const { locks } = await cluster.settle(redlock.list('api'));
    expect(locks).toMatchObject([{ key, holder: lock.token.holder }]);
    expect(await cluster.settle(redlock.inspect(key))).toMatchObject({ holder: lock.token.holder });
    await cluster.settle(redlock.revoke(key, 'ada', 'a test'));
    await cluster.advance(2_000);
    expect(lock.signal.reason).toMatchObject({ reason: 'revoked', keys: [key] });
  });
});

describe('work that has a permit', () => {
  it('is joined by a call that says so, in its slot, and refuses one that does not', async () => {
    const { redlock, cluster } = await newProcess();
    const done = redlock.withLock(
      'api',
      async (outer) => {
        expect([redlock.holds('api'), redlock.current()?.slot]).toEqual([true, outer.slot]);
        const inner = await redlock.withLock(
          'api',
          ({ token, slot, keys }) => [token, slot, keys],
          {
            permits: 2,
            nested: 'join',
          },
        );
        expect(inner).toEqual([outer.token, outer.slot, outer.keys]);
        await expect(redlock.acquire('api', { permits: 2 })).rejects.toThrow(
          /holds the lock "api"/,
        );
      },
      { permits: 2 },
    );
    await cluster.settle(done);
  });

  it('is no part of work that has the key alone, nor the other way round', async () => {
    const { redlock, cluster } = await newProcess();
    for (const [outer, inner, told] of [
      [{ permits: 2 }, {}, /asks for "api" without permits, inside of work that holds it with/],
      [{}, { permits: 2 }, /asks for "api" with permits, inside of work that holds it without/],
    ] as const) {
      const nested = () => redlock.withLock('api', () => 1, { ...inner, nested: 'join' });
      const error = await cluster.failure(redlock.withLock('api', nested, outer));
      expect(error).toBeInstanceOf(FencedUsageError);
      expect(error).toMatchObject({ message: expect.stringMatching(told) });
    }
  });
});

describe('permits', () => {
  it.each([0, 101, 1.5, '5'])('are refused where their number is %p', async (permits) => {
    const { redlock } = await newProcess();
    const asked = redlock.acquire('api', { permits: permits as number });
    await expect(asked).rejects.toMatchObject({ code: 'REDLOCK_CONFIG', option: 'permits' });
  });

  it('are for one key, and nobody else can name that of a slot', async () => {
    const { redlock } = await newProcess();
    await expect(redlock.acquire(['a', 'b'], { permits: 2 })).rejects.toThrow(
      /permits is for one key, and this call has 2: "a", "b"/,
    );
    for (const options of [{}, { permits: 2 }])
      await expect(redlock.acquire('api#slot:1', options)).rejects.toThrow(/'#slot:…'/);
  });

  it.each<[string, { permits?: number }]>([
    ['with a larger number', { permits: 5 }],
    ['as a plain lock', {}],
  ])('tell once that another process takes the key %s', async (_, others) => {
    const cluster = await newCluster();
    const [small, other] = [
      await cluster.process({ ttl: 60_000 }),
      await cluster.process({ ttl: 60_000 }),
    ];
    const told = () => small.received('permits-differ');
    const round = async () => {
      await cluster.settle(
        (await cluster.settle(small.redlock.acquire('api', { permits: 2 }))).release(),
      );
      await cluster.advance(10);
    };
    await round();
    for (let taken = 0; taken < (others.permits ?? 1); taken += 1)
      await cluster.settle(other.redlock.acquire('api', others));
    await cluster.advance(59_000);
    expect(told()).toEqual([]);
    await cluster.advance(2_000);
    await cluster.settle(other.redlock.close());
    for (let index = 0; index < 3; index += 1) {
      await round();
      await cluster.advance(60_000);
    }
    expect(told()).toEqual([{ type: 'permits-differ', keys: ['api'], permits: 2 }]);
  });
});
