import { describe, expect, it } from '@jest/globals';
import { MemoryLockServer } from '../../../lib/testing/index.ts';

const REQUEST = { markerName: '#marker', restartGuardMs: 100, floorRetentionMs: 600_000 };

describe('JOIN in memory', () => {
  it('happens at one instant, as a script of Redis does, although the clock moves on at every reading', () => {
    let micros = 1_800_000_000_000_000;
    const server = new MemoryLockServer({ clock: { wallMicros: () => (micros += 1_000) } });
    expect(server.join(REQUEST)).toEqual({ kind: 'joined', quarantineMs: 100 });
    const [marker] = server.state.markers.values();
    const again = server.join(REQUEST);
    expect(again).toEqual({
      kind: 'joined',
      quarantineMs: marker!.voteAfterMs - Math.floor(micros / 1_000),
    });
  });
});
