import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

describe('a listener', () => {
  afterEach(() => void jest.restoreAllMocks());

  it('of a lock that others took is called when the releases are on their way, so that it delays no other caller', async () => {
    const cluster = await newCluster();
    const releases: number[][] = [];
    const note = () => releases.push(first.nodes.map((node) => node.asked('release').length));
    const first = await cluster.process({
      onEvent: ({ type }) => type === 'lost' && void note(),
    });
    const lock = await cluster.settle(first.redlock.acquire('a'));
    lock.signal.addEventListener('abort', note);
    cluster.occupy('a', [0, 1], 60_000);
    await cluster.advance(1_100);
    expect(releases).toEqual([
      [1, 1, 1],
      [1, 1, 1],
    ]);
  });

  const thrown = { 'without text': Object.create(null), 'an error': new Error('no metrics') };
  it.each(Object.entries(thrown))(
    'that throws what is %s changes nothing, also where no warning can be given',
    async (_, what) => {
      const warning = jest.spyOn(process, 'emitWarning').mockImplementation(() => {
        throw new Error('no warnings here');
      });
      const cluster = await newCluster();
      const { redlock } = await cluster.process({
        onEvent: () => {
          throw what;
        },
      });
      const { signal } = new AbortController();
      const run = (wait: number) =>
        cluster.settle(redlock.withLock('a', () => 'ran', { signal, wait }));
      await expect(run(100)).resolves.toBe('ran');
      cluster.occupy('a', [0, 1], 60_000);
      await expect(run(100)).rejects.toMatchObject({ code: 'LOCK_BUSY' });
      const sinceMs = cluster.nowMs;
      await cluster.settle(redlock.drain(5_000));
      expect([cluster.nowMs - sinceMs, getEventListeners(signal, 'abort')]).toEqual([0, []]);
      expect(warning).toHaveBeenCalledTimes(1);
    },
  );
});
