import type { Family } from './plan.ts';
import type { Violation } from './violations.ts';

/** One exact change to one file of the code under test; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** The code broken on purpose. A mutant that the simulation does not catch is a hole in its checks. */
export interface Mutant {
  readonly name: string;
  /** What is broken. */
  readonly claim: string;
  readonly edits: readonly Edit[];
  /** What it must be caught by; at least one of them. */
  readonly caughtBy: readonly Violation['rule'][];
  /** Runs that can show it, where others can't. */
  readonly family?: Family;
}

/** Which runs show it, where most do not. */
const FAMILY_OF: Readonly<Record<string, Family>> = {
  'fence-not-restored': 'repair',
  'no-guard': 'amnesia',
  'guard-too-short': 'amnesia',
  'guard-does-not-see-restarts': 'amnesia',
  'no-floor-after-restart': 'amnesia',
  'no-floor-for-expired-fences': 'calendar',
  'extend-without-fence-check': 'early',
  'no-early-loss': 'early',
};

const OVERLAP = ['overlapping-validity', 'fenced-mutex'] as const;
const TOKENS = ['duplicate-token', 'decreasing-token'] as const;

function mutant(
  name: string,
  claim: string,
  caughtBy: readonly Violation['rule'][],
  ...edits: readonly (readonly [file: string, find: string, replace: string])[]
): Mutant {
  return {
    name,
    claim,
    caughtBy,
    ...(FAMILY_OF[name] && { family: FAMILY_OF[name] }),
    edits: edits.map(([file, find, replace]) => ({ file, find, replace })),
  };
}

