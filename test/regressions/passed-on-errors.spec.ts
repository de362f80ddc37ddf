import { describe, expect, it } from '@jest/globals';
import {
  LockBusyError,
  QuorumUnavailableError,
  RedlockClosedError,
} from '../../lib/core/errors.ts';
import { clusterFactory } from '../unit/core/support/cluster.ts';

const newCluster = clusterFactory();

/** What other calls, of this service or another one, were rejected with. */
const foreign = {
  busy: new LockBusyError(['other'], 5, undefined),
  outage: new QuorumUnavailableError(['other'], 5, 2, 3, []),
  closed: new RedlockClosedError(['other']),
};

describe('an error of another call, passed on by a user,', () => {
  it.each(Object.entries(foreign))(
    'as the reason to abort a call is the reason of its end, and no verdict on it: %s',
    async (_name, reason) => {
      const cluster = await newCluster();
      const { redlock, events } = await cluster.process();
      cluster.occupy('a', [0, 1, 2], 60_000);
      const { stack } = reason;
      const controller = new AbortController();
      const { signal } = controller;
      const calls = [
        redlock.tryAcquire('a', { signal, wait: '1m' }),
        redlock.acquire('a', { signal }),
      ];
      const failures = calls.map((call) => cluster.failure(call));
      await cluster.advance(100);
      controller.abort(reason);
      for (const failure of failures) expect(await failure).toBe(reason);
      expect(reason.stack).toBe(stack);
      expect(events.filter(({ type }) => type === 'busy' || type === 'unavailable')).toEqual([]);
    },
  );

  it.each(Object.entries(foreign))(
    'by a token source is the error of the call, and no verdict on it: %s',
    async (_name, error) => {
      const cluster = await newCluster();
      const { stack } = error;
      const tokens = { issue: () => Promise.reject(error) };
      const { redlock, events } = await cluster.process({ tokens });
      expect(await cluster.failure(redlock.tryAcquire('a'))).toBe(error);
      expect(error.stack).toBe(stack);
      expect(events.filter(({ type }) => type === 'busy' || type === 'unavailable')).toEqual([]);
    },
  );

  it('is no error of its own: that one is a verdict', async () => {
    const cluster = await newCluster();
    const { redlock, received } = await cluster.process();
    cluster.occupy('a', [0, 1, 2], 60_000);
    expect(await cluster.settle(redlock.tryAcquire(['b', 'a']))).toBeNull();
    expect(received('busy')).toMatchObject([{ keys: ['a', 'b'] }]);
  });
});
