export { assertFenceConformance, fenceConformance } from './fence-conformance.ts';
export type {
  FenceConformanceCase,
  FenceConformanceOptions,
  FenceConformanceReport,
} from './fence-conformance.ts';
export type { FenceStressOptions } from './fence-conformance-stress.ts';
export type { FenceStore, FenceTicket } from './fence-store.ts';
