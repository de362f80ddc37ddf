import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../unit/core/support/cluster.ts';
import { eventsOf } from './support.ts';

const newCluster = clusterFactory();

describe('a join that fails for good', () => {
  it('is repeated once a second or so, and soon after the node recovered', async () => {
    const cluster = await newCluster();
    const { nodes, redlock, events } = await cluster.process({ open: false });
    const [failing] = nodes;
    failing!.failNext(
      { error: 'READONLY You can not write against a read only replica.' },
      { command: 'join', times: Number.POSITIVE_INFINITY },
    );
    redlock.open();
    await cluster.advance(60_000);
    // Full jitter up to a second: every half second on average.
    expect(failing!.asked('join').length).toBeLessThan(180);
    expect(failing!.asked('join').length).toBeGreaterThan(50);
    failing!.clearFaults();
    await cluster.advance(1_200);
    expect(eventsOf(events, 'node-joined')).toHaveLength(3);
  });
});
