import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../../../lib/core/lock.ts';
import { processFactory, rejection } from '../support/cluster.ts';
import type { ProcessOptions } from '../support/cluster.ts';

const newProcess = processFactory();
const reason = new Error('the request was cancelled');

/** A process whose next acquire of `a` can be aborted. */
async function abortable(options: ProcessOptions = {}, size = 3) {
  const process = await newProcess(options, size);
  const controller = new AbortController();
  const { signal } = controller;
  const acquire = () => process.redlock.acquire('a', { wait: '1m', signal });
  return Object.assign(process, { acquire, signal, abort: () => controller.abort(reason) });
}

describe("an aborted acquire rejects with the signal's own reason and leaves no key behind,", () => {
  it('when it was aborted before', async () => {
    const { redlock, node } = await newProcess();
    await expect(redlock.acquire('a', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const unnamed = redlock.tryAcquire('a', { signal: AbortSignal.abort() });
    await expect(unnamed).rejects.toMatchObject({ name: 'AbortError' });
    expect(node.asked('acquire')).toEqual([]);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 8])('%i ticks after the deciding vote', async (ticks) => {
    const { cluster, acquire, abort, node } = await abortable({}, 1);
    const vote = node.acquire.bind(node);
    node.acquire = (request, settle) =>
      vote(request, (reply) => {
        settle(reply);
        let afterVote = Promise.resolve();
        for (let tick = 0; tick < ticks; tick += 1) afterVote = afterVote.then(() => undefined);
        void afterVote.then(abort);
      });
    const outcome = await cluster.settle<unknown>(acquire().catch((error: unknown) => error));
    await cluster.advance(10);
    // The abort came in time, or the caller has the lock: never a key without a holder.
    const holder = outcome === reason ? null : (outcome as Lock).token.holder;
    expect(cluster.holdersOf('a')).toEqual([holder]);
    expect(node.asked('release')).toHaveLength(outcome === reason ? 1 : 0);
  });

  it('while the token source works, whose late token is thrown away', async () => {
    let issue: (token: number) => void = () => undefined;
    const tokens = { issue: () => new Promise<number>((resolve) => (issue = resolve)) };
    const { cluster, acquire, abort } = await abortable({ tokens });
    const rejected = rejection(acquire());
    await cluster.advance(10);
    abort();
    const abortedAtMs = cluster.nowMs;
    expect(await cluster.settle(rejected)).toBe(reason);
    expect(cluster.nowMs - abortedAtMs).toBeLessThan(10);
    issue(5);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('a signal', () => {
  it('that is aborted after the lock was given changes nothing, and nothing listens to it', async () => {
    const { cluster, acquire, abort, signal } = await abortable();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal) as (...given: unknown[]) => void;
    const remove = signal.removeEventListener.bind(signal) as (...given: unknown[]) => void;
    Object.assign(signal, {
      addEventListener: (...given: unknown[]) => ((listeners += 1), add(...given)),
      removeEventListener: (...given: unknown[]) => ((listeners -= 1), remove(...given)),
    });
    const lock = await cluster.settle(acquire());
    expect(listeners).toBe(0);
    abort();
    await cluster.advance(5_000);
    expect(lock.isHeld).toBe(true);
  });
});
