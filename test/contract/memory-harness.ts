import { NodeNames } from '../../lib/core/nodes/node-names.ts';
import { MemoryLockNode, MemoryLockServer } from '../../lib/testing/index.ts';
import type { ContractHarness } from './contract-harness.ts';

const PREFIX = 'contract:';

/** The contract's harness around one server in memory, the real one or one that a test broke on purpose. */
export function createMemoryHarness(
  server = new MemoryLockServer({ fresh: true }),
): ContractHarness {
  const nodes: MemoryLockNode[] = [];
  const { state } = server;
  let offsetMs = 0;
  return {
    markerName: new NodeNames(PREFIX, []).marker,
    createNode() {
      const node = new MemoryLockNode(server);
      nodes.push(node);
      return node;
    },
    names: (...keys) => new NodeNames(PREFIX, keys),
    nowMicros: async () => state.nowMicros(),
    async readLock(lockName) {
      const holder = state.locks.get(lockName);
      return holder === undefined
        ? null
        : { holder, remainingMs: state.locks.remainingMs(lockName) };
    },
    async writeLock(lockName, holder, ttlMs) {
      state.locks.set(lockName, holder, ttlMs);
    },
    async deleteLock(lockName) {
      server.deleteLock(lockName);
    },
    async readFloor(floorName) {
      const floor = state.floors.get(floorName);
      return floor === undefined
        ? null
        : { ...floor, remainingMs: state.floors.remainingMs(floorName) };
    },
    async writeFloor(floorName, floor, ttlMs) {
      state.floors.set(floorName, floor, ttlMs);
    },
    async deleteFloor(floorName) {
      state.floors.delete(floorName);
    },
    async deleteMarker() {
      state.markers.delete(new NodeNames(PREFIX, []).marker);
    },
    async endGuard(atMs = 0) {
      const { marker: name } = new NodeNames(PREFIX, []);
      state.markers.set(name, { ...state.markers.get(name)!, voteAfterMs: atMs });
    },
    async takeMarkerOfAnother() {
      const marker = state.markers.get(new NodeNames(PREFIX, []).marker)!;
      state.markers.set(new NodeNames(PREFIX, []).marker, { ...marker, runId: 'another' });
    },
    async writeVersions(lowest, highest) {
      const marker = state.markers.get(new NodeNames(PREFIX, []).marker)!;
      state.markers.set(new NodeNames(PREFIX, []).marker, {
        ...marker,
        versions: [lowest, highest],
      });
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
