import type { NodeState, WorkerState } from '../stage/stage-event.ts';
import type { StageState } from '../stage/stage-state.ts';
import type { Paint } from './paint.ts';

/** Where the story stands, in one line: progress, servers, workers, counts. */
export function statusLine(state: StageState, elapsedMs: number, paint: Paint): string {
  const total = state.acts.length;
  const progress = '━'.repeat(state.actsDone) + '─'.repeat(Math.max(0, total - state.actsDone));
  const nodes = state.nodes.map((node) => nodeMark(node, paint)).join('');
  const workers = state.workers.map((worker) => workerMark(worker, paint)).join('');
  const counts = `booked ${state.booked}  too late ${state.taken}  failed ${state.failed}  refunded ${state.refunded}`;
  return `${seconds(elapsedMs)}  ${paint('cyan', progress)}  nodes ${nodes}  workers ${workers}  ${counts}`;
}

/** Seconds since the start, in columns. */
export function seconds(atMs: number): string {
  return `${(atMs / 1000).toFixed(1).padStart(6)} s`;
}

function nodeMark(state: NodeState, paint: Paint): string {
  if (state === 'up') return paint('green', '●');
  return state === 'frozen' ? paint('cyan', '◌') : paint('red', '✖');
}

function workerMark(state: WorkerState, paint: Paint): string {
  if (state === 'working') return paint('green', '▶');
  return state === 'stopped' ? paint('red', '■') : paint('dim', '·');
}
