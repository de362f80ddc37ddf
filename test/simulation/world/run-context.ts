import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { Chance } from './chance.ts';
import type { Plan } from '../families/plan.ts';
import type { Resource } from '../checks/resource.ts';
import type { SimulatedServer } from './simulated-server.ts';
import type { Trace } from './trace.ts';
import type { Violation } from '../checks/violations.ts';
import type { World } from './world.ts';

/** A grant that was complete at `atMs`, per key. */
export interface CompletedGrant {
  readonly key: string;
  readonly token: number;
  readonly atMs: number;
  readonly holder: string;
}

/** How much happened, to see that a run is worth something. */
export interface RunCounts {
  grants: number;
  reballots: number;
  extensions: number;
  recreatedKeys: number;
  losses: number;
  busy: number;
  unavailable: number;
  crashes: number;
  stalls: number;
  quarantines: number;
  writes: number;
  refusedWrites: number;
  staleWritesTaken: number;
}

/** What the parts of one run share. */
export interface RunContext {
  readonly plan: Plan;
  readonly world: World;
  readonly trace: Trace;
  readonly chance: Chance;
  readonly servers: readonly SimulatedServer[];
  readonly resource: Resource;
  readonly history: LockHistoryEvent[];
  readonly grants: CompletedGrant[];
  readonly violations: Violation[];
  readonly counts: RunCounts;
}

export function emptyCounts(): RunCounts {
  return {
    grants: 0,
    reballots: 0,
    extensions: 0,
    recreatedKeys: 0,
    losses: 0,
    busy: 0,
    unavailable: 0,
    crashes: 0,
    stalls: 0,
    quarantines: 0,
    writes: 0,
    refusedWrites: 0,
    staleWritesTaken: 0,
  };
}

export function broke(
  run: RunContext,
  rule: Violation['rule'],
  message: string,
  atMs = run.world.nowMs,
): void {
  run.violations.push({ rule, message, atMs });
  run.trace.add('!!!', `${rule}: ${message}`);
}
