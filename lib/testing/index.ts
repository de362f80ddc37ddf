export { assertFenceConformance, fenceConformance } from './fence-conformance.ts';
export type {
  FenceConformanceCase,
  FenceConformanceOptions,
  FenceConformanceReport,
} from './fence-conformance.ts';
export type { FenceStressOptions } from './fence-conformance-stress.ts';
export type { FenceStore, FenceTicket } from './fence-store.ts';
export { createMemoryNodes } from './create-memory-nodes.ts';
export type { MemoryCommandName, MemoryFault } from './memory-fault.ts';
export { MemoryLockNode } from './memory-lock-node.ts';
export type { MemoryLockNodeOptions } from './memory-lock-node.ts';
export { MemoryLockServer } from './memory-lock-server.ts';
export type { MemoryLockServerOptions } from './memory-lock-server.ts';
export type { MemorySnapshot } from './memory-state.ts';
