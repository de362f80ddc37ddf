import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readPartOptions, say, sayHow } from '../part-options.ts';
import { Program } from '../../test/support/program.ts';
import { type RedisServer, startRedisServers } from '../../test/support/redis-servers/index.ts';
import type { LockingSettings, Tally } from './locking-process.ts';
import { earlierCommit, presentVersion, versionOf } from './pack-version.ts';

const TURNS = ['old', 'new', 'mixed'] as const;
/** Rounds, each of three turns. What else the machine does harms some turn; versions that harm each other do in every round. */
const ROUNDS = 3;
const PROCESSES = 4;
/** The share of the locks of the slower version alone, on a machine that does other things beside. */
const LEAST_SHARE_MIXED = 0.75;

const options = readPartOptions();
const totalMs = options.isQuick ? 20_000 : 60_000;

async function versionsIn(folder: string): Promise<[old: string, present: string]> {
  const present = await presentVersion(folder);
  const commit = await earlierCommit();
  if (commit === undefined) {
    say('No commit before this one is here (a shallow clone?): the package runs beside itself.');
    return [present, present];
  }
  say(`old: ${commit}; new: this checkout`);
  return [await versionOf(commit, folder), present];
}

/**
 * Processes of the last release (before the first one: of the commit before) and of this checkout lock the same keys on three
 * Redis servers: the old ones alone, the new ones alone, and two of each. Never may two be inside at once, tokens have to grow,
 * and mixed they have to get as many locks as either alone.
 */
async function main(folder: string): Promise<void> {
  const [old, present] = await versionsIn(folder);
  const servers = await startRedisServers(4, { own: true });
  try {
    const half = PROCESSES / 2;
    const turns = {
      old: Array.from({ length: PROCESSES }, () => old),
      new: Array.from({ length: PROCESSES }, () => present),
      mixed: Array.from({ length: PROCESSES }, (_, index) => (index < half ? old : present)),
    };
    const rounds: Round[] = [];
    while (rounds.length < ROUNDS)
      rounds.push({
        old: await playTurn(turns.old, servers),
        new: await playTurn(turns.new, servers),
        mixed: await playTurn(turns.mixed, servers),
      });
    judgeRounds(rounds);
  } finally {
    await Promise.all(servers.map((server) => server.stop()));
  }
}

/** Plays a turn, while a server of the locks starts again, empty: each version meets what the other one writes there. */
async function playTurn(
  entries: readonly string[],
  servers: readonly RedisServer[],
): Promise<Tally> {
  const [judge = '', ...nodes] = servers.map(({ url }) => url);
  const processes = entries.map((entry) => {
    const settings: LockingSettings = { entry, nodes, judge };
    return new Program<{ ms: number }>('campaign/versions/locking-process.ts', settings);
  });
  try {
    await Promise.all(processes.map((each) => each.first()));
    const ms = totalMs / (ROUNDS * TURNS.length);
    const [, ...tallies] = await Promise.all([
      servers[1]!.restart(),
      ...processes.map((each) => each.ask<Tally>({ ms })),
    ]);
    return sumOf(tallies);
  } finally {
    await Promise.all(processes.map((each) => each.finish(5_000)));
  }
}

function sumOf(tallies: readonly Tally[]): Tally {
  const sum: Tally = { locks: 0, overlaps: 0, inversions: 0, refused: {} };
  for (const { locks, overlaps, inversions, refused } of tallies) {
    sum.locks += locks;
    sum.overlaps += overlaps;
    sum.inversions += inversions;
    for (const [code, count] of Object.entries(refused))
      sum.refused[code] = (sum.refused[code] ?? 0) + count;
  }
  return sum;
}

type Round = Record<(typeof TURNS)[number], Tally>;

function judgeRounds(rounds: readonly Round[]): void {
  const faults = new Set<string>();
  const shares = rounds.map((round) => {
    for (const name of TURNS) {
      const { locks, overlaps, inversions, refused } = round[name];
      const said = `${name}: ${locks} locks, ${overlaps} overlaps, ${inversions} tokens out of order`;
      say(`${said}, refused: ${JSON.stringify(refused)}`);
      if (overlaps + inversions > 0) faults.add(`two holders, or tokens out of order: ${name}`);
    }
    return round.mixed.locks / Math.min(round.old.locks, round.new.locks);
  });
  const percent = shares.map((share) => `${(share * 100).toFixed(0)} %`).join(', ');
  say(`mixed: ${percent} of the locks of the slower version alone`);
  if (!(Math.max(...shares) >= LEAST_SHARE_MIXED))
    faults.add('side by side they get far fewer locks');
  for (const fault of faults) say(`FAILED: ${fault}`);
  if (faults.size === 0) return;
  sayHow('versions', options);
  process.exitCode = 1;
}

const folder = await mkdtemp(join(tmpdir(), 'fenced-lock-versions-'));
try {
  await main(folder);
} finally {
  await rm(folder, { recursive: true, force: true });
}
