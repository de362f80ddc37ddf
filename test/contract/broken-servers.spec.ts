import { afterEach, describe, expect, it } from '@jest/globals';
import type { MemoryLockServer } from '../../lib/testing/index.ts';
import * as broken from './broken-servers.ts';
import type { ContractHarness } from './contract-harness.ts';
import { contractChecks } from './lock-node.contract.ts';
import { createMemoryHarness } from './memory-harness.ts';

/** Which checks must notice which broken server: the contract is worth only what it catches. */
const CAUGHT: readonly (readonly [typeof MemoryLockServer, ...checks: string[]])[] = [
  [
    broken.NeverRestores,
    'abandon: where there was no floor none stays',
    'abandon: the floor is again what it was, with at least the life it had',
    'extend: attempts that gave up never stand in the way of the holder',
  ],
  [
    broken.RestoresGranted,
    'release: a granted lock is never forgotten, also when its holder is abandoned later',
    'acquire: after release the same message is refused, on this and on another connection',
    'several keys: a grant of the set orders each key on its own',
  ],
  [
    broken.ReballotForgetsPrevious,
    'abandon: restores what was before the attempt, also after several ballots',
    'acquire: a higher ballot of the same attempt raises the floor and keeps what was before',
  ],
  [
    broken.ExtendsWithoutFloor,
    'extend: a missing lock is not set again once a newer ballot was accepted there',
  ],
  [broken.ExtendsPartially, 'several keys: extend renews and sets again all of them or none'],
  [broken.Shortens, 'extend: never shortens a lock or a floor'],
  [
    broken.IgnoresHeld,
    'acquire: HELD names the holder, its remaining life and the floor, and writes nothing',
    'several keys: one that is held refuses all, and HELD names the first',
  ],
  [broken.NamesTheLongest, 'several keys: one that is held refuses all, and HELD names the first'],
  [broken.RefusesDuplicates, 'acquire: a duplicate is accepted again and changes nothing'],
  [
    broken.AcceptsEqualBallots,
    'acquire: STALE at and below the floor, with floor and clock, and writes nothing',
    'acquire: a ballot is accepted for one holder only, also when the lock key vanished',
    'numbers: exact up to 2^53-1 in every command',
  ],
  [broken.ReleasesAnything, 'release: never touches what another holder owns, nor its floor'],
  [
    broken.SkipsQuarantine,
    'join: with a guard the node is in quarantine first, and writes nothing',
    'restart empty: no vote before the join, quarantine after it',
    'restart with its data: quarantine again, held locks are still extended and released',
  ],
  [
    broken.ProlongsQuarantine,
    'join: the node follows the larger guard, counted from the first join',
  ],
  [
    broken.PassesAlways,
    'turn: without pass the lock stays with its own service for a moment, where others wait',
    'turn: an abandoned attempt names the first in line if it is asked to, and forgets its ballot',
  ],
  [
    broken.PassesNever,
    'turn: a release names the first in line and keeps the lock for it alone, and the second hears when that is over',
    'turn: one that is given back goes to the next',
  ],
  [
    broken.KeepsTooLong,
    'turn: a lock that nobody takes is free after its grace, at most 200 ms',
    'turn: without pass the lock stays with its own service for a moment, where others wait',
  ],
  [
    broken.ShortensLines,
    'wait: a line in which nobody stands again is forgotten, and no later one shortens its life',
  ],
  [
    broken.IgnoresTickets,
    'turn: a release names the first in line and keeps the lock for it alone, and the second hears when that is over',
  ],
  [
    broken.FloorsDieWithLocks,
    'lock: expires by itself, and its floor still refuses the old ballot',
  ],
];

describe('the contract catches a server that', () => {
  let harness: ContractHarness | undefined;

  afterEach(async () => {
    await harness?.close();
  });

  it.each(
    CAUGHT.flatMap(([Server, ...names]) =>
      names.map((name) => ({ Server, broken: Server.name, name })),
    ),
  )('$broken: $name', async ({ Server, name }) => {
    const check = contractChecks.find((candidate) => candidate.name === name);
    harness = createMemoryHarness(new Server({ fresh: true }));
    await expect(check!.run(harness)).rejects.toThrow(/expect\(/);
  });
});
