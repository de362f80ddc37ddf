import { AsyncLocalStorage } from 'node:async_hooks';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { systemEnvironment } from '../../../lib/core/system-environment.ts';

const { timers } = systemEnvironment;

afterEach(() => {
  jest.useRealTimers();
});

describe('a timer of the system', () => {
  it.each([0, 1_000])('of %i ms keeps nothing of the async context of its caller', (ms) => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const original = { setTimeout: globalThis.setTimeout, setImmediate: globalThis.setImmediate };
    const look = () => ({ unref: () => undefined, seen: seen.push(storage.getStore()) });
    Object.assign(globalThis, { setTimeout: look, setImmediate: look });
    try {
      storage.run('request', () => timers.set(() => undefined, ms));
    } finally {
      Object.assign(globalThis, original);
    }
    expect(seen).toEqual([undefined]);
  });

  it.each([0, 1_000])(
    'of %i ms that was set under fake timers is cleared after them',
    async (ms) => {
      jest.useFakeTimers();
      const handle = timers.set(() => undefined, ms);
      jest.useRealTimers();
      timers.clear(handle);
      // Node counts immediates. Were one taken off that is none, an immediate that is alone would never run.
      const ran = new Promise((resolve) => setImmediate(() => resolve('ran')));
      let limit: NodeJS.Timeout | undefined;
      // Begins after a first timer, so that a process that was stopped comes to its immediates before it is over.
      const late = new Promise((resolve) => {
        limit = setTimeout(() => {
          limit = setTimeout(() => resolve('starved'), 2_000);
        }, 1);
      });
      const outcome = await Promise.race([ran, late]);
      clearTimeout(limit);
      if (outcome === 'starved') setImmediate(() => undefined);
      expect(outcome).toBe('ran');
    },
  );

  it.each([0, 5])(
    'of %i ms that was cleared does not fire, also when it is cleared twice',
    async (ms) => {
      const fired = jest.fn();
      const handle = timers.set(fired, ms);
      timers.clear(handle);
      timers.clear(handle);
      timers.clear(undefined);
      await new Promise((resolve) => timers.set(() => resolve(undefined), 20));
      await new Promise((resolve) => setImmediate(resolve));
      expect(fired).not.toHaveBeenCalled();
    },
  );
});
