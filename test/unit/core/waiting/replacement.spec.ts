import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import type { WithLockOptions } from '../../../../lib/core/options/options.ts';
import { clusterFactory, type Cluster, type LockProcess } from '../support/cluster.ts';

const newCluster = clusterFactory();
const TTL_MS = 3_000;

/** A call that replaces the holder of `a`: when it began, and how it ended. */
interface Replacing {
  readonly done: Promise<unknown>;
  beganAtMs: number;
  abortedAtMs: number;
  lock: Lock | undefined;
  /** Ends its work, if that does not end by itself. */
  finish: (() => void) | undefined;
}

function replacing(
  cluster: Cluster,
  { redlock }: LockProcess,
  options: WithLockOptions & { obeys?: boolean } = {},
): Replacing {
  const { obeys = true, ...others } = options;
  const call: { -readonly [Name in keyof Replacing]: Replacing[Name] } = {
    done: Promise.resolve(),
    beganAtMs: Number.NaN,
    abortedAtMs: Number.NaN,
    lock: undefined,
    finish: undefined,
  };
  const work = (lock: Lock) =>
    new Promise<void>((resolve) => {
      call.beganAtMs = cluster.nowMs;
      call.lock = lock;
      call.finish = resolve;
      lock.signal.addEventListener('abort', () => {
        call.abortedAtMs = cluster.nowMs;
        if (obeys) resolve();
      });
    });
  call.done = redlock.withLock('a', work, { onBusy: 'replace', ...others }).then(
    () => 'done',
    (error: unknown) => error,
  );
  return call;
}

