import { Redis } from 'ioredis';
import { lockNames, markerName } from '../../lib/core/nodes/node-names.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import type { ContractHarness } from './contract-harness.ts';
import { lacks } from './lock-node.contract.ts';

const FENCE_DIGITS = 16;
let harnesses = 0;

/** The contract's harness around a real server; it must have been started with an append-only file. */
export async function createRedisHarness(server: RedisServer): Promise<ContractHarness> {
  const prefix = `contract-${++harnesses}:`;
  const nodes: RedisLockNode[] = [];
  const admin = new Redis(server.url, { maxRetriesPerRequest: 3, retryStrategy: () => 20 });
  admin.on('error', () => undefined); // a restart breaks it; commands report their own errors
  return {
    markerName: markerName(prefix),
    createNode() {
      const node = new RedisLockNode(server.url, { keyPrefix: prefix });
      nodes.push(node);
      return node;
    },
    names: (...keys) => lockNames(prefix, keys),
    async nowMicros() {
      const [seconds, micros] = await admin.time();
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    async readLock(lockName) {
      const owner = await admin.get(lockName);
      return owner === null ? null : { owner, remainingMs: await admin.pttl(lockName) };
    },
    async writeLock(lockName, owner, ttlMs) {
      await (ttlMs === null ? admin.set(lockName, owner) : admin.psetex(lockName, ttlMs, owner));
    },
    async deleteLock(lockName) {
      await admin.del(lockName);
    },
    async readFence(fenceName) {
      const value = await admin.get(fenceName);
      if (value === null) return null;
      const [fence, previous] = value.split(' ').map(Number) as [number, number];
      return { fence, previous, remainingMs: await admin.pttl(fenceName) };
    },
    async writeFence(fenceName, { fence, previous }, ttlMs) {
      await admin.psetex(fenceName, ttlMs, `${digits(fence)} ${digits(previous)}`);
    },
    async deleteFence(fenceName) {
      await admin.del(fenceName);
    },
    async deleteMarker() {
      await admin.del(markerName(prefix));
    },
    async flush() {
      await admin.flushall();
    },
    async forgetScripts() {
      await admin.script('FLUSH');
    },
    restart: (options) => server.restart(options),
    advance: async () => lacks('clock'),
    async close() {
      await Promise.all(nodes.map((node) => node.close()));
      admin.disconnect();
    },
  };
}

function digits(value: number): string {
  return String(value).padStart(FENCE_DIGITS, '0');
}
