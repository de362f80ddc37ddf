import { OVERLAP, TOKENS, mutant } from './mutant.ts';
import type { Mutant } from './mutant.ts';

/** Clients that break the protocol. */
export const CORE_MUTANTS: readonly Mutant[] = [
  mutant('no-drift', 'validity leaves no room for clocks that run apart', OVERLAP, [
    'lib/core/validity.ts',
    'return ttlMs * driftFactor + 2;',
    'return 0 * driftFactor;',
  ]),
  mutant(
    'no-rounding',
    'validity leaves no room for nodes that count whole milliseconds',
    OVERLAP,
    ['lib/core/validity.ts', 'return ttlMs * driftFactor + 2;', 'return ttlMs * driftFactor;'],
  ),
  mutant(
    'no-elapsed-check',
    'validity is counted from the answers instead of the question',
    OVERLAP,
    [
      'lib/core/voting/attempt.ts',
      'const validUntil = validUntilMs(\n      round.startedAtMs,',
      'const validUntil = validUntilMs(\n      round.endedAtMs,',
    ],
  ),
  mutant(
    'extension-counts-from-answers',
    'an extension is valid from its answers instead of its question',
    OVERLAP,
    [
      'lib/core/voting/extension.ts',
      'validUntilMs: validUntilMs(round.startedAtMs,',
      'validUntilMs: validUntilMs(round.endedAtMs,',
    ],
  ),
  mutant(
    'older-ballot-granted',
    'the token of a lock is the first ballot of its attempt, whichever was accepted (R2)',
    [...TOKENS, 'extend-is-no-validation'],
    [
      'lib/core/voting/attempt.ts',
      'this.#ballots += 1;',
      'this.#ballots += 1; this.first ??= ballot;',
    ],
    [
      'lib/core/voting/attempt.ts',
      '        holder: this.holder,\n        ballot,',
      '        holder: this.holder,\n        ballot: this.first,',
    ],
  ),
  // Both: see reballots.ts.
  mutant(
    'votes-summed-over-ballots',
    'a node that accepted an older ballot of the attempt counts for the newer one (C5, R2)',
    TOKENS,
    [
      'lib/core/voting/attempt.ts',
      "(replies, expected) => decide(replies, expected, votesNeeded) !== 'open',",
      "(replies, expected) => decide(this.summed(replies), expected, votesNeeded) !== 'open',",
    ],
    [
      'lib/core/voting/attempt.ts',
      'const decision = decide(round.replies, 0, this.#quorum.votesNeeded);',
      'this.sum = this.summed(round.replies); const decision = decide(this.sum, 0, this.#quorum.votesNeeded);',
    ],
    [
      'lib/core/voting/attempt.ts',
      '  #startOver(): void {',
      "  summed(replies) { return replies.map((reply, index) => (this.sum?.[index]?.kind === 'accepted' ? this.sum[index] : reply)); }\n  #startOver(): void {",
    ],
  ),
  mutant(
    'late-votes-count-for-newer-ballot',
    'an answer to an older ballot of the attempt counts for the newer one when it comes late (C5, R2)',
    TOKENS,
    [
      'lib/core/voting/attempt.ts',
      'this.#round = round;',
      'if (this.#round) this.#round.newer = round; this.#round = round;',
    ],
    [
      'lib/core/voting/vote-round.ts',
      'if (this.ended) return;\n    this.replies[index]',
      'if (this.ended) return void this.newer?.collect(index, reply);\n    this.replies[index]',
    ],
  ),
  mutant(
    'stale-counts-as-vote',
    'a node that refused the ballot as stale is counted as a vote',
    [...TOKENS, ...OVERLAP],
    [
      'lib/core/voting/vote-count.ts',
      "if (accepted >= quorum) return 'won';",
      "if (accepted > 0 && accepted + wrongNumber >= quorum) return 'won';",
    ],
  ),
  mutant(
    'quorum-one-short',
    'one vote less than a quorum is enough',
    [...TOKENS, ...OVERLAP],
    [
      'lib/core/voting/vote-count.ts',
      "if (accepted >= quorum) return 'won';",
      "if (accepted >= Math.max(1, quorum - 1)) return 'won';",
    ],
  ),
  mutant(
    'losers-publish',
    'attempts that failed wake the waiters (P3)',
    ['loser-published'],
    [
      'lib/core/voting/attempt.ts',
      'const notify = holders.length >= votesNeeded;',
      'const notify = holders.length >= 0;',
    ],
  ),
  mutant(
    'extend-without-quorum',
    'an extension counts with one vote less than a quorum',
    [...OVERLAP, 'extend-is-no-validation'],
    [
      'lib/core/voting/extension.ts',
      "if (extended >= votesNeeded) return 'extended';",
      "if (extended >= Math.max(1, votesNeeded - 1)) return 'extended';",
    ],
  ),
  mutant(
    'no-early-loss',
    'a holder whose keys are gone is not told before its validity ends (P2)',
    ['loss-not-told'],
    [
      'lib/core/voting/extension.ts',
      "return lost > replies.length - votesNeeded ? 'taken' : 'unknown';",
      "return lost > 99 ? 'taken' : 'unknown';",
    ],
  ),
  mutant(
    'extend-after-validity',
    'an answer that comes late brings an ended validity back',
    ['revived'],
    [
      'lib/core/holding/lease.ts',
      'if (now >= this.validUntilMs) this.#owner.lost',
      'if (now >= this.validUntilMs + 1e9) this.#owner.lost',
    ],
  ),
  mutant(
    'told-when-it-is-over',
    'the holder is told only after its validity has ended',
    ['late-loss', 'untold-loss'],
    ['lib/core/holding/lease.ts', 'return Math.max(4, this.#owner.ttlMs / 200);', 'return 0;'],
  ),
  mutant('no-guard', 'a node that restarted votes at once (C6)', OVERLAP, [
    'lib/core/options/resolve-options.ts',
    'const restartGuardMs = guarded ? maxTtlMs : 0;',
    'const restartGuardMs = 0;',
  ]),
  // Joined at t, a node votes at floor(t) + W by its clock. The holder counted from before t, and stops after
  // ttl - (ttl * d + 2) ms by a clock that may be slower by d: not later than ttl - ttl * d * d - 2 - 2 * d by the node's. So a
  // guard that is short by 1 ms keeps the holder apart from the next one, and one that is short by 2 ms does not.
  mutant(
    'guard-too-short',
    'a node that restarted votes 2 ms before every lock it forgot has ended',
    OVERLAP,
    [
      'lib/core/options/resolve-options.ts',
      'const restartGuardMs = guarded ? maxTtlMs : 0;',
      'const restartGuardMs = guarded ? maxTtlMs - 2 : 0;',
    ],
  ),
  // Tokens have no allowance: the floor after a restart stands in the middle of the guard.
  mutant(
    'guard-one-tick-short',
    'the guard is shorter than the longest ttl by a millisecond, and the floor lower by half of one (C7)',
    TOKENS,
    [
      'lib/core/options/resolve-options.ts',
      'const restartGuardMs = guarded ? maxTtlMs : 0;',
      'const restartGuardMs = guarded ? maxTtlMs - 1 : 0;',
    ],
  ),
  mutant(
    'wall-clock',
    'durations are taken from the wall clock',
    [...OVERLAP, 'late-loss', 'untold-loss'],
    [
      'lib/core/nodes/node-set.ts',
      'return this.environment.clock.monotonicMs();',
      'return this.environment.clock.wallMicros() / 1000;',
    ],
  ),
  mutant(
    'holder-per-process',
    'all attempts of a process share one holder',
    ['duplicate-holder', ...OVERLAP, 'vote-after-release'],
    [
      'lib/core/voting/attempt.ts',
      'this.holder = quorum.environment.random.holder();',
      'this.holder = quorum.holder ??= quorum.environment.random.holder();',
    ],
  ),
  mutant(
    'abandoned-votes-stay',
    'a failed attempt is not released where it was accepted',
    ['no-progress', 'orphan', 'over-budget', 'needless-loss'],
    [
      'lib/core/voting/attempt.ts',
      'for (const session of holders) session.release(request, this.#ttlMs, () => undefined);',
      'void request;',
    ],
  ),
  mutant(
    'extension-outlives-release',
    'an extension that waits for a join is sent after the release',
    ['vote-after-release'],
    [
      'lib/core/holding/lease.ts',
      'for (const extension of this.#open ?? []) extension.cancel();',
      '',
    ],
  ),
];
