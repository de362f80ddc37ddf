import type { BookingResult } from './booking-result.ts';
import type { NodeState, StageEvent, WorkerState } from './stage-event.ts';
import type { SummaryRow } from './summary.ts';

/** State of the story now. Made from the events alone, so that any view can show it. */
export interface StageState {
  readonly acts: readonly string[];
  /** Acts that are over, or were skipped. */
  readonly actsDone: number;
  readonly nodes: readonly NodeState[];
  readonly workers: readonly WorkerState[];
  readonly booked: number;
  readonly taken: number;
  readonly failed: number;
  /** Bookings that failed, by the code of their error. */
  readonly failures: Readonly<Record<string, number>>;
  readonly refunded: number;
  readonly summary: readonly SummaryRow[];
}

export const INITIAL_STATE: StageState = Object.freeze({
  acts: [],
  actsDone: 0,
  nodes: [],
  workers: [],
  booked: 0,
  taken: 0,
  failed: 0,
  failures: {},
  refunded: 0,
  summary: [],
});

/** The state after one more event. */
export function after(state: StageState, event: StageEvent): StageState {
  switch (event.type) {
    case 'opened':
      return {
        ...state,
        acts: event.acts,
        nodes: event.nodes.map(() => 'up'),
        workers: Array.from({ length: event.workers }, () => 'working'),
      };
    case 'act-skipped':
    case 'act-ended':
      return { ...state, actsDone: state.actsDone + 1 };
    case 'node':
      return { ...state, nodes: state.nodes.with(event.node - 1, event.state) };
    case 'worker':
      return { ...state, workers: state.workers.with(event.worker - 1, event.state) };
    case 'step':
      return event.step.name === 'refunded' ? { ...state, refunded: state.refunded + 1 } : state;
    case 'booking-ended':
      return withResult(state, event.result);
    case 'summary':
      return { ...state, summary: event.rows };
    default:
      return state;
  }
}

function withResult(state: StageState, { outcome, error }: BookingResult): StageState {
  const counted = { ...state, [outcome]: state[outcome] + 1 };
  if (!error) return counted;
  const code = error.code ?? error.name;
  const before = state.failures[code] ?? 0;
  return { ...counted, failures: { ...state.failures, [code]: before + 1 } };
}
