import type { Chance } from '../world/chance.ts';
import type { Plan } from './plan.ts';

type Clocks = Pick<Plan, 'driftFactor' | 'guard' | 'latencyMs' | 'reconnectMs'> & {
  readonly nodeRate: number;
  readonly clientRate: number;
};

/**
 * Messages take next to no time, and the clocks of nodes run faster than those of clients by just less than the drift:
 * validity, ttl and guard have no more room than the protocol gives them.
 */
export function planBoundary(seed: number, chance: Chance): Plan {
  const driftFactor = chance.pick([0.01, 0.02, 0.05]);
  const nodeRate = Math.sqrt(1 + driftFactor * 0.99);
  return {
    ...planScript(seed, chance, {
      driftFactor,
      guard: true,
      latencyMs: 0.02,
      reconnectMs: 0.05,
      nodeRate,
      clientRate: 1 / nodeRate,
    }),
    family: 'boundary',
  };
}

export function planReballots(seed: number, chance: Chance): Plan {
  return {
    ...planScript(seed, chance, {
      driftFactor: 0.01,
      guard: false,
      latencyMs: chance.pick([0.3, 1]),
      reconnectMs: 40,
      nodeRate: 1,
      clientRate: 1,
    }),
    family: 'reballots',
  };
}

/** Three clients without callers, and no faults by chance: everything is done by a script. */
function planScript(
  seed: number,
  chance: Chance,
  { nodeRate, clientRate, ...clocks }: Clocks,
): Omit<Plan, 'family'> {
  const nodes = chance.pick([3, 5]);
  const ttlMs = chance.pick([120, 200]);
  return {
    ...clocks,
    seed,
    ttlMs,
    maxTtlMs: ttlMs,
    quorum: (nodes + 1) / 2,
    keys: ['a'],
    wallStepMicros: 1,
    timerLatenessMs: 0.5,
    readingsPerStall: Infinity,
    commandMs: 0,
    keepsLocks: false,
    durationMs: 0,
    servers: Array.from({ length: nodes }, () => ({
      clockRate: nodeRate,
      clockErrorMs: chance.between(-1, 1),
    })),
    clients: Array.from({ length: 3 }, () => ({
      clockRate: clientRate,
      wallErrorMs: 0,
      callers: 0,
    })),
    faults: [],
  };
}
