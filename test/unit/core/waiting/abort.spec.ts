import { describe, expect, it } from '@jest/globals';
import { clusterFactory, processFactory, rejection } from '../support/cluster.ts';

const newCluster = clusterFactory();
const newProcess = processFactory();
const reason = new Error('the request was cancelled');

describe("an aborted acquire rejects with the signal's own reason and leaves no key behind", () => {
  it('when it was aborted before', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    await expect(redlock.acquire('a', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(nodes[0]!.asked('acquire')).toEqual([]);
  });

  it('in line behind another', async () => {
    const { cluster, redlock } = await newProcess();
    cluster.occupy('a', [0, 1, 2], 60_000);
    const first = rejection(redlock.acquire('a', { wait: '1s' }));
    const controller = new AbortController();
    const rejected = rejection(redlock.acquire('a', { wait: '1m', signal: controller.signal }));
    await cluster.advance(100);
    controller.abort(reason);
    expect(await cluster.settle(rejected)).toBe(reason);
    await cluster.settle(first);
  });

  it('behind a lock of this process', async () => {
    const { cluster, redlock } = await newProcess();
    const lock = await cluster.settle(redlock.acquire('a'));
    const controller = new AbortController();
    const rejected = rejection(redlock.acquire('a', { wait: '1m', signal: controller.signal }));
    await cluster.advance(100);
    controller.abort(reason);
    expect(await cluster.settle(rejected)).toBe(reason);
    expect(lock.isHeld).toBe(true);
  });

  it.each([0, 0.5, 1, 1.5, 1.9])('during the vote, %d ms after it was sent', async (afterMs) => {
    const { cluster, redlock } = await newProcess();
    const controller = new AbortController();
    const rejected = rejection(redlock.acquire('a', { signal: controller.signal }));
    await cluster.advance(afterMs);
    controller.abort(reason);
    expect(await cluster.settle(rejected)).toBe(reason);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 8])('%i ticks after the deciding vote', async (ticks) => {
    const { cluster, redlock, nodes } = await newProcess({}, 1);
    const controller = new AbortController();
    const acquire = nodes[0]!.acquire.bind(nodes[0]);
    nodes[0]!.acquire = (request, settle) =>
      acquire(request, (reply) => {
        settle(reply);
        let afterVote = Promise.resolve();
        for (let tick = 0; tick < ticks; tick += 1) afterVote = afterVote.then(() => undefined);
        void afterVote.then(() => controller.abort(reason));
      });
    const outcome = await cluster.settle(
      redlock.acquire('a', { signal: controller.signal }).then(
        (lock) => lock,
        (error: unknown) => error,
      ),
    );
    await cluster.advance(10);
    // Either it came in time, or the caller has the lock: never a key without an owner.
    const owner = cluster.holdersOf('a')[0];
    const holder =
      outcome === reason ? undefined : (outcome as { token: { holder: string } }).token.holder;
    expect(owner).toBe(holder);
    expect(nodes[0]!.asked('release')).toHaveLength(outcome === reason ? 1 : 0);
  });

  it('in the pause between two tries', async () => {
    const { cluster, redlock, nodes } = await newProcess();
    cluster.occupy('a', [0, 1], 60_000);
    const controller = new AbortController();
    const rejected = rejection(redlock.acquire('a', { wait: '1m', signal: controller.signal }));
    await cluster.advance(5_000);
    const tries = nodes[0]!.asked('acquire').length;
    controller.abort(reason);
    expect(await cluster.settle(rejected)).toBe(reason);
    await cluster.advance(60_000);
    expect(nodes[0]!.asked('acquire')).toHaveLength(tries);
    expect(cluster.holders('a')).toBe(0);
  });

  it('while the token source works, whose late token is thrown away', async () => {
    const cluster = await newCluster();
    let issue: (token: number) => void = () => undefined;
    const tokens = { issue: () => new Promise<number>((resolve) => (issue = resolve)) };
    const { redlock } = await cluster.process({ tokens });
    const controller = new AbortController();
    const rejected = rejection(redlock.acquire('a', { signal: controller.signal }));
    await cluster.advance(10);
    controller.abort(reason);
    expect(await cluster.settle(rejected)).toBe(reason);
    issue(5);
    await cluster.advance(10);
    expect(cluster.holders('a')).toBe(0);
  });
});

describe('a signal', () => {
  it('that is aborted after the lock was given changes nothing, and is no longer listened to', async () => {
    const { cluster, redlock } = await newProcess();
    const controller = new AbortController();
    let listeners = 0;
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...given: unknown[]) => {
      listeners += 1;
      (add as (...all: unknown[]) => void)(...given);
    };
    signal.removeEventListener = (...given: unknown[]) => {
      listeners -= 1;
      (remove as (...all: unknown[]) => void)(...given);
    };
    const lock = await cluster.settle(redlock.acquire('a', { signal }));
    expect(listeners).toBe(0);
    controller.abort(reason);
    await cluster.advance(5_000);
    expect(lock.isHeld).toBe(true);
  });

  it('without a reason of its own gives an AbortError', async () => {
    const { cluster, redlock } = await newProcess();
    await expect(redlock.tryAcquire('a', { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: 'AbortError',
    });
  });
});
