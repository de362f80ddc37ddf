import { Redis } from 'ioredis';
import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { RedisLockNode } from '../../lib/redis/redis-lock-node.ts';
import { gateName } from '../../lib/redis/scripts.ts';
import type { RedisServer } from '../support/redis-servers/index.ts';
import type { ContractHarness } from './contract-harness.ts';
import { lacks } from './lock-node.contract.ts';

const FLOOR_DIGITS = 16;
let harnesses = 0;
const offsetsMs = new WeakMap<RedisServer, number>();

/** The contract's harness around a real server; it must have been started with an append-only file. */
export async function createRedisHarness(
  server: RedisServer,
  { hasMovableClock = false } = {},
): Promise<ContractHarness> {
  const prefix = `contract-${++harnesses}:`;
  const nodes: RedisLockNode[] = [];
  const admin = new Redis(server.url, { maxRetriesPerRequest: 3, retryStrategy: () => 20 });
  admin.on('error', () => undefined); // a restart breaks it; commands report their own errors
  return {
    markerName: new NodeNames(prefix, []).marker,
    createNode() {
      const node = new RedisLockNode(server.url, { keyPrefix: prefix });
      nodes.push(node);
      return node;
    },
    names: (...keys) => new NodeNames(prefix, keys),
    async nowMicros() {
      const [seconds, micros] = await admin.time();
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    async readLock(lockName) {
      const holder = await admin.get(lockName);
      return holder === null ? null : { holder, remainingMs: await admin.pttl(lockName) };
    },
    async writeLock(lockName, holder, ttlMs) {
      await (ttlMs === null ? admin.set(lockName, holder) : admin.psetex(lockName, ttlMs, holder));
    },
    async deleteLock(lockName) {
      await admin.del(lockName);
    },
    async readFloor(floorName) {
      const value = await admin.get(floorName);
      if (value === null) return null;
      const [floor, previous] = value.split(' ').map(Number) as [number, number];
      return { floor, previous, remainingMs: await admin.pttl(floorName) };
    },
    async writeFloor(floorName, { floor, previous }, ttlMs) {
      await admin.psetex(floorName, ttlMs, `${digits(floor)} ${digits(previous)}`);
    },
    async deleteFloor(floorName) {
      await admin.del(floorName);
    },
    async deleteMarker() {
      await admin.del(new NodeNames(prefix, []).marker);
    },
    async endGuard(atMs = 0) {
      const { marker } = new NodeNames(prefix, []);
      const words = (await admin.get(marker))!.split(' ');
      await admin.set(marker, words.with(1, String(atMs)).join(' '));
    },
    async takeMarkerOfAnother() {
      const words = (await admin.get(new NodeNames(prefix, []).marker))!.split(' ');
      await admin.set(new NodeNames(prefix, []).marker, words.with(2, 'f'.repeat(40)).join(' '));
      const gate = await admin.get(gateName(new NodeNames(prefix, []).marker));
      const another = gate === null ? '' : gate.slice(0, 32) + 'f'.repeat(8) + gate.slice(40);
      if (gate !== null)
        await admin.set(gateName(new NodeNames(prefix, []).marker), another, 'KEEPTTL');
    },
    async writeVersions(lowest, highest) {
      const [, ...words] = (await admin.get(new NodeNames(prefix, []).marker))!.split(' ');
      await admin.set(
        new NodeNames(prefix, []).marker,
        [`${lowest}-${highest}`, ...words, 'later'].join(' '),
      );
    },
    async flush() {
      await admin.flushall();
    },
    async forgetScripts() {
      await admin.script('FLUSH');
    },
    restart: (options) => server.restart(options),
    async advance(durationMs) {
      if (!hasMovableClock) lacks('clock');
      const offsetMs = (offsetsMs.get(server) ?? 0) + durationMs;
      offsetsMs.set(server, offsetMs);
      await server.moveClock(offsetMs);
    },
    async close() {
      await Promise.all(nodes.map((node) => node.close()));
      admin.disconnect();
    },
  };
}

function digits(value: number): string {
  return String(value).padStart(FLOOR_DIGITS, '0');
}
