import { MemoryLockNode, MemoryLockServer } from '../../lib/testing/index.ts';
import type { ContractHarness } from './contract-harness.ts';
import { serverData } from './server-data.ts';

const PREFIX = 'contract:';

/** The contract's harness around one server in memory, the real one or one that a test broke on purpose. */
export function createMemoryHarness(
  server = new MemoryLockServer({ fresh: true }),
): ContractHarness {
  const nodes: MemoryLockNode[] = [];
  let offsetMs = 0;
  return {
    ...serverData(PREFIX, async (name, ...values) => server.call(name, ...values)),
    createNode() {
      const node = new MemoryLockNode(server);
      nodes.push(node);
      return node;
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
