import { AsyncLocalStorage } from 'node:async_hooks';
import type { Lock } from '../../../lib/core/lock.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import { Resource } from '../checks/resource.ts';
import type { KeyCall } from '../checks/replace-check.ts';
import type { Violation } from '../checks/violations.ts';
import type { Plan } from '../families/plan.ts';
import { Chance } from './chance.ts';
import type { SimulatedProcess } from './simulated-process.ts';
import { SimulatedServer } from './simulated-server.ts';
import { Trace } from './trace.ts';
import { World } from './world.ts';

/** A grant that was complete at `atMs`, per key. */
export interface CompletedGrant {
  readonly key: string;
  readonly token: number;
  readonly atMs: number;
  readonly holder: string;
}

/** A section that joined a lock and runs. */
export interface JoinedSection {
  readonly lock: Lock;
  readonly process: SimulatedProcess;
}

/** Name of the caller, in the async context of everything that it does. */
export const requests = new AsyncLocalStorage<string>();

const COUNTED = [
  'grants',
  'reballots',
  'jointMessages',
  'extensions',
  'recreatedKeys',
  'losses',
  'busy',
  'unavailable',
  'crashes',
  'stalls',
  'quarantines',
  'writes',
  'refusedWrites',
  'staleWritesTaken',
] as const;

/** Counts of what happened, to see that a run is worth something. */
export type RunCounts = Record<(typeof COUNTED)[number], number>;

export function emptyCounts(): RunCounts {
  return Object.fromEntries(COUNTED.map((name) => [name, 0])) as RunCounts;
}

/** Context that the parts of one run share. */
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
  readonly sections: Set<JoinedSection>;
  /** The calls of a family in which calls replace each other. */
  readonly calls: KeyCall[];
  /** Locks that are over; who keeps them alive leaks. */
  readonly ended: WeakRef<Lock>[];
}

export function createRun(plan: Plan, traced: boolean): RunContext {
  const world = new World();
  const trace = new Trace(world, traced);
  return {
    plan,
    world,
    trace,
    chance: new Chance(plan.seed).branch('run'),
    servers: plan.servers.map(
      (settings, index) => new SimulatedServer(world, trace, index, settings, plan.serverMs),
    ),
    resource: new Resource(),
    history: [],
    grants: [],
    violations: [],
    counts: emptyCounts(),
    sections: new Set(),
    calls: [],
    ended: [],
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
