import type { HistoryFile } from '../history/history-file.ts';
import { historyNow, type StalledEvent } from '../history/lock-history.ts';

const TICK_MS = 10;
/** A later tick means that this process did not run. */
const STALL_MS = 25;

/**
 * Writes down when this process did not run, whatever the reason. Does not keep it alive; ends with the returned call.
 *
 * @param process its name in the history
 */
export function recordStalls(
  file: HistoryFile<StalledEvent>,
  process: string,
  now: () => number = historyNow,
): () => void {
  let tickAt = now();
  const timer = setInterval(() => {
    const from = tickAt;
    const to = now();
    tickAt = to;
    if (to - from > STALL_MS) file.append({ type: 'stalled', process, from, to });
  }, TICK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
