import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { LockHistoryEvent } from './lock-history.ts';

/** Appends events to a file, each in one write of its own, so that a killed process loses at most the line it was writing. */
export class HistoryFile<Event = LockHistoryEvent> {
  private readonly descriptor: number;

  constructor(path: string) {
    this.descriptor = openSync(path, 'a');
  }

  append(event: Event): void {
    writeSync(this.descriptor, `${JSON.stringify(event)}\n`);
  }

  close(): void {
    closeSync(this.descriptor);
  }
}

/**
 * The events of one file. A last line without its end is left out: its process was killed in the middle of it.
 *
 * @throws Error when any other line is not an event.
 */
export function readHistory<Event = LockHistoryEvent>(path: string): Event[] {
  const lines = readFileSync(path, 'utf8').split('\n');
  lines.pop();
  return lines.map((line, index) => {
    try {
      return JSON.parse(line) as Event;
    } catch (cause) {
      throw new Error(`${path}:${index + 1} is not an event: ${line}`, { cause });
    }
  });
}
