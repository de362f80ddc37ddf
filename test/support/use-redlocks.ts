import assert from 'node:assert/strict';
import { afterEach } from '@jest/globals';
import type { LockNode } from '../../lib/core/nodes/lock-node.ts';
import type { RedlockOptions } from '../../lib/core/options/options.ts';
import { Redlock } from '../../lib/core/redlock.ts';
import { createRedisNode } from './clients.ts';
import type { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { eventually } from './eventually.ts';

/** Closes what the returned function was given, after each test. */
export function useClosing(): <Opened extends { close(): Promise<unknown> }>(
  opened: Opened,
) => Opened {
  const open: { close(): Promise<unknown> }[] = [];
  afterEach(() => Promise.all(open.splice(0).map((each) => each.close())));
  return (opened) => {
    open.push(opened);
    return opened;
  };
}

/** Opens lock services that all nodes have joined; they are closed after each test. No restart guard unless asked for. */
export function useRedlocks(): (
  nodes: readonly LockNode[],
  options?: RedlockOptions,
) => Promise<Redlock> {
  const closing = useClosing();
  return async (nodes, options) => {
    const redlock = closing(new Redlock(nodes, { restartGuard: false, ...options }));
    redlock.open();
    const isOut = () => redlock.status().nodes.some(({ state }) => /down|joining/.test(state));
    await eventually(() => assert.ok(!isOut()));
    return redlock;
  };
}

export function redisNodes(servers: readonly { readonly url: string }[]): RedisLockNode[] {
  return servers.map(({ url }) => createRedisNode(url));
}
