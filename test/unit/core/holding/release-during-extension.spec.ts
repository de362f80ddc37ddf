import { describe, expect, it } from '@jest/globals';
import { clusterFactory } from '../support/cluster.ts';

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

  it('ends every extension that is open, the one in rhythm and the one by hand', async () => {
    const made = await cluster(3);
    const { redlock, nodes } = await made.process({ ttl: 3_000, latencyMs: 20 });
    const lock = await made.settle(redlock.acquire('a'));
    await made.advance(950);
    for (const server of made.servers) server.forgetScripts();
    const extension = lock.extend().catch((error: unknown) => error);
    // The one in rhythm begins before the one by hand is refused; then that one waits for a join.
    while (nodes[0]!.asked('extend').length < 2) await made.advance(1);
    expect(nodes[0]!.asked('join')).toHaveLength(1);
    while (nodes[0]!.asked('join').length < 2) await made.advance(1);
    await made.settle(lock.release());
    await made.settle(extension);
    await made.advance(100);
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
