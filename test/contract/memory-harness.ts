import { lockNames, markerName } from '../../lib/core/nodes/node-names.ts';
import { MemoryLockNode, MemoryLockServer } from '../../lib/testing/index.ts';
import type { ContractHarness } from './contract-harness.ts';

const PREFIX = 'contract:';

/** The contract's harness around one server in memory, the real one or one that a test broke on purpose. */
export function createMemoryHarness(server = new MemoryLockServer()): ContractHarness {
  const nodes: MemoryLockNode[] = [];
  const { state } = server;
  let offsetMs = 0;
  return {
    markerName: markerName(PREFIX),
    createNode() {
      const node = new MemoryLockNode(server);
      nodes.push(node);
      return node;
    },
    names: (...keys) => lockNames(PREFIX, keys),
    nowMicros: async () => state.nowMicros(),
    async readLock(lockName) {
      const owner = state.locks.get(lockName);
      return owner === undefined ? null : { owner, remainingMs: state.locks.remainingMs(lockName) };
    },
    async writeLock(lockName, owner, ttlMs) {
      state.locks.set(lockName, owner, ttlMs);
    },
    async deleteLock(lockName) {
      server.deleteLock(lockName);
    },
    async readFence(fenceName) {
      const fence = state.fences.get(fenceName);
      return fence === undefined
        ? null
        : { ...fence, remainingMs: state.fences.remainingMs(fenceName) };
    },
    async writeFence(fenceName, fence, ttlMs) {
      state.fences.set(fenceName, fence, ttlMs);
    },
    async deleteFence(fenceName) {
      state.fences.delete(fenceName);
    },
    async deleteMarker() {
      state.markers.delete(markerName(PREFIX));
    },
    flush: async () => server.flush(),
    forgetScripts: async () => server.forgetScripts(),
    restart: async (options) => server.restart(options),
    async advance(durationMs) {
      offsetMs += durationMs;
      server.setClockOffset(offsetMs);
    },
    async close() {
      await Promise.all(nodes.map((node) => node.close()));
    },
  };
}
