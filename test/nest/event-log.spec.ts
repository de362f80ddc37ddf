import type { Logger } from '@nestjs/common';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { LockEvent } from '../../lib/core/events.ts';
import { eventListener } from '../../lib/nest/host/event-log.ts';

function logged(event: LockEvent, onEvent?: () => void): string {
  const lines: string[] = [];
  const add = (line: string) => void lines.push(line);
  const logger = { log: add, warn: add, error: add } as unknown as Logger;
  eventListener(logger, onEvent)(event);
  return lines.join('\n');
}

const left: LockEvent = {
  type: 'node-left',
  address: 'a:1',
  message: 'ECONNRESET.',
  hasQuorum: true,
};

describe('the log of events says what to do', () => {
  it.each([
    [1, '1 section that joined it'],
    [2, '2 sections that joined it'],
  ])('when %d sections keep a lock', (sections, who) => {
    expect(
      logged({ type: 'release-delayed', keys: ['a'], token: 5, sections, sinceMs: 30_000.4 }),
    ).toBe(
      `Lock "a" is still kept by ${who}, 30000 ms after its outer work ended. Probably a promise was not awaited: await it in the outer work, or begin work that goes on after the outer work has ended.`,
    );
  });

  it('when a node left', () => {
    expect(logged(left)).toBe(
      'Node a:1 left: ECONNRESET. Locks go on while a quorum is connected.',
    );
  });

  it('when onEvent throws', () => {
    const fail = () => {
      throw new Error('its own');
    };
    expect(logged(left, fail)).toMatch(
      /^onEvent failed, and later failures of it are not logged\. Locks are not affected; mend the listener: Error: its own\n +at/m,
    );
  });
});

describe('the log of a node that forgets again and again that it was joined', () => {
  const lost = {
    type: 'node-left',
    address: 'a:1',
    message: 'has to be joined again',
    hasQuorum: true,
  } as const;
  const joined = { type: 'node-joined', address: 'a:1', quarantineMs: 0 } as const;
  const plain = 'Node a:1 left: has to be joined again. Locks go on while a quorum is connected.';
  const again = expect.stringMatching(
    /^Node a:1 forgot again within a minute .*maxmemory-policy noev/,
  );

  /** What is logged of events, each so many ms after the one before. */
  function log() {
    const lines: string[] = [];
    const add = (line: string) => void lines.push(line);
    let nowMs = 5;
    jest.spyOn(performance, 'now').mockImplementation(() => nowMs);
    const listener = eventListener({ log: add, warn: add } as unknown as Logger, undefined);
    const after = (ms: number, ...events: LockEvent[]) => {
      for (const event of events) {
        nowMs += ms;
        listener(event);
      }
      return lines.splice(0);
    };
    return after;
  }
  afterEach(() => void jest.restoreAllMocks());

  it('has the first and the second, with the likely cause, and then how many there were in a minute', () => {
    const after = log();
    const first = [plain, 'Node a:1 joined.', again, 'Node a:1 joined.'];
    expect(after(10, lost, joined, lost, joined)).toEqual(first);
    const often = Array.from({ length: 99 }, () => [lost, joined]).flat();
    expect(after(100, ...often)).toEqual([]);
    const counted = expect.stringMatching(/ 100 more times in 60 s .*maxmemory-policy/);
    expect([...after(40_180, lost), ...after(1, joined)]).toEqual([counted, 'Node a:1 joined.']);
    expect(after(100, ...often)).toEqual([again, 'Node a:1 joined.']);
    expect(after(60_000, lost)).toEqual([expect.stringContaining('forgot 99 more times in 80 s')]);
    expect(after(60_000, lost)).toEqual([plain]);
  });

  it('tells nodes apart, and says what else happens to them', () => {
    const after = log();
    expect(after(1, lost, lost, lost)).toEqual([plain, again]);
    expect(after(1, { ...lost, address: 'b:1' })).toEqual([plain.replace('a:1', 'b:1')]);
    const others: LockEvent[] = [
      { type: 'node-failing', address: 'a:1', reason: 'OOM' },
      { ...lost, message: 'ECONNRESET' },
    ];
    for (const other of others)
      expect(after(1, lost, lost, other, joined).at(-1)).toBe('Node a:1 joined.');
  });
});
