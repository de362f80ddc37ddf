import { describe, expect, it } from '@jest/globals';
import type { LockLostError, QuorumUnavailableError } from '../../lib/core/errors.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

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
