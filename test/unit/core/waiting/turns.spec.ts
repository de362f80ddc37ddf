import { describe, expect, it } from '@jest/globals';
import { Turns } from '../../../../lib/core/holding/turns.ts';
import { letOthersGo, newRoom } from '../support/waiting-room.ts';

describe('while it is the turn of other processes, a caller', () => {
  it('stands in line, so that a hint ends that, and listens only after a try of its own', async () => {
    const room = newRoom();
    (room.record('a').turns = new Turns()).grantsInARow = 4;
    room.chance(0);
    const caller = room.call('a');
    await room.advance(30);
    expect([caller.tries, caller.place?.key, room.node.watching.size]).toEqual([0, 'a', 0]);
    room.table.hint('lock:a', 'elsewhere');
    await room.advance(1);
    expect(caller.tries).toBe(1);
  });

  it.each([
    ['half of its time for its try', 60_000, 2, 250],
    ['four round trips where they take longer than half', 60_000, 100, 100],
    ['all of its time where round trips take longer', 60_000, 150, 0],
  ])('keeps %s', async (_, turnMs, roundTripMs, triesAfterMs) => {
    const room = newRoom();
    room.set.roundTripMs = roundTripMs;
    letOthersGo(room, turnMs);
    const caller = room.call('a', { wait: 0 });
    if (triesAfterMs > 0) await room.advance(triesAfterMs - 1);
    expect(caller.tries).toBe(triesAfterMs > 0 ? 0 : 1);
    await room.advance(1);
    expect(caller.tries).toBe(1);
  });
});
