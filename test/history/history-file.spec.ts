import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HistoryFile, readHistory } from './history-file.ts';
import type { LockHistoryEvent } from './lock-history.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lock-history-'));
  path = join(folder, 'worker.jsonl');
});
afterEach(() => rmSync(folder, { recursive: true }));

const events: LockHistoryEvent[] = [
  { type: 'step', process: 'p', holder: 'h', at: 123456789.123456 },
  { type: 'lost', process: 'p', holder: 'h', at: 2, reason: 'expired' },
];

describe('a history file', () => {
  it('gives back what was appended, also by a second writer', () => {
    for (const event of events) {
      const file = new HistoryFile(path);
      file.append(event);
      file.close();
    }
    expect(readHistory(path)).toEqual(events);
  });

  it('leaves out a last line that was cut', () => {
    writeFileSync(path, `${JSON.stringify(events[0])}\n`);
    appendFileSync(path, '{"type":"lost","proc');
    expect(readHistory(path)).toEqual([events[0]]);
  });

  it('refuses a broken line elsewhere, naming it', () => {
    writeFileSync(path, `{"type"\n${JSON.stringify(events[0])}\n`);
    expect(() => readHistory(path)).toThrow('worker.jsonl:1 is not an event: {"type"');
  });
});
