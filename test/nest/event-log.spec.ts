import type { Logger } from '@nestjs/common';
import { describe, expect, it } from '@jest/globals';
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
