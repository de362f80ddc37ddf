export { assertFenceConformance, fenceConformance } from './conformance/fence-conformance.ts';
export type {
  FenceConformanceCase,
  FenceConformanceOptions,
  FenceConformanceReport,
} from './conformance/fence-conformance.ts';
export type { FenceStressOptions } from './conformance/fence-conformance-stress.ts';
export type { FencePast, FenceStore, FenceTicket } from './fence-store.ts';
