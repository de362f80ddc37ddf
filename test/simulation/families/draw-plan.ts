import { Chance } from '../world/chance.ts';
import { forgets, habitsOf } from './plan.ts';
import type { Family, LoadFamily, Plan } from './plan.ts';
import {
  planBoundary,
  planReballots,
  planReplacers,
  planRounds,
  planTurns,
} from './plan-directed.ts';
import { planFaults } from './plan-faults.ts';
import { LOAD_PLANS } from './plan-load.ts';

const DRAWN = ['steady', 'amnesia', 'early', 'repair', 'calendar'] as const;
const LOAD = Object.keys(LOAD_PLANS) as LoadFamily[];

/** Drawn by seed: one in seven puts the load in the middle. */
export const FAMILIES: readonly Family[] = [
  ...DRAWN.flatMap((family, index) =>
    Array.from({ length: [12, 12, 6, 3, 3][index]! }, () => family),
  ),
  ...LOAD,
];

/** Run by name only. */
export const DIRECTED_FAMILIES = [
  'boundary',
  'reballots',
  'turns',
  'permits',
  'replacers',
  'failover',
] as const;

/** `only`: this family instead of the one that the seed would get. */
export function planOf(seed: number, only?: Family): Plan {
  const chance = new Chance(seed).branch('plan');
  if (only === 'boundary') return planBoundary(seed, chance);
  if (only === 'reballots') return planReballots(seed, chance);
  if (only === 'turns') return planTurns(seed, chance);
  if (only === 'permits') return planPermits(seed, chance);
  const drawn = chance.pick(FAMILIES);
  const family = only ?? drawn;
  if (family in LOAD_PLANS) return LOAD_PLANS[family as LoadFamily](seed, chance);
  const nodeCount =
    family === 'repair' ? chance.pick([3, 5]) : chance.pick([1, 2, 3, 3, 3, 3, 4, 5]);
  const ttlMs = chance.pick([120, 200, 300, 500]);
  const maxTtlMs = chance.happens(0.7) ? ttlMs : ttlMs * 1.5;
  // Clocks of nodes that forget must not run apart by half a guard within the run (T5).
  const driftFactor = chance.pick(forgets(family) ? [0.01, 0.02] : [0.01, 0.02, 0.05, 0.1]);
  const guard = forgets(family) || (nodeCount > 1 && chance.happens(0.3));
  const majority = Math.floor(nodeCount / 2) + 1;
  const rate = (): number => 1 + driftFactor * chance.between(-0.45, 0.45);
  const extreme = (): number => 1 + driftFactor * chance.pick([-0.45, 0.45]);
  const clockRate = family === 'repair' ? () => 1 : chance.happens(0.5) ? rate : extreme;
  const wallError = wallErrors(family, maxTtlMs, chance);
  const shared = {
    seed,
    family,
    ttlMs,
    maxTtlMs,
    driftFactor,
    guard,
    quorum: family !== 'repair' && nodeCount < 5 && chance.happens(0.05) ? nodeCount : majority,
    keys: ['a', 'b', 'c'].slice(0, chance.integer(1, 3)),
    latencyMs: family === 'repair' ? 0.3 : chance.pick([0.3, 1, 3]),
    wallStepMicros: chance.pick([1, 1, 1000, 10_000]),
    timerLatenessMs: family === 'repair' ? 0.5 : 0.9,
    readingsPerStall: family === 'repair' ? Infinity : chance.pick([Infinity, 400, 150, 60]),
    commandMs: 0,
    serverMs: 0,
    concurrentTries: 512,
    habits: habitsOf(ttlMs, family === 'repair'),
    grantedWithinMs: Infinity,
    keepsLocks: family === 'repair',
    // A failover takes its server out for longer than a restart.
    durationMs: (family === 'failover' ? 10 : 1) * ttlMs * chance.between(5, 9),
    servers: Array.from({ length: nodeCount }, () => ({
      clockRate: clockRate(),
      clockErrorMs: chance.between(-1, 1) * (maxTtlMs / 20),
    })),
    clients: Array.from({ length: family === 'repair' ? 3 : chance.integer(2, 4) }, () => ({
      clockRate: clockRate(),
      wallErrorMs: wallError(),
      callers: family === 'repair' ? 1 : chance.integer(1, 2),
    })),
  };
  const faults = planFaults(shared, chance.branch('faults'));
  return family === 'replacers' ? planReplacers(shared, faults, chance) : { ...shared, faults };
}

/** Half of the runs are healthy, and nobody may starve; in the others anything happens to nodes, networks and processes. */
function planPermits(seed: number, chance: Chance): Plan {
  const permits = chance.integer(1, 4);
  if (chance.happens(0.5)) {
    const plan = planRounds(seed, chance);
    const permitted = { ...plan, family: 'permits', permits } as const;
    if (permits === 1 || chance.happens(0.3)) return permitted;
    // Some slots are held for long, while others are handed on.
    const habits = { ...plan.habits, holdsMs: [1, 5, 200] };
    const clients = plan.clients.map((client) => ({ ...client, callers: chance.integer(1, 2) }));
    return { ...permitted, habits, clients, grantedWithinMs: 5 * plan.ttlMs };
  }
  const plan = planOf(seed, 'steady');
  const habits = { ...plan.habits, sets: 0 };
  const clients = plan.clients.map((client) => ({ ...client, callers: chance.integer(1, 3) }));
  return { ...plan, keys: ['a'], permits, habits, clients };
}

/**
 * Errors of the wall clocks of clients: anything goes where nodes remember their fences; where they may forget, none
 * is ahead of a node by half a guard (T5), though any may be behind.
 */
function wallErrors(family: Family, maxTtlMs: number, chance: Chance): () => number {
  const lead = maxTtlMs / 8;
  if (forgets(family)) {
    return () => chance.pick([0, lead, -lead, -3 * maxTtlMs, -60_000, chance.between(-lead, lead)]);
  }
  if (family === 'calendar') return () => chance.pick([0, 0, -200_000, -900_000, -1_300_000]);
  const wide = chance.pick([0, 5, 50, 1_000, 400_000, 100_000_000]);
  return () => chance.between(-wide, wide);
}
