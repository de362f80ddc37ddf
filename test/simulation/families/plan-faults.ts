import type { Chance } from '../world/chance.ts';
import { forgets, guardMsOf, type Plan } from './plan.ts';
import type { ErrorReply, RestartData } from '../world/simulated-server.ts';

type Servers = { readonly servers: readonly number[] };
type Clients = { readonly clients: readonly number[] };
type Ends = Clients & Servers;

/** Fault that occurs. Numbers of clients and servers are their indices. */
export type Fault =
  | ({ readonly kind: 'hold'; readonly direction: 'both' | 'requests' | 'replies' } & Ends)
  | ({ readonly kind: 'reset'; readonly lateByMs: number } & Ends)
  | ({ readonly kind: 'duplicate'; readonly afterMs: number } & Ends)
  | ({ readonly kind: 'refuse' } & Ends)
  | ({ readonly kind: 'slow'; readonly latencyMs: number } & Ends)
  | ({ readonly kind: 'garble'; readonly share: number } & Ends)
  | ({ readonly kind: 'forget'; readonly what: 'commands' | 'hints' } & Ends)
  | ({ readonly kind: 'freeze' | 'flush' | 'forget-scripts' } & Servers)
  | ({ readonly kind: 'slow-server'; readonly serviceMs: number } & Servers)
  | ({ readonly kind: 'error'; readonly reply: ErrorReply } & Servers)
  | ({ readonly kind: 'restart'; readonly data: RestartData; readonly dumpAgeMs: number } & Servers)
  /** A replica takes the place of the server, connections are kept; 0 = it has all data. */
  | ({ readonly kind: 'swap'; readonly dumpAgeMs: number } & Servers)
  | ({ readonly kind: 'evict'; readonly key: string } & Servers)
  | ({ readonly kind: 'server-jump'; readonly byMs: number } & Servers)
  | ({ readonly kind: 'wall-jump'; readonly byMs: number } & Clients)
  | ({ readonly kind: 'stall' } & Clients)
  | ({ readonly kind: 'suspend'; readonly forMs: number } & Clients)
  /** The event loop stands still once so many more commands were given to nodes. */
  | ({ readonly kind: 'block'; readonly afterCommands: number; readonly forMs: number } & Clients)
  /** The same in the callback in which callers with these waits ask for one free key. */
  | ({
      readonly kind: 'crowd';
      readonly waitsMs: readonly number[];
      readonly forMs: number;
    } & Clients)
  /** Keys, so many, different and free, are asked for at once. */
  | ({ readonly kind: 'burst'; readonly keys: number; readonly waitMs: number } & Clients)
  | ({ readonly kind: 'crash'; readonly afterSends: number } & Clients)
  | ({ readonly kind: 'forge-hint'; readonly key: string } & Clients);

export type PlannedFault = Fault & {
  readonly atMs: number;
  /** Duration, where it lasts. */
  readonly lastsMs: number;
};

type Shared = Omit<Plan, 'faults'>;

/** When all servers vote, and faults begin. */
export function startMsOf(plan: Shared): number {
  return Math.max(plan.maxTtlMs, guardMsOf(plan));
}

/** The faults of one run; each can be left out without changing the others. */
export function planFaults(plan: Shared, chance: Chance): PlannedFault[] {
  if (plan.family === 'repair') return repairFaults(plan, chance);
  const count = chance.pick([0, 2, 4, 8, 12, 16]);
  const kinds = kindsOf(plan);
  return Array.from({ length: count }, () => ({
    ...drawFault(chance.pick(kinds), plan, chance),
    atMs: startMsOf(plan) + chance.between(0, plan.durationMs),
    lastsMs: plan.ttlMs * chance.pick([0.05, 0.3, 0.8, 1.5, 2.5]),
  })).sort((a, b) => a.atMs - b.atMs);
}

/** Kinds that are not planned by families of their own. */
type DrawnKind = Exclude<Fault['kind'], 'forget' | 'suspend' | 'block' | 'crowd' | 'burst'>;

const EVERYWHERE: readonly DrawnKind[] = [
  'hold',
  'hold',
  'hold',
  'reset',
  'reset',
  'duplicate',
  'refuse',
  'slow',
  'garble',
  'freeze',
  'slow-server',
  'error',
  'restart',
  'forget-scripts',
  'wall-jump',
  'stall',
  'stall',
  'crash',
  'forge-hint',
];

function kindsOf({ family }: Shared): readonly DrawnKind[] {
  if (family === 'amnesia')
    return [...EVERYWHERE, 'restart', 'restart', 'restart', 'flush', 'flush'];
  if (family === 'failover')
    return [...EVERYWHERE.filter((kind) => kind !== 'restart'), ...many('swap', 20)];
  if (family === 'early') return [...EVERYWHERE, ...many('evict', 10), ...many('server-jump', 5)];
  if (family === 'calendar') return [...EVERYWHERE, ...many('server-jump', 10)];
  return EVERYWHERE;
}