describe("a call with onBusy: 'replace'", () => {
  it.each(['in the same process', 'in another process'])(
    'takes the key from its holder %s at once, and begins when that has given it back',
    async (where) => {
      const cluster = await newCluster();
      const holder = await cluster.process({ ttl: TTL_MS });
      const newcomer =
        where === 'in the same process' ? holder : await cluster.process({ ttl: TTL_MS });
      const old = replacing(cluster, holder);
      await cluster.advance(500);
      const askedAtMs = cluster.nowMs;
      const newest = replacing(cluster, newcomer);
      await cluster.advance(30);
      expect(old.abortedAtMs - askedAtMs).toBeLessThan(20);
      expect(old.lock!.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'replaced' });
      expect(newest.beganAtMs - askedAtMs).toBeLessThan(30);
      expect(newest.beganAtMs).toBeGreaterThanOrEqual(old.abortedAtMs);
      expect(newest.lock!.token.value).toBeGreaterThan(old.lock!.token.value);
      await cluster.advance(2 * TTL_MS);
      expect(newest.lock!.isHeld).toBe(true);
      newest.finish!();
      expect(await cluster.settle(newest.done)).toBe('done');
      expect(await cluster.settle(old.done)).toMatchObject({ reason: 'replaced' });
    },
  );

  it.each(['in the same process', 'in another process'])(
    'waits for the end of the lease of a holder %s that ignores its signal, and never runs beside it',
    async (where) => {
      const cluster = await newCluster();
      const holder = await cluster.process({ ttl: TTL_MS });
      const newcomer =
        where === 'in the same process' ? holder : await cluster.process({ ttl: TTL_MS });
      const old = replacing(cluster, holder, { obeys: false });
      await cluster.advance(TTL_MS / 2);
      const newest = replacing(cluster, newcomer);
      await cluster.advance(20);
      expect(old.lock!.signal.aborted).toBe(true);
      await cluster.advance(2 * TTL_MS);
      expect(newest.beganAtMs - old.abortedAtMs).toBeGreaterThan(TTL_MS / 2);
      expect(newest.beganAtMs - old.abortedAtMs).toBeLessThan(TTL_MS + 100);
      old.finish!();
      newest.finish!();
      expect(await cluster.settle(newest.done)).toBe('done');
    },
  );

  it.each([1, 5])(
    'among 100 of %s processes whose clocks differ: the newest runs last, and none that it overtook runs at all',
    async (processCount) => {
      const cluster = await newCluster();
      const processes: LockProcess[] = [];
      for (let index = 0; index < processCount; index += 1) {
        const wallErrorMs = [0, 2_000, -2_000, 500, -90_000][index]!;
        processes.push(await cluster.process({ ttl: TTL_MS, wallErrorMs }));
      }
      const held = replacing(cluster, processes[0]!, { obeys: false });
      await cluster.advance(100);
      const calls: Replacing[] = [];
      for (let index = 0; index < 100; index += 1) {
        calls.push(replacing(cluster, processes[index % processCount]!));
        // One that comes when nodes know another is newer.
        await cluster.advance(processCount === 1 ? 0 : 12);
      }
      await cluster.advance(50);
      held.finish!();
      await cluster.advance(1_000);
      const newest = calls.at(-1)!;
      expect(newest.lock!.isHeld).toBe(true);
      newest.finish!();
      expect(await cluster.settle(newest.done)).toBe('done');
      for (const { done, beganAtMs } of calls.slice(0, -1)) {
        expect(beganAtMs).toBe(Number.NaN);
        expect(await cluster.settle(done)).toMatchObject({ code: 'LOCK_BUSY', isOvertaken: true });
      }
    },
  );

  it('replaces each holder in turn where they obey, so that tokens grow with the calls', async () => {
    const cluster = await newCluster();
    const processes = [await cluster.process(), await cluster.process({ wallErrorMs: -5_000 })];
    const calls: Replacing[] = [];
    for (let index = 0; index < 20; index += 1) {
      calls.push(replacing(cluster, processes[index % 2]!));
      await cluster.advance(100);
    }
    const tokens = calls.map(({ lock }) => lock!.token.value);
    expect(tokens).toEqual(tokens.toSorted((one, other) => one - other));
    expect(calls.filter(({ lock }) => lock!.isHeld)).toEqual([calls.at(-1)]);
    calls.at(-1)!.finish!();
  });

  it('ends as overtaken where a newer one has the key, also when it slept meanwhile', async () => {
    const cluster = await newCluster();
    const held = replacing(cluster, await cluster.process(), { obeys: false });
    await cluster.advance(100);
    const older = await cluster.process({ wallErrorMs: 10_000 });
    const waiting = replacing(cluster, older);
    await cluster.advance(20);
    for (const node of older.nodes) node.freeze();
    const newest = replacing(cluster, await cluster.process());
    await cluster.advance(20);
    held.finish!();
    await cluster.advance(20);
    expect(newest.lock!.isHeld).toBe(true);
    for (const node of older.nodes) node.resume();
    expect(await cluster.settle(waiting.done)).toMatchObject({ isOvertaken: true });
    expect(newest.lock!.isHeld).toBe(true);
    newest.finish!();
  });

  it.each(['in the same process', 'in another process'])(
    'replaces no holder %s inside its minHold, and then at once',
    async (where) => {
      const cluster = await newCluster();
      const holder = await cluster.process();
      const newcomer = where === 'in the same process' ? holder : await cluster.process();
      const options = { minHold: 2_000 };
      const beganMs = cluster.nowMs;
      const old = replacing(cluster, holder, options);
      await cluster.advance(300);
      const newest = replacing(cluster, newcomer, options);
      await cluster.advance(1_600);
      expect(old.lock!.isHeld).toBe(true);
      await cluster.advance(600);
      expect(old.abortedAtMs - beganMs).toBeGreaterThan(1_990);
      expect(old.abortedAtMs - beganMs).toBeLessThan(2_100);
      expect(newest.lock!.isHeld).toBe(true);
      newest.finish!();
    },
  );

  it('waits for no more than one minHold where the clock of the holder is far ahead', async () => {
    const cluster = await newCluster();
    const options = { minHold: 2_000 };
    const old = replacing(cluster, await cluster.process({ wallErrorMs: 600_000 }), options);
    await cluster.advance(500);
    const newest = replacing(cluster, await cluster.process(), options);
    await cluster.advance(1_900);
    expect(old.lock!.isHeld).toBe(true);
    await cluster.advance(700);
    expect(newest.lock!.isHeld).toBe(true);
    newest.finish!();
  });

  it('takes it also from a holder that hears nothing, at the next extension', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: TTL_MS });
    const lock = await cluster.settle(redlock.acquire('a'));
    const newest = replacing(cluster, await cluster.process());
    lock.signal.addEventListener('abort', () => void lock.release());
    await cluster.advance(TTL_MS / 3 + 100);
    expect(lock.signal.reason).toMatchObject({ reason: 'replaced' });
    expect(newest.lock!.isHeld).toBe(true);
    newest.finish!();
  });

  it('gets the key at once from a holder that was done when it asked', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process({ ttl: TTL_MS });
    const newcomer = await cluster.process({ ttl: TTL_MS });
    for (let doneMs = 0; doneMs < 12; doneMs += 1) {
      const lock = await cluster.settle(redlock.acquire('a'));
      const newest = replacing(cluster, newcomer);
      await cluster.advance(doneMs);
      await cluster.settle(lock.release());
      await cluster.advance(60);
      expect(newest.lock?.isHeld).toBe(true);
      newest.finish!();
      await cluster.settle(newest.done);
    }
  });

  it('replaces nobody where no quorum hears of it: the holder keeps its lock', async () => {
    const cluster = await newCluster();
    const old = replacing(cluster, await cluster.process());
    await cluster.advance(100);
    const newcomer = await cluster.process();
    for (const node of newcomer.nodes.slice(1)) node.freeze();
    const newest = replacing(cluster, newcomer, { wait: 1_000 });
    expect(await cluster.settle(newest.done)).toMatchObject({ code: 'QUORUM_UNAVAILABLE' });
    await cluster.advance(2 * TTL_MS);
    expect(old.lock!.isHeld).toBe(true);
    for (const node of newcomer.nodes) node.resume();
    old.finish!();
    expect(await cluster.settle(old.done)).toBe('done');
  });

  it('replaces nobody in its own process where it is known that no quorum answers', async () => {
    const cluster = await newCluster();
    const process = await cluster.process();
    const old = replacing(cluster, process);
    await cluster.advance(100);
    for (const server of cluster.servers.slice(1)) server.kill();
    await cluster.advance(50);
    const newest = replacing(cluster, process, { wait: 500 });
    await cluster.advance(100);
    expect(old.lock!.isHeld).toBe(true);
    for (const server of cluster.servers.slice(1)) server.restart({ keepData: true });
    await cluster.advance(600);
    expect([old.lock!.isHeld, newest.lock!.isHeld]).toEqual([false, true]);
    newest.finish!();
  });

  it('that died after it replaced the holder leaves the key free at the end of the lease', async () => {
    const cluster = await newCluster();
    const old = replacing(cluster, await cluster.process({ ttl: TTL_MS }), { obeys: false });
    await cluster.advance(100);
    const newcomer = await cluster.process({ ttl: TTL_MS });
    const dead = replacing(cluster, newcomer);
    await cluster.advance(20);
    expect(old.lock!.signal.aborted).toBe(true);
    for (const node of newcomer.nodes) node.freeze();
    const other = await cluster.process({ ttl: TTL_MS });
    const lock = await cluster.settle(other.redlock.acquire('a', { wait: 2 * TTL_MS }));
    expect(cluster.nowMs - old.beganAtMs).toBeLessThan(TTL_MS + 200);
    for (const node of newcomer.nodes) node.resume();
    expect(await cluster.settle(dead.done)).toMatchObject({ code: 'LOCK_BUSY' });
    await cluster.settle(lock.release());
    old.finish!();
  });

  it.each(['in its process', 'in another process'])(
    'goes ahead of calls that wait %s, and leaves them their place',
    async (where) => {
      const cluster = await newCluster();
      const [holder, newcomer] = [await cluster.process(), await cluster.process()];
      const waiter = where === 'in its process' ? newcomer : await cluster.process();
      const old = replacing(cluster, holder);
      await cluster.advance(50);
      const waiting = waiter.redlock.acquire('a', { wait: '1m' });
      await cluster.advance(50);
      const newest = replacing(cluster, newcomer);
      await cluster.advance(100);
      expect([old.lock!.isHeld, newest.lock!.isHeld]).toEqual([false, true]);
      newest.finish!();
      await cluster.settle((await cluster.settle(waiting)).release());
    },
  );

  it('ends every section of the old holder, and begins when the last of them has ended', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    let finishInner: () => void = () => undefined;
    const signals: AbortSignal[] = [];
    const inner = (lock: Lock) =>
      new Promise<void>((resolve) => {
        signals.push(lock.signal);
        finishInner = resolve;
      });
    const outer = async (lock: Lock) => {
      signals.push(lock.signal);
      await redlock.withLock('a', inner, { nested: 'join', onBusy: 'replace' });
    };
    const old = redlock.withLock('a', outer).catch((error: unknown) => error);
    await cluster.advance(50);
    const newest = replacing(cluster, await cluster.process());
    await cluster.advance(TTL_MS / 3 + 50);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect(newest.lock).toBeUndefined();
    finishInner();
    await cluster.advance(50);
    expect(newest.lock!.isHeld).toBe(true);
    expect(await cluster.settle(old)).toMatchObject({ reason: 'replaced' });
    newest.finish!();
  });

  it('takes all keys of a set from its holder, by one of them', async () => {
    const cluster = await newCluster();
    const holder = await cluster.process();
    const set = await cluster.settle(holder.redlock.acquire(['a', 'b']));
    const newest = replacing(cluster, holder);
    await cluster.advance(5);
    expect(set.signal.reason).toMatchObject({ reason: 'replaced', keys: ['a', 'b'] });
    await cluster.settle(set.release());
    await cluster.advance(20);
    expect(newest.lock!.isHeld).toBe(true);
    expect(cluster.holders('b')).toBe(0);
    newest.finish!();
  });

  it('ends one whose token is not there yet, of which nothing ran', async () => {
    const cluster = await newCluster();
    let issued = 0;
    const issue = () => ((issued += 1), issued > 1 ? issued : new Promise<number>(() => undefined));
    const process = await cluster.process({ tokens: { issue: async () => issue() } });
    const old = replacing(cluster, process);
    await cluster.advance(50);
    const newest = replacing(cluster, process);
    await cluster.advance(50);
    expect(await cluster.settle(old.done)).toMatchObject({ isOvertaken: true });
    expect([old.lock, newest.lock!.token.value]).toEqual([undefined, 2]);
    newest.finish!();
  });

  it.each<[string, WithLockOptions, string | string[], object]>([
    ['several keys', { onBusy: 'replace' }, ['a', 'b'], { code: 'FENCED_USAGE' }],
    ['no time for the old holder', { onBusy: 'replace', wait: 0 }, 'a', { option: 'wait' }],
    ['several holders', { onBusy: 'replace', permits: 2 }, 'a', { option: 'permits' }],
  ])('is refused with %s, and replaces nobody', async (_, options, keys, expected) => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    const refused = redlock.withLock(keys, () => undefined, options);
    expect(await cluster.failure(refused)).toMatchObject(expected);
    expect(lock.isHeld).toBe(true);
    await cluster.settle(lock.release());
  });
});
