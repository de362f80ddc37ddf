import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { HistoryFile } from './history-file.ts';
import { historyNow, type StalledEvent } from './lock-history.ts';

/** Interval at which somebody looks. */
export const TICK_MS = 10;
/** A look that is later than this means that there was none in between. */
export const STALL_MS = 25;

/**
 * Writes down when this process did not run, whatever the reason. Does not keep it alive; ends with the returned call.
 *
 * @param notePath where the time of the last look stands, for others to read once this process was killed
 */
export function recordStalls(
  file: HistoryFile<StalledEvent>,
  process: string,
  notePath?: string,
): () => void {
  const note = notePath === undefined ? undefined : openSync(notePath, 'w');
  const tick = new Float64Array([historyNow()]);
  const writeNote = (): void => {
    if (note !== undefined) writeSync(note, tick, 0, tick.byteLength, 0);
  };
  writeNote();
  const timer = setInterval(() => {
    const from = tick[0]!;
    const to = historyNow();
    // Stall is written before the note, so that a kill in between loses nothing.
    if (to - from > STALL_MS) file.append({ type: 'stalled', process, from, to });
    tick[0] = to;
    writeNote();
  }, TICK_MS);
  timer.unref();
  return () => {
    clearInterval(timer);
    if (note !== undefined) closeSync(note);
  };
}

/** The stall in which `process` was killed, and which it could not write down itself; undefined when it ran, or had not begun to look. */
export function stallBeforeKill(
  notePath: string,
  process: string,
  killedAt: number,
): StalledEvent | undefined {
  const note = readFileSync(notePath);
  if (note.length === 0) return undefined;
  const from = note.readDoubleLE();
  if (killedAt - from <= STALL_MS) return undefined;
  return { type: 'stalled', process, from, to: killedAt, killed: true };
}
