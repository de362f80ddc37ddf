import type { Chance } from '../world/chance.ts';
import { habitsOf, planQuiet } from './plan.ts';
import type { Habits, Plan } from './plan.ts';
import type { PlannedFault } from './plan-faults.ts';

/**
 * Messages take next to no time, and the clocks of nodes run faster than those of clients by just less than the drift:
 * validity, ttl and guard have no more room than the protocol gives them.
 */
export function planBoundary(seed: number, chance: Chance): Plan {
  const driftFactor = chance.pick([0.01, 0.02, 0.05]);
  const nodeRate = Math.sqrt(1 + driftFactor * 0.99);
  const plan = planReballots(seed, chance);
  return {
    ...plan,
    family: 'boundary',
    driftFactor,
    guard: true,
    latencyMs: 0.02,
    servers: plan.servers.map((server) => ({ ...server, clockRate: nodeRate })),
    clients: plan.clients.map((client) => ({ ...client, clockRate: 1 / nodeRate })),
  };
}

/** Three clients without callers, and no faults by chance: everything is done by a script. */
export function planReballots(seed: number, chance: Chance): Plan {
  const nodes = chance.pick([3, 5]);
  return planQuiet(seed, chance, {
    family: 'reballots',
    nodes,
    ttlMs: chance.pick([120, 200]),
    latencyMs: chance.pick([0.3, 1]),
    callers: [0, 0, 0],
  });
}

/** Two kinds of hand-over between processes, all the time. */
export function planTurns(seed: number, chance: Chance): Plan {
  return chance.happens(0.2) ? planVisits(seed, chance) : planRounds(seed, chance);
}

const TURNS_TTL_MS = 300;

type Passing = Pick<Plan, 'durationMs' | 'grantedWithinMs'> & {
  readonly callers: readonly number[];
  readonly habits: Pick<Habits, 'holdsMs' | 'pausesMs'>;
};

/** Plan of one key, for which callers wait long enough. */
function planPassing(seed: number, chance: Chance, { habits, ...others }: Passing): Plan {
  const sections = chance.pick([0, 0.5, 1]);
  return planQuiet(seed, chance, {
    family: 'turns',
    nodes: chance.pick([1, 3, 5]),
    ttlMs: TURNS_TTL_MS,
    habits: {
      ...habitsOf(TURNS_TTL_MS, true),
      waitsMs: [6 * TURNS_TTL_MS],
      sets: 0,
      sections,
      ...habits,
    },
    ...others,
  });
}

/** Wanted in turn by processes of which some leave it for a while, and one after the other may die and start again. */
export function planRounds(seed: number, chance: Chance): Plan {
  const durationMs = 1_000;
  const processes = chance.integer(2, 6);
  const faults = chance.happens(0.5) ? crashes(processes, durationMs, chance) : [];
  const plan = planPassing(seed, chance, {
    callers: Array.from({ length: processes }, () => chance.integer(1, 4)),
    habits: {
      holdsMs: chance.pick([[0], [0, 1], [5]]),
      pausesMs: [0, 0, 0, 0, 0, chance.pick([0, 10, 100])],
    },
    durationMs,
    grantedWithinMs: (faults.length > 0 ? 5 : 3) * TURNS_TTL_MS,
  });
  const clients = plan.clients.map((client) =>
    chance.happens(0.2) ? { ...client, habits: { pausesMs: [TURNS_TTL_MS] } } : client,
  );
  return { ...plan, clients, faults };
}

function crashes(processes: number, untilMs: number, chance: Chance): PlannedFault[] {
  const faults: PlannedFault[] = [];
  let atMs = TURNS_TTL_MS * chance.between(1, 3);
  for (; atMs < untilMs; atMs += TURNS_TTL_MS * chance.between(3, 5))
    faults.push({
      kind: 'crash',
      clients: [chance.integer(0, processes - 1)],
      afterSends: chance.integer(0, 12),
      atMs,
      lastsMs: chance.between(0, TURNS_TTL_MS),
    });
  return faults;
}

/** Plan of two processes: one has the key nearly all the time; the other one wants it now and then, and is done at once. */
function planVisits(seed: number, chance: Chance): Plan {
  const plan = planPassing(seed, chance, {
    callers: [chance.integer(1, 2), 1],
    habits: { holdsMs: [40], pausesMs: [0] },
    durationMs: 4_000,
    grantedWithinMs: 3 * TURNS_TTL_MS,
  });
  const [busy, visitor] = plan.clients;
  const habits = { holdsMs: [1], pausesMs: [TURNS_TTL_MS] };
  return { ...plan, clients: [busy!, { ...visitor!, habits }] };
}

/** One key that most calls take from whoever has it; half of the runs are quiet. */
export function planReplacers(
  shared: Omit<Plan, 'faults'>,
  faults: readonly PlannedFault[],
  chance: Chance,
): Plan {
  const { ttlMs } = shared;
  return {
    ...shared,
    keys: ['a'],
    wallStepMicros: 1,
    habits: {
      ...habitsOf(ttlMs),
      waitsMs: [ttlMs, 3 * ttlMs],
      holdsMs: [1, 10, ttlMs / 2, 2 * ttlMs],
      pausesMs: [0, 5, ttlMs / 5, ttlMs],
      sets: 0,
      sections: 1,
      replaces: chance.pick([1, 1, 0.7]),
    },
    faults: chance.happens(0.5) ? [] : faults,
  };
}
