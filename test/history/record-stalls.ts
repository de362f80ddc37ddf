import type { HistoryFile } from './history-file.ts';
import { historyNow, type StalledEvent } from './lock-history.ts';

/** How often somebody looks. */
export const TICK_MS = 10;
/** A look that is later than this means that there was none in between. */
export const STALL_MS = 25;

/** Writes down when this process did not run, whatever the reason. Does not keep it alive; ends with the returned call. */
export function recordStalls(file: HistoryFile<StalledEvent>, process: string): () => void {
  let tickAt = historyNow();
  const timer = setInterval(() => {
    const from = tickAt;
    const to = historyNow();
    tickAt = to;
    if (to - from > STALL_MS) file.append({ type: 'stalled', process, from, to });
  }, TICK_MS);
  timer.unref();
  return () => clearInterval(timer);
}
