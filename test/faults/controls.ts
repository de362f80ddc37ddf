import type { Edit } from '../simulation/mutants/mutants.ts';
import { MUTANTS } from '../simulation/mutants/mutants.ts';
import type { CampaignViolation } from './checks/run-verdict.ts';

/** The code broken on purpose, and the schedule in which the campaign has to notice it. */
export interface Control {
  readonly name: string;
  readonly claim: string;
  readonly schedule: string;
  readonly edits: readonly Edit[];
  /** At least one of them. */
  readonly caughtBy: readonly CampaignViolation['rule'][];
  /** Whether it belongs to the selection for every change. */
  readonly quick?: true;
}

type Rules = Control['caughtBy'];

const OVERLAP: Rules = ['overlapping-validity', 'legitimate-holder-refused'];
const TOKENS: Rules = ['duplicate-token', 'decreasing-token'];

/** A mutant of the simulation, on real servers. */
function mutant(name: string, schedule: string, caughtBy: Rules, more: Partial<Control> = {}) {
  const found = MUTANTS.find((each) => each.name === name);
  if (!found) throw new Error(`There is no mutant '${name}' in test/simulation/mutants/mutants.ts`);
  return { name, claim: found.claim, edits: found.edits, schedule, caughtBy, ...more };
}

function broken(
  name: string,
  claim: string,
  schedule: string,
  caughtBy: Rules,
  edit: readonly [file: string, find: string, replace: string],
  more: Partial<Control> = {},
): Control {
  const [file, find, replace] = edit;
  return { name, claim, edits: [{ file, find, replace }], schedule, caughtBy, ...more };
}

/** Checks that find nothing in these would be worth nothing. */
export const CONTROLS: readonly Control[] = [
  mutant('no-guard', 'majority restarted empty', [...OVERLAP, 'granted-during-guard'], {
    quick: true,
  }),
  mutant('quorum-one-short', 'contention', OVERLAP),
  mutant('no-early-loss', 'clocks of a majority jump ahead', OVERLAP),
  mutant('wall-clock', 'clocks of workers jump', [...OVERLAP, 'late-loss', 'untold-loss']),
  mutant('no-elapsed-check', 'slow near the ttl', [...OVERLAP, 'expired-grant']),
  mutant('abandoned-votes-stay', 'contention', ['idle-too-long']),
  broken(
    'script-without-ballot-check',
    'servers accept every ballot',
    'clocks of workers jump',
    TOKENS,
    ['lib/redis/scripts/acquire.ts', '#floor == 33 and A[1] > floor', '#floor == 33'],
  ),
  broken(
    'script-without-holder-check',
    'a release deletes the lock of whoever holds it',
    'worker stopped',
    OVERLAP,
    [
      'lib/redis/scripts/release.ts',
      "if call('GET', K[i]) == holder then",
      "if call('GET', K[i]) then",
    ],
  ),
  broken(
    'fence-takes-everything',
    'the resource takes stale writes',
    'stopped between check and write',
    ['stale-write-accepted', 'lost-update'],
    [
      'lib/fencing/sql/advance-fence.ts',
      'if (token !== claim.token || holder !== claim.holder) {',
      "if (token === '') {",
    ],
    { quick: true },
  ),
  broken(
    'close-leaves-connections',
    'close does not end the connections',
    'baseline',
    ['does-not-exit'],
    [
      'lib/redis/redis-lock-node.ts',
      'await Promise.all([this.#commands.close(), this.#subscriber.close()]);',
      'await this.#subscriber.close();',
    ],
  ),
  broken(
    'locks-without-ttl',
    'locks stay for ever when their holder dies',
    'worker killed',
    ['leaked-key', 'idle-too-long', 'slow-recovery'],
    [
      'lib/redis/scripts/acquire.ts',
      "call('SET', K[2], holder, 'PX', ttl, 'NX')",
      "call('SET', K[2], holder, 'NX')",
    ],
  ),
  broken(
    'raw-errors',
    'an outage is told by an error without type',
    'majority frozen',
    ['raw-error'],
    [
      'lib/core/voting/failure.ts',
      'return new QuorumUnavailableError(',
      "throw new Error('Connection is closed.');\n    return new QuorumUnavailableError(",
    ],
  ),
];
