import { Chance } from '../world/chance.ts';
import { planBoundary, planReballots } from './plan-directed.ts';
import { planFaults } from './plan-faults.ts';
import type { PlannedFault } from './plan-faults.ts';
import type { ServerSettings } from '../world/simulated-server.ts';

/**
 * Which assumptions a run keeps:
 * - `steady`: clocks run within the drift, no node forgets: everything must hold;
 * - `amnesia`: nodes also come back empty or with older data, behind the guard: everything must hold;
 * - `early`: keys vanish early (eviction, clock jumps): tokens stay unique and ordered, mutual exclusion is not promised;
 * - `repair`: keys vanish on one node at a time, and holders extend: no lock may be lost at all;
 * - `calendar`: clocks jump by minutes, so that fences expire: tokens stay unique and ordered.
 *
 * And two that aim at what chance rarely meets (plan-directed.ts): everything must hold in them.
 * - `boundary`: a key is asked for at the very instant at which the nodes may give it away again;
 * - `reballots`: the second ballot of a try is lost or held back on its way.
 */
export type Family =
  | 'steady'
  | 'amnesia'
  | 'early'
  | 'repair'
  | 'calendar'
  | 'boundary'
  | 'reballots'
  | 'bursts'
  | 'sets'
  | 'blocked-loops'
  | 'detached'
  | 'silent-connections'
  | 'suspends';

export interface ClientPlan {
  readonly clockRate: number;
  readonly wallErrorMs: number;
  readonly callers: number;
}

/** Everything that a seed decides before the run; what happens inside is drawn from branches of the same seed. */
export interface Plan {
  readonly seed: number;
  readonly family: Family;
  readonly ttlMs: number;
  readonly maxTtlMs: number;
  readonly driftFactor: number;
  readonly guard: boolean;
  readonly quorum: number;
  readonly keys: readonly string[];
  readonly latencyMs: number;
  readonly wallStepMicros: number;
  readonly timerLatenessMs: number;
  readonly readingsPerStall: number;
  /** What writing or reading one command costs a client. */
  readonly commandMs: number;
  /** Callers neither stop by themselves nor let locks expire, and nothing takes a lock from them. */
  readonly keepsLocks: boolean;
  /** A client waits up to this before it connects again. */
  readonly reconnectMs: number;
  /** How long the faults last. */
  readonly durationMs: number;
  readonly servers: readonly ServerSettings[];
  readonly clients: readonly ClientPlan[];
  readonly faults: readonly PlannedFault[];
}

/** Drawn by seed. */
export const FAMILIES: readonly Family[] = [
  'steady',
  'steady',
  'steady',
  'amnesia',
  'amnesia',
  'amnesia',
  'early',
  'early',
  'repair',
  'calendar',
];

/** Run by name only. */
export const DIRECTED_FAMILIES = ['boundary', 'reballots'] as const;

/** `only`: this family instead of the one that the seed would get. */
export function planOf(seed: number, only?: Family): Plan {
  const chance = new Chance(seed).branch('plan');
  if (only === 'boundary') return planBoundary(seed, chance);
  if (only === 'reballots') return planReballots(seed, chance);
  const drawn = chance.pick(FAMILIES);
  const family = only ?? drawn;
  const nodeCount =
    family === 'repair' ? chance.pick([3, 5]) : chance.pick([1, 2, 3, 3, 3, 3, 4, 5]);
  const ttlMs = chance.pick([120, 200, 300, 500]);
  const maxTtlMs = chance.happens(0.7) ? ttlMs : ttlMs * 1.5;
  // Where nodes forget, their clocks must not run apart by half a guard within the run (T5).
  const driftFactor = chance.pick(family === 'amnesia' ? [0.01, 0.02] : [0.01, 0.02, 0.05, 0.1]);
  const guard = family === 'amnesia' || (nodeCount > 1 && chance.happens(0.3));
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
    keepsLocks: family === 'repair',
    reconnectMs: 40,
    durationMs: ttlMs * chance.between(5, 9),
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
  return { ...shared, faults: planFaults(shared, chance.branch('faults')) };
}

/**
 * How wrong the wall clocks of clients are: anything goes where nodes remember their fences; where they may forget, none
 * is ahead of a node by half a guard (T5), though any may be behind.
 */
function wallErrors(family: Family, maxTtlMs: number, chance: Chance): () => number {
  const lead = maxTtlMs / 8;
  if (family === 'amnesia') {
    return () => chance.pick([0, lead, -lead, -3 * maxTtlMs, -60_000, chance.between(-lead, lead)]);
  }
  if (family === 'calendar') return () => chance.pick([0, 0, -200_000, -900_000, -1_300_000]);
  const wide = chance.pick([0, 5, 50, 1_000, 400_000, 100_000_000]);
  return () => chance.between(-wide, wide);
}
