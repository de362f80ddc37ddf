import { describe, expect, it } from '@jest/globals';
import type { LockLostError, NodeCause } from '../../lib/core/errors.ts';
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
});
