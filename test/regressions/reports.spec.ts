import { once } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { RedlockError } from '../../lib/core/errors.ts';
import type { LockLostError, NodeCause, QuorumUnavailableError } from '../../lib/core/errors.ts';
import type { Lock } from '../../lib/core/lock.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

/** A caller whose name stands in the stacks of what it receives. */
async function callOfTheTest(call: () => unknown): Promise<RedlockError> {
  try {
    await call();
  } catch (error) {
    if (error instanceof RedlockError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('a loss', () => {
  it('is an error of its own for each who receives it: none is changed by what another adds to it', async () => {
    const cluster = await newCluster();
    const { redlock, received } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    const { signal } = lock;
    const inner = { signals: [] as AbortSignal[], errors: [] as unknown[] };
    const look = async (...locks: Lock[]) => {
      inner.signals.push(...locks.map((each) => each.signal));
      await once(locks[0]!.signal, 'abort');
      for (const each of locks) inner.errors.push(await callOfTheTest(() => each.ensure()));
    };
    const sections = redlock.withLock('b', (outer) =>
      redlock.withLock('b', (joined) => look(outer, joined), { nested: 'join', onLost: 'ignore' }),
    );
    await cluster.advance(10);
    for (const server of cluster.servers) server.freeze();
    const whole = cluster.failure(sections);
    await cluster.advance(3_100);
    const thrown = [
      await callOfTheTest(() => lock.ensure()),
      await callOfTheTest(() => lock.extend()),
    ];
    const errors = [
      ...thrown,
      ...inner.errors,
      ...[signal, ...inner.signals].map(({ reason }) => reason as unknown),
      ...received('lost').map(({ error }) => error),
      await whole,
    ] as LockLostError[];
    expect(new Set(errors).size).toBe(10);
    expect(new Set(errors.map(({ reason, causes }) => `${reason} ${causes.length}`))).toEqual(
      new Set(['expired 3']),
    );
    for (const { stack } of thrown) expect(stack).toContain('callOfTheTest');
    for (const server of cluster.servers) server.resume();
  });

  it('of a lock that its caller never received is the error of the call, and no event', async () => {
    const cluster = await newCluster();
    const issue = () => new Promise<number>(() => undefined);
    const { redlock, received } = await cluster.process({ tokens: { issue } });
    const error = await cluster.settle(callOfTheTest(() => redlock.acquire('a')));
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(error.stack).toContain('callOfTheTest');
    expect(received('lost')).toEqual([]);
  });
});

describe('a shutdown', () => {
  it('while a call waits: the stack of its error leads to the call', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    cluster.occupy('a', [0, 1, 2], 60_000);
    const ended = callOfTheTest(() => redlock.acquire('a', { wait: '1m' }));
    await cluster.advance(100);
    await cluster.settle(redlock.close());
    const error = await cluster.settle(ended);
    expect([error.code, error.keys]).toEqual(['REDLOCK_CLOSED', ['a']]);
    expect(error.stack).toContain('callOfTheTest');
  });
});

describe('what is reported', () => {
  it('of a loss names what each node answered to the last extension', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(3_100);
    const { reason, causes } = lock.signal.reason as LockLostError;
    expect(reason).toBe('expired');
    expect(causes.map((cause) => [cause.address, cause.reason])).toEqual(
      [0, 1, 2].map((index) => [`node${index}:6379`, 'timeout']),
    );
  });

  it.each([
    ['before an extension was due', 100],
    ['while its answers were on their way', 1_001],
  ])('of a loss says that this process did not run: %s', async (_when, awakeMs) => {
    const cluster = await newCluster();
    const { redlock, received } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    await cluster.advance(awakeMs);
    cluster.environment.skip(6_000);
    await cluster.advance(10);
    const { reason, causes, message } = lock.signal.reason as LockLostError;
    expect([reason, causes]).toEqual([
      'expired',
      [expect.objectContaining({ address: 'this process', reason: 'timeout' })],
    ]);
    const [{ elapsedMs }] = causes as [NodeCause];
    expect(elapsedMs).toBeGreaterThan(3_000);
    expect(elapsedMs).toBeLessThanOrEqual(6_000);
    expect(message).toContain(`${elapsedMs} ms`);
    expect(received('lost')).toMatchObject([{ error: { causes: [causes[0]] } }]);
  });

  it('of a loss does not blame a process that was a little late, where no node answered', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a'));
    for (const server of cluster.servers) server.freeze();
    await cluster.advance(lock.remainingMs - 50);
    cluster.environment.skip(90);
    await cluster.advance(10);
    const { causes, message } = lock.signal.reason as LockLostError;
    expect(causes.map(({ address }) => address)).toEqual(
      [0, 1, 2].map((index) => `node${index}:6379`),
    );
    for (const { address } of causes) expect(message).toContain(address);
  });

  it('of an extension that failed says how long it took', async () => {
    const cluster = await newCluster();
    const { redlock } = await cluster.process();
    const lock = await cluster.settle(redlock.acquire('a', { extend: false }));
    for (const server of cluster.servers) server.freeze();
    const error = (await cluster.failure(lock.extend())) as QuorumUnavailableError;
    expect(error.waitedMs).toBe(300);
    for (const server of cluster.servers) server.resume();
    await cluster.settle(lock.release());
  });

  it('as released was reported as acquired', async () => {
    const cluster = await newCluster();
    const issue = () => Promise.reject(new Error('no token'));
    const { redlock, received } = await cluster.process({ tokens: { issue } });
    await cluster.failure(redlock.acquire('a'));
    await cluster.advance(100);
    expect([received('acquired'), received('released')]).toEqual([[], []]);
    expect(cluster.holders('a')).toBe(0);
  });
});
