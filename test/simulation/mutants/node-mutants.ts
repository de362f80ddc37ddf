import { OVERLAP, TOKENS, mutant } from './mutant.ts';
import type { Mutant } from './mutant.ts';

/** Nodes that break the protocol. */
export const NODE_MUTANTS: readonly Mutant[] = [
  mutant('equal-ballot-accepted', 'a node accepts a ballot that is not above its floor', TOKENS, [
    'lib/testing/memory/memory-scripts.ts',
    'if (ballot <= floor)',
    'if (ballot < floor)',
  ]),
  mutant('no-ballot-check', 'a node accepts any ballot', TOKENS, [
    'lib/testing/memory/memory-scripts.ts',
    'if (ballot <= floor)',
    'if (ballot < 0)',
  ]),
  mutant(
    'floor-not-restored',
    'an abandoned attempt leaves its ballot behind (P1)',
    ['needless-loss', 'loss-not-told'],
    [
      'lib/testing/memory/memory-scripts.ts',
      'if (!granted) restoreFloor',
      'if (granted === undefined) restoreFloor',
    ],
  ),
  mutant('floor-restored-after-grant', 'the release of a granted lock forgets its token', TOKENS, [
    'lib/testing/memory/memory-scripts.ts',
    'if (!granted) restoreFloor',
    'restoreFloor',
  ]),
  mutant(
    'extend-without-floor-check',
    'a missing key is set again although somebody newer was accepted (C4)',
    ['extend-is-no-validation'],
    ['lib/testing/memory/memory-scripts.ts', 'floorOf(state, pair) > request.ballot', 'false'],
  ),
  mutant(
    'extend-without-holder-check',
    'an extension takes the key of another holder',
    [...OVERLAP, 'extend-is-no-validation'],
    ['lib/testing/memory/memory-scripts.ts', ': holder !== request.holder;', ': false;'],
    [
      'lib/testing/memory/memory-scripts.ts',
      'const missing = state.locks.get(pair.lock) === undefined;',
      'const missing = false;',
    ],
  ),
  mutant(
    'guard-does-not-see-restarts',
    'the marker of an earlier start of the server is believed',
    [...OVERLAP, ...TOKENS],
    [
      'lib/testing/memory/memory-scripts.ts',
      'if (marker?.runId === runId)',
      'if (marker !== undefined)',
    ],
  ),
  mutant(
    'no-floor-after-restart',
    'after its quarantine a node accepts ballots that it may have seen before (C7)',
    TOKENS,
    [
      'lib/testing/memory/memory-scripts.ts',
      'return Math.max(expired, marker.voteAfterMs * 1000 - marker.restartGuardMs * 500);',
      'return expired;',
    ],
  ),
  mutant(
    'floor-one-tick-low',
    'the floor after a restart is a millisecond below the middle of the guard (C7)',
    TOKENS,
    [
      'lib/testing/memory/memory-scripts.ts',
      'marker.voteAfterMs * 1000 - marker.restartGuardMs * 500',
      'marker.voteAfterMs * 1000 - marker.restartGuardMs * 500 - 1000',
    ],
  ),
  mutant(
    'no-clock-floor',
    'a node accepts ballots as old as floors that have expired (C8)',
    TOKENS,
    [
      'lib/testing/memory/memory-scripts.ts',
      'const expired = nowMicros - marker.floorRetentionMs * 500;',
      'const expired = 0;',
    ],
  ),
  mutant(
    'token-is-maximum',
    'nodes count up on their own and the token is the largest count (C2)',
    TOKENS,
    ['lib/testing/memory/memory-scripts.ts', 'if (ballot <= floor)', 'if (ballot < 0)'],
    [
      'lib/testing/memory/memory-scripts.ts',
      'if (ballot > Math.max(nowMicros, highest) + DAY_MICROS)',
      'if (ballot < 0)',
    ],
    [
      'lib/testing/memory/memory-scripts.ts',
      '{ floor: ballot, previous }',
      '{ floor: (before?.floor ?? 0) + 1, previous }',
    ],
    [
      'lib/testing/memory/memory-scripts.ts',
      "return { kind: 'accepted' };",
      "return { kind: 'accepted', count: floorOf(state, pairs[0]) };",
    ],
    [
      'lib/core/voting/attempt.ts',
      '        holder: this.holder,\n        ballot,',
      '        holder: this.holder,\n        ballot: Math.max(...round.replies.map((reply) => reply?.count ?? 0)),',
    ],
  ),
  mutant(
    'release-without-holder-check',
    'a late release deletes the lock of another holder',
    OVERLAP,
    [
      'lib/testing/memory/memory-scripts.ts',
      '(pair) => state.locks.get(pair.lock) === holder',
      '(pair) => state.locks.get(pair.lock) !== undefined',
    ],
  ),
];
