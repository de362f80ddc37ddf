import type { Chance } from '../world/chance.ts';
import type { ServerSettings } from '../world/simulated-server.ts';
import type { PlannedFault } from './plan-faults.ts';

/**
 * Families with the load or the process in the middle, on nodes that are healthy unless said otherwise:
 * - `bursts`: many different free keys at once, at a price for each command: all are granted;
 * - `sets`: several callers for every key, next to sets of keys: nobody sleeps while its keys are free, no set starves;
 * - `blocked-loops`: the event loop stands still during votes, extensions and releases: nothing of it is reported as an outage;
 * - `detached`: joined sections that outlive the work around them, and jobs that start the next one;
 * - `silent-connections`: flows that something forgot, servers that stall, joins that fail, and rare callers;
 * - `suspends`: systems sleep; no lock is held whose validity ended meanwhile.
 */
export type LoadFamily =
  'bursts' | 'sets' | 'blocked-loops' | 'detached' | 'silent-connections' | 'suspends';

/**
 * Assumptions that a run keeps:
 * - `steady`: clocks run within the drift, no node forgets: everything must hold;
 * - `amnesia`: nodes also come back empty or with older data, behind the guard: everything must hold;
 * - `early`: keys vanish early (eviction, clock jumps): tokens stay unique and ordered, mutual exclusion is not promised;
 * - `repair`: keys vanish on one node at a time, and holders extend: no lock may be lost at all;
 * - `calendar`: clocks jump by minutes, so that fences expire: tokens stay unique and ordered.
 *
 * In the families of loads, and in five that aim at what chance rarely meets, everything must hold:
 * - `boundary`: a key is asked for at the very instant at which the nodes may give it away again;
 * - `reballots`: the second ballot of a try is lost or held back on its way;
 * - `failover`: replicas take the place of their servers behind an address that keeps connections, and back, with and without lag;
 * - `turns`: several processes hand a key on all the time, and any of them may pause, give up or die when it is to have it next;
 * - `permits`: as `turns` or, with all faults, as `steady`, for a key that has several holders at once;
 * - `replacers`: calls of several processes replace each other, obey or not, and everything goes wrong that does in `steady`.
 */
export type Family =
  | 'steady'
  | 'amnesia'
  | 'early'
  | 'repair'
  | 'calendar'
  | LoadFamily
  | 'boundary'
  | 'reballots'
  | 'turns'
  | 'permits'
  | 'replacers'
  | 'failover';

/** Nodes may come back without what they knew; so clocks of clients keep the distance that the guard allows. */
export function forgets(family: Family): boolean {
  return family === 'amnesia' || family === 'failover';
}

/** Lag of the replicas that take the place of their servers, at most. */
export const MAX_LAG_MS = 250;

/** How long a server that comes back, or is promoted, does not vote. */
export function guardMsOf({
  family,
  maxTtlMs,
  driftFactor,
  guard,
}: Pick<Plan, 'family' | 'maxTtlMs' | 'driftFactor' | 'guard'>): number {
  // As the option `failover` makes it: the lag, and three seconds in which a primary may not know yet that it is none.
  if (family === 'failover') return maxTtlMs + (MAX_LAG_MS + 3_000) * (1 + driftFactor);
  return guard ? maxTtlMs : 0;
}

/** Families in which nothing is wrong with nodes and networks. */
export const HEALTHY: readonly Family[] = [
  'bursts',
  'sets',
  'blocked-loops',
  'detached',
  'suspends',
  'turns',
  'permits',
];

/** Behaviour of callers, in shares of their calls and in times to draw from. */
export interface Habits {
  readonly waitsMs: readonly number[];
  readonly holdsMs: readonly number[];
  readonly pausesMs: readonly number[];
  /** Several keys at once; the first so many callers of a process want nothing else. */
  readonly sets: number;
  readonly setCallers: number;
  /** The others always want the same key. */
  readonly sticky: boolean;
  /** `withLock` instead of a handle. */
  readonly sections: number;
  /** Share of calls for another key, later in order, while one is held. */
  readonly nested: number;
  /** Sections that join a lock and outlive the work that acquired it. */
  readonly detached: number;
  /** Share of calls that replace the holder; without, none does. */
  readonly replaces?: number;
  /** Callers also stop anywhere, let locks expire, are interrupted, and want a ttl of their own. */
  readonly careless: boolean;
}

export interface ClientPlan {
  readonly clockRate: number;
  readonly wallErrorMs: number;
  readonly callers: number;
  /** Habits other than those of the plan. */
  readonly habits?: Partial<Habits>;
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
  /** How many may have the one key at once; undefined: one, and no call says so. */
  readonly permits?: number;
  readonly latencyMs: number;
  readonly wallStepMicros: number;
  readonly timerLatenessMs: number;
  readonly readingsPerStall: number;
  /** Price of one command for a client, to write and to read, and for a server. */
  readonly commandMs: number;
  readonly serverMs: number;
  /** Number of tries that a process has under way at once. */
  readonly concurrentTries: number;
  readonly habits: Habits;
  /** Time within which every call is granted. */
  readonly grantedWithinMs: number;
  /** Nothing but a newer holder takes a lock from its holder. */
  readonly keepsLocks: boolean;
  /** Duration of the faults. */
  readonly durationMs: number;
  readonly servers: readonly ServerSettings[];
  readonly clients: readonly ClientPlan[];
  readonly faults: readonly PlannedFault[];
}

interface QuietOptions extends Partial<Plan> {
  readonly family: Family;
  readonly nodes: number;
  readonly ttlMs: number;
  /** Number of callers of each client. */
  readonly callers: readonly number[];
}

/** Nothing goes wrong in it unless it is asked for. */
export function planQuiet(seed: number, chance: Chance, options: QuietOptions): Plan {
  const { nodes, ttlMs, callers, ...others } = options;
  return {
    seed,
    ttlMs,
    maxTtlMs: ttlMs,
    driftFactor: 0.01,
    guard: false,
    quorum: Math.floor(nodes / 2) + 1,
    keys: ['a'],
    latencyMs: chance.pick([0.3, 1]),
    wallStepMicros: 1,
    timerLatenessMs: 0.5,
    readingsPerStall: Infinity,
    commandMs: 0,
    serverMs: 0,
    concurrentTries: 512,
    habits: habitsOf(ttlMs),
    grantedWithinMs: Infinity,
    keepsLocks: false,
    durationMs: 0,
    servers: Array.from({ length: nodes }, () => ({
      clockRate: 1,
      clockErrorMs: chance.between(-1, 1),
    })),
    clients: callers.map((count) => ({ clockRate: 1, wallErrorMs: 0, callers: count })),
    faults: [],
    ...others,
  };
}

/** Habits of callers who do a bit of everything; `repairs`: they hold on, and others don't wait. */
export function habitsOf(ttlMs: number, repairs = false): Habits {
  return {
    waitsMs: repairs ? [0, 10] : [0, 10, ttlMs, 3 * ttlMs],
    holdsMs: [0, 0.02, 0.2, 0.8, repairs ? 6 : 1.5].map((part) => part * ttlMs),
    pausesMs: [0, 1, 5, ttlMs / 5],
    sets: 0.2,
    setCallers: 0,
    sticky: false,
    sections: 0.15,
    nested: 0,
    detached: 0,
    careless: !repairs,
  };
}
