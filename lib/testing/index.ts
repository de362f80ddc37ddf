/**
 * Tools for tests of applications: nodes in memory, locks that are busy or lost on purpose, and the conformance kit for fences.
 *
 * @module nestjs-fenced-lock/testing
 */
export { assertFenceConformance, fenceConformance } from './conformance/fence-conformance.ts';
export type {
  FenceConformanceCase,
  FenceConformanceOptions,
  FenceConformanceReport,
} from './conformance/fence-conformance.ts';
export type { FencePast, FenceStore, FenceTicket } from './fence-store.ts';
export { createFencingToken } from './create-fencing-token.ts';
export { createMemoryNodes } from './memory/memory-lock-node.ts';
export type { MemoryCommandName, MemoryFault } from './memory/memory-fault.ts';
export { MemoryLockNode } from './memory/memory-lock-node.ts';
export type { MemoryLockNodeOptions } from './memory/memory-lock-node.ts';
export { occupy } from './occupy.ts';
export type { OccupiedKeys, OccupyOptions } from './occupy.ts';
export { MemoryLockServer } from './memory/memory-lock-server.ts';
export type { MemoryLockServerOptions } from './memory/memory-lock-server.ts';
export type { MemorySnapshot } from './memory/memory-redis.ts';
