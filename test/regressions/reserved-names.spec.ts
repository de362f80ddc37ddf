import { describe, expect, it } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { outcomesOf } from './support.ts';

const newCluster = clusterFactory();

describe('a lock key', () => {
  it.each(['b:#marker', 'b#marker', 'b:#floor:x', 'b#floor:x', 'b#queue', 'a:#floor:'])(
    'is refused when it reads as a reserved name behind a longer prefix: %s',
    async (key) => {
      const cluster = await newCluster();
      const { redlock } = await cluster.process();
      const [outcome] = await outcomesOf(cluster, [redlock.acquire([key, 'other'])]);
      expect(outcome!.code).toBe('FENCED_USAGE');
    },
  );

  it.each(['channel:#general', 'marker', 'floor:x', 'a#b', 'b:#markers', 'issue #floor'])(
    'may have the sign that those names have: %s',
    async (key) => {
      const cluster = await newCluster();
      const { redlock } = await cluster.process();
      const [outcome] = await outcomesOf(cluster, [redlock.acquire(key)]);
      expect(outcome!.code).toBe('granted');
    },
  );
});

describe('a key prefix', () => {
  it('is refused when it has the sign of our own names', () => {
    const construct = (keyPrefix: string) => new Redlock(createMemoryNodes(1), { keyPrefix });
    expect(() => construct('a#')).toThrow(expect.objectContaining({ code: 'REDLOCK_CONFIG' }));
    expect(() => construct('lock:#floor:')).toThrow(/keyPrefix/);
  });
});
