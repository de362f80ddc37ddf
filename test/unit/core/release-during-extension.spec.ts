import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from './support/cluster.ts';

const cluster = clusterFactory();

describe('A release while an extension waits for a node to be joined again', () => {
  it('is the last word: no node gets the extension after it', async () => {
    const made = await cluster(3);
    const { redlock } = await made.process();
    const lock = await made.settle(redlock.acquire('a', { extend: false }));
    await made.advance(10);
    // Every node refuses the extension and is joined again; the extension would be asked once more after that.
    for (const server of made.servers) server.forgetScripts();
    const extension = lock.extend().catch((error: unknown) => error);
    await made.advance(2.5);
    await made.settle(lock.release());
    await made.settle(extension);
    await made.advance(20);
    expect(made.holders('a')).toBe(0);
  });

  it('holds for a lock that is lost meanwhile, too', async () => {
    const made = await cluster(3);
    const { redlock } = await made.process();
    const lock = await made.settle(redlock.acquire('a', { extend: false }));
    await made.advance(10);
    for (const server of made.servers) server.forgetScripts();
    const extension = lock.extend().catch((error: unknown) => error);
    await made.advance(2.5);
    await made.settle(redlock.drain(0));
    await made.settle(extension);
    await made.advance(20);
    expect(made.holders('a')).toBe(0);
  });
});
