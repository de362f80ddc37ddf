import { describe, expect, it } from '@jest/globals';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HistoryFile, readHistory } from './history-file.ts';
import type { LockHistoryEvent } from './lock-history.ts';

function withFile(work: (path: string) => void): void {
  const folder = mkdtempSync(join(tmpdir(), 'lock-history-'));
  try {
    work(join(folder, 'worker.jsonl'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const events: LockHistoryEvent[] = [
  { type: 'step', process: 'p', holder: 'h', at: 123456789.123456 },
  { type: 'lost', process: 'p', holder: 'h', at: 2, reason: 'expired' },
];

describe('a history file', () => {
  it('gives back what was appended, also by a second writer', () => {
    withFile((path) => {
      for (const event of events) {
        const file = new HistoryFile(path);
        file.append(event);
        file.close();
      }
      expect(readHistory(path)).toEqual(events);
    });
  });

  it('leaves out a last line that was cut', () => {
    withFile((path) => {
      writeFileSync(path, `${JSON.stringify(events[0])}\n`);
      appendFileSync(path, '{"type":"lost","proc');
      expect(readHistory(path)).toEqual([events[0]]);
    });
  });

  it('refuses a broken line elsewhere, naming it', () => {
    withFile((path) => {
      writeFileSync(path, `{"type"\n${JSON.stringify(events[0])}\n`);
      expect(() => readHistory(path)).toThrow('worker.jsonl:1 is not an event: {"type"');
    });
  });
});