export const MUTANTS: readonly Mutant[] = [
  mutant('no-drift', 'validity leaves no room for clocks that run apart', OVERLAP, [
    'lib/core/validity.ts',
    'return ttlMs * driftFactor + 2;',
    'return 0 * driftFactor;',
  ]),
  mutant(
    'no-elapsed-check',
    'validity is counted from the answers instead of the question',
    OVERLAP,
    [
      'lib/core/attempt.ts',
      'const validUntil = validUntilMs(\n      round.startedAtMs,',
      'const validUntil = validUntilMs(\n      round.endedAtMs,',
    ],
  ),
  mutant(
    'extension-counts-from-answers',
    'an extension is valid from its answers instead of its question',
    OVERLAP,
    [
      'lib/core/extension.ts',
      'validUntilMs: validUntilMs(round.startedAtMs,',
      'validUntilMs: validUntilMs(round.endedAtMs,',
    ],
  ),
  mutant('equal-ballot-accepted', 'a node accepts a ballot that is not above its fence', TOKENS, [
    'lib/testing/memory-acquire.ts',
    'if (ballot <= floor)',
    'if (ballot < floor)',
  ]),
  mutant('no-ballot-check', 'a node accepts any ballot', TOKENS, [
    'lib/testing/memory-acquire.ts',
    'if (ballot <= floor)',
    'if (ballot < 0)',
  ]),
  mutant(
    'older-ballot-granted',
    'the token of a lock is the first ballot of its attempt, whichever was accepted (R2)',
    [...TOKENS, 'extend-is-no-validation'],
    ['lib/core/attempt.ts', 'this.#ballots += 1;', 'this.#ballots += 1; this.first ??= ballot;'],
    [
      'lib/core/attempt.ts',
      '        nonce: this.nonce,\n        ballot,',
      '        nonce: this.nonce,\n        ballot: this.first,',
    ],
  ),
  mutant(
    'stale-counts-as-vote',
    'a node that refused the ballot as stale is counted as a vote',
    [...TOKENS, ...OVERLAP],
    [
      'lib/core/tally.ts',
      "if (accepted >= quorum) return 'won';",
      "if (accepted > 0 && accepted + wrongNumber >= quorum) return 'won';",
    ],
  ),
  mutant(
    'quorum-one-short',
    'one vote less than a quorum is enough',
    [...TOKENS, ...OVERLAP],
    [
      'lib/core/tally.ts',
      "if (accepted >= quorum) return 'won';",
      "if (accepted >= Math.max(1, quorum - 1)) return 'won';",
    ],
  ),
  mutant(
    'fence-not-restored',
    'an abandoned attempt leaves its ballot behind (P1)',
    ['needless-loss', 'loss-not-told'],
    [
      'lib/testing/memory-release.ts',
      'if (!request.granted) restoreFence',
      'if (request.granted === undefined) restoreFence',
    ],
  ),
  mutant('fence-restored-after-grant', 'the release of a granted lock forgets its token', TOKENS, [
    'lib/testing/memory-release.ts',
    'if (!request.granted) restoreFence',
    'restoreFence',
  ]),
  mutant(
    'losers-publish',
    'attempts that failed wake the waiters (P3)',
    ['loser-published'],
    [
      'lib/core/attempt.ts',
      'const notify = holders.length >= votesNeeded;',
      'const notify = holders.length >= 0;',
    ],
  ),
  mutant(
    'extend-without-fence-check',
    'a missing key is set again although somebody newer was accepted (C4)',
    ['extend-is-no-validation'],
    ['lib/testing/memory-extend.ts', 'fenceOf(state, pair) > request.ballot', 'false'],
  ),
  mutant(
    'extend-without-owner-check',
    'an extension takes the key of another holder',
    [...OVERLAP, 'extend-is-no-validation'],
    ['lib/testing/memory-extend.ts', ': owner !== request.nonce;', ': false;'],
    [
      'lib/testing/memory-extend.ts',
      'const missing = state.locks.get(pair.lock) === undefined;',
      'const missing = false;',
    ],
  ),
  mutant(
    'extend-without-quorum',
    'an extension counts with one vote less than a quorum',
    [...OVERLAP, 'extend-is-no-validation'],
    [
      'lib/core/extension.ts',
      "if (extended >= votesNeeded) return 'extended';",
      "if (extended >= Math.max(1, votesNeeded - 1)) return 'extended';",
    ],
  ),
  mutant(
    'no-early-loss',
    'a holder whose keys are gone is not told before its validity ends (P2)',
    ['loss-not-told'],
    [
      'lib/core/extension.ts',
      "return lost > replies.length - votesNeeded ? 'taken' : 'unknown';",
      "return lost > 99 ? 'taken' : 'unknown';",
    ],
  ),
  mutant(
    'extend-after-validity',
    'an answer that comes late brings an ended validity back',
    ['revived'],
    [
      'lib/core/lease.ts',
      'if (now >= this.validUntilMs) this.#owner.lost',
      'if (now >= this.validUntilMs + 1e9) this.#owner.lost',
    ],
  ),
  mutant(
    'told-when-it-is-over',
    'the holder is told only after its validity has ended',
    ['late-loss', 'untold-loss'],
    ['lib/core/lease.ts', 'return Math.max(4, this.#owner.ttlMs / 200);', 'return 0;'],
  ),
  mutant('no-guard', 'a node that restarted votes at once (C6)', OVERLAP, [
    'lib/core/resolve-options.ts',
    'const restartGuardMs = guarded ? maxTtlMs : 0;',
    'const restartGuardMs = 0;',
  ]),
  mutant(
    'guard-too-short',
    'a node that restarted votes before every lock it forgot has ended',
    OVERLAP,
    [
      'lib/core/resolve-options.ts',
      'const restartGuardMs = guarded ? maxTtlMs : 0;',
      'const restartGuardMs = guarded ? maxTtlMs * 0.6 : 0;',
    ],
  ),
  mutant(
    'guard-does-not-see-restarts',
    'the marker of an earlier start of the server is believed',
    [...OVERLAP, ...TOKENS],
    ['lib/testing/memory-join.ts', 'marker.runId !== runId', 'marker.runId === undefined'],
  ),
  mutant(
    'no-floor-after-restart',
    'after its quarantine a node accepts ballots that it may have seen before (C7)',
    TOKENS,
    [
      'lib/testing/memory-acquire.ts',
      'return Math.max(expired, marker.voteAfterMs * 1000 - marker.restartGuardMs * 500);',
      'return expired;',
    ],
  ),
  mutant(
    'no-floor-for-expired-fences',
    'a node accepts ballots as old as fences that have expired (C8)',
    TOKENS,
    [
      'lib/testing/memory-acquire.ts',
      'const expired = nowMicros - marker.fenceRetentionMs * 500;',
      'const expired = 0;',
    ],
  ),
  mutant(
    'token-is-maximum',
    'nodes count up on their own and the token is the largest count (C2)',
    TOKENS,
    ['lib/testing/memory-acquire.ts', 'if (ballot <= floor)', 'if (ballot < 0)'],
    [
      'lib/testing/memory-acquire.ts',
      'if (ballot > Math.max(nowMicros, fence) + DAY_MICROS)',
      'if (ballot < 0)',
    ],
    [
      'lib/testing/memory-acquire.ts',
      '{ fence: ballot, previous }',
      '{ fence: (before?.fence ?? 0) + 1, previous }',
    ],
    [
      'lib/testing/memory-acquire.ts',
      "return { kind: 'accepted' };",
      "return { kind: 'accepted', count: fenceOf(state, pairs[0]) };",
    ],
    [
      'lib/core/attempt.ts',
      '        nonce: this.nonce,\n        ballot,',
      '        nonce: this.nonce,\n        ballot: Math.max(...round.replies.map((reply) => reply?.count ?? 0)),',
    ],
  ),
  mutant(
    'release-without-owner-check',
    'a late release deletes the lock of another holder',
    OVERLAP,
    ['lib/testing/memory-release.ts', '=== request.nonce,', '!== undefined,'],
  ),
  mutant(
    'wall-clock',
    'durations are taken from the wall clock',
    [...OVERLAP, 'late-loss', 'untold-loss'],
    [
      'lib/core/quorum.ts',
      'return this.environment.clock.monotonicMs();',
      'return this.environment.clock.wallMicros() / 1000;',
    ],
  ),
  mutant(
    'nonce-per-process',
    'all attempts of a process share one nonce',
    ['duplicate-holder', ...OVERLAP, 'vote-after-release'],
    [
      'lib/core/attempt.ts',
      'this.nonce = quorum.environment.random.nonce();',
      'this.nonce = quorum.nonce ??= quorum.environment.random.nonce();',
    ],
  ),
  mutant(
    'abandoned-votes-stay',
    'a failed attempt is not released where it was accepted',
    ['no-progress', 'orphan', 'over-budget', 'needless-loss'],
    [
      'lib/core/attempt.ts',
      'for (const session of holders) session.release(request, this.#ttlMs, () => undefined);',
      'void request;',
    ],
  ),
  mutant(
    'extension-outlives-release',
    'an extension that waits for a join is sent after the release',
    ['vote-after-release'],
    ['lib/core/lease.ts', 'for (const extension of this.#open ?? []) extension.cancel();', ''],
  ),
];
