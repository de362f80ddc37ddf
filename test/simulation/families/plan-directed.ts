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
    reconnectMs: 0.05,
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

/** Wanted in turn by processes of which some leave it for a while, and one after the other dies and starts again. */
export function planTurns(seed: number, chance: Chance): Plan {
  const ttlMs = 300;
  const durationMs = 1_000;
  const processes = chance.integer(2, 6);
  const habits: Habits = {
    ...habitsOf(ttlMs, true),
    waitsMs: [6 * ttlMs],
    holdsMs: chance.pick([[0], [0, 1], [5]]),
    pausesMs: [0, 0, 0, 0, 0, chance.pick([0, 10, 100])],
    sets: 0,
    sections: chance.pick([0, 0.5, 1]),
  };
  const plan = planQuiet(seed, chance, {
    family: 'turns',
    nodes: chance.pick([1, 3, 5]),
    ttlMs,
    callers: Array.from({ length: processes }, () => chance.integer(1, 4)),
    habits,
    durationMs,
  });
  const clients = plan.clients.map((client) =>
    chance.happens(0.2) ? { ...client, habits: { pausesMs: [ttlMs] } } : client,
  );
  const faults: PlannedFault[] = [];
  if (chance.happens(0.5))
    for (
      let atMs = ttlMs * chance.between(1, 3);
      atMs < durationMs;
      atMs += ttlMs * chance.between(3, 5)
    )
      faults.push({
        kind: 'crash',
        clients: [chance.integer(0, processes - 1)],
        afterSends: chance.integer(0, 12),
        atMs,
        lastsMs: chance.between(0, ttlMs),
      });
  if (chance.happens(0.2)) return planVisits(seed, chance, ttlMs);
  return { ...plan, clients, faults, grantedWithinMs: (faults.length > 0 ? 5 : 3) * ttlMs };
}

/** Of two processes one has the key nearly all the time; the other one wants it now and then, and is done at once. */
function planVisits(seed: number, chance: Chance, ttlMs: number): Plan {
  const habits: Habits = {
    ...habitsOf(ttlMs, true),
    waitsMs: [6 * ttlMs],
    holdsMs: [40],
    pausesMs: [0],
    sets: 0,
    sections: chance.pick([0, 0.5, 1]),
  };
  const plan = planQuiet(seed, chance, {
    family: 'turns',
    nodes: chance.pick([1, 3, 5]),
    ttlMs,
    callers: [chance.integer(1, 2), 1],
    habits,
    durationMs: 4_000,
    grantedWithinMs: 3 * ttlMs,
  });
  const [busy, visitor] = plan.clients;
  return {
    ...plan,
    clients: [busy!, { ...visitor!, habits: { holdsMs: [1], pausesMs: [ttlMs] } }],
  };
}
