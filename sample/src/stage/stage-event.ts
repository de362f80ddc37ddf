import type { SaleEvent } from '../sale/sale-event.ts';
import type { BookingStep } from '../seats/booking-journal.ts';
import type { BookingResult } from './booking-result.ts';
import type { SummaryRow } from './summary.ts';
import type { WorkerLockEvent } from './worker-messages.ts';

export type NodeState = 'up' | 'killed' | 'frozen';
export type WorkerState = 'working' | 'stopped' | 'gone';

/** Everything that happens on the stage. Views are made from these alone. */
export type StageEvent =
  | SaleEvent
  | { readonly type: 'narrated'; readonly text: string; readonly tone?: 'good' | 'bad' }
  | {
      readonly type: 'opened';
      /** Addresses. */
      readonly nodes: readonly string[];
      /** Whether nodes can be killed and frozen. */
      readonly canFault: boolean;
      readonly workers: number;
      readonly acts: readonly string[];
    }
  | {
      readonly type: 'act-started';
      readonly index: number;
      readonly title: string;
      readonly showsEveryStep: boolean;
    }
  | {
      readonly type: 'act-skipped';
      readonly index: number;
      readonly title: string;
      readonly reason: string;
    }
  | { readonly type: 'act-ended'; readonly index: number }
  | { readonly type: 'node'; readonly node: number; readonly state: NodeState }
  | { readonly type: 'worker'; readonly worker: number; readonly state: WorkerState }
  | { readonly type: 'logged'; readonly worker: number; readonly text: string }
  | { readonly type: 'step'; readonly worker: number; readonly step: BookingStep }
  | { readonly type: 'lock'; readonly worker: number; readonly event: WorkerLockEvent }
  | { readonly type: 'booking-ended'; readonly result: BookingResult }
  | { readonly type: 'summary'; readonly rows: readonly SummaryRow[] };

/** An event and when it reached the conductor, in ms since the start. */
export interface StageRecord {
  readonly atMs: number;
  readonly event: StageEvent;
}
