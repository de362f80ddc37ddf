import type { Chance } from '../world/chance.ts';
import { planQuiet } from './plan.ts';
import type { Plan } from './plan.ts';

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
