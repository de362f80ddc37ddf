import type { NodeState, WorkerState } from '../stage/stage-event.ts';
import type { StageState } from '../stage/stage-state.ts';
import type { Paint } from './paint.ts';

/** Narrower terminals would break the line, and a broken line can't be redrawn. */
const WIDTH_WITH_COUNTS = 100;

/** State of the stage, in one line: progress of the story, servers, workers, counts where there is room. */
export function statusLine(
  state: StageState,
  elapsedMs: number,
  width: number,
  paint: Paint,
): string {
  const total = state.acts.length;
  if (state.nodes.length === 0) return `${seconds(elapsedMs)}  ${paint('cyan', 'starting')}`;
  const bar = '━'.repeat(state.actsDone) + '─'.repeat(Math.max(0, total - state.actsDone));
  const progress = total === 0 ? '' : `${paint('cyan', bar)}  `;
  const nodes = state.nodes.map((node) => nodeMark(node, paint)).join('');
  const workers = state.workers.map((worker) => workerMark(worker, paint)).join('');
  const line = `${seconds(elapsedMs)}  ${progress}servers ${nodes}  workers ${workers}`;
  if (width < WIDTH_WITH_COUNTS) return line;
  return `${line}  booked ${state.booked}  too late ${state.taken}  failed ${state.failed}  refunded ${state.refunded}`;
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