function many(kind: DrawnKind, times: number): DrawnKind[] {
  return Array.from({ length: times }, () => kind);
}

/** Faults by which one node after another loses the keys, and each time there is time to set them again. */
function repairFaults(plan: Shared, chance: Chance): PlannedFault[] {
  const faults: PlannedFault[] = [];
  let atMs = plan.maxTtlMs * 2;
  for (let index = 0; atMs < plan.durationMs; index += 1) {
    const servers = [index % plan.servers.length];
    for (const key of plan.keys) faults.push({ kind: 'evict', servers, key, atMs, lastsMs: 0 });
    atMs += plan.ttlMs * chance.between(1.5, 1.8);
  }
  return faults;
}

function drawFault(kind: DrawnKind, plan: Shared, chance: Chance): Fault {
  const clients = some(plan.clients.length, chance);
  const servers = some(plan.servers.length, chance);
  const { ttlMs, maxTtlMs, family } = plan;
  switch (kind) {
    case 'hold':
      return { kind, clients, servers, direction: chance.pick(['both', 'requests', 'replies']) };
    case 'reset':
      return { kind, clients, servers, lateByMs: ttlMs * chance.pick([0.02, 0.5, 2]) };
    case 'duplicate':
      return { kind, clients, servers, afterMs: ttlMs * chance.pick([0.02, 0.5, 1, 2]) };
    case 'refuse':
      return { kind, clients, servers };
    case 'slow':
      return { kind, clients, servers, latencyMs: chance.pick([5, 20, ttlMs / 6, ttlMs / 3]) };
    case 'garble':
      return { kind, clients, servers, share: chance.pick([0.2, 1]) };
    case 'freeze':
    case 'flush':
    case 'forget-scripts':
      return { kind, servers };
    case 'slow-server':
      return { kind, servers, serviceMs: chance.pick([2, 10, ttlMs / 5]) };
    case 'error':
      return {
        kind,
        servers,
        reply: chance.pick(['OOM', 'READONLY', 'LOADING', 'NOAUTH', 'BUSY']),
      };
    case 'restart': {
      const data = forgets(family)
        ? chance.pick(['kept', 'empty', 'empty', 'older'] as const)
        : 'kept';
      return { kind, servers, data, dumpAgeMs: ttlMs * chance.pick([0.1, 0.5, 2]) };
    }
    case 'swap':
      return { kind, servers, dumpAgeMs: ttlMs * chance.pick([0, 0.02, 0.1, 0.5]) };
    case 'evict':
      return { kind, servers, key: chance.pick(plan.keys) };
    case 'server-jump':
      return { kind, servers: jumping(plan, servers, chance), byMs: serverJumpMs(plan, chance) };
    case 'wall-jump':
      return { kind, clients, byMs: wallJumpMs(plan, maxTtlMs, chance) };
    case 'stall':
      return { kind, clients };
    case 'crash':
      return { kind, clients: clients.slice(0, 1), afterSends: chance.pick([0, 1, 2, 3, 4, 9]) };
    case 'forge-hint':
      return { kind, clients, key: chance.pick(plan.keys) };
  }
}

/** Mostly one, sometimes several, now and then all. */
function some(size: number, chance: Chance): number[] {
  const all = Array.from({ length: size }, (_, index) => index);
  const draw = chance.fraction();
  if (draw < 0.15) return all;
  if (draw < 0.4) return all.filter(() => chance.happens(0.5));
  return [chance.integer(0, size - 1)];
}

function jumping({ family, servers }: Shared, drawn: number[], chance: Chance): number[] {
  return family === 'calendar' && chance.happens(0.6) ? servers.map((_, index) => index) : drawn;
}

/** Back only so far that the lasting effects end within the run; forward also past the life of every fence. */
function serverJumpMs({ family, ttlMs }: Shared, chance: Chance): number {
  if (family === 'calendar') return chance.pick([601_500, 650_000, 1_000_000, ttlMs]);
  return ttlMs * chance.pick([0.2, 0.5, 1, 3, -0.3, -1, -2]);
}

function wallJumpMs({ family }: Shared, maxTtlMs: number, chance: Chance): number {
  if (forgets(family)) return -maxTtlMs * chance.pick([0.5, 2, 10]);
  if (family === 'calendar') return -chance.pick([1_000, 700_000]);
  return maxTtlMs * chance.pick([-10, -2, -0.5, 0.5, 2, 10, 1_000]);
}
