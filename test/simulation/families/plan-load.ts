import type { Chance } from '../world/chance.ts';
import { habitsOf, planQuiet } from './plan.ts';
import type { Habits, LoadFamily, Plan } from './plan.ts';
import type { Fault, PlannedFault } from './plan-faults.ts';

export const LOAD_PLANS: Readonly<Record<LoadFamily, (seed: number, chance: Chance) => Plan>> = {
  bursts: planBursts,
  sets: planSets,
  'blocked-loops': planBlockedLoops,
  detached: planDetached,
  'silent-connections': planSilentConnections,
  suspends: planSuspends,
};

function planBursts(seed: number, chance: Chance): Plan {
  const burst = { kind: 'burst', keys: chance.integer(500, 700), waitMs: 4_000 } as const;
  return planQuiet(seed, chance, {
    family: 'bursts',
    nodes: 3,
    ttlMs: 2_000,
    callers: [1, 1],
    commandMs: 0.02,
    serverMs: 0.4,
    concurrentTries: 64,
    durationMs: 1_000,
    grantedWithinMs: 4_000,
    habits: { ...habitsOf(2_000, true), waitsMs: [4_000], holdsMs: [0, 5], sets: 0 },
    faults: [{ ...burst, clients: chance.pick([[0], [0], [0, 1]]), atMs: 500, lastsMs: 0 }],
  });
}

function planSets(seed: number, chance: Chance): Plan {
  const alone = chance.happens(0.7);
  const keys = ['a', 'b', 'c', 'd'].slice(0, chance.integer(2, 4));
  const habits: Habits = {
    ...habitsOf(1_000, true),
    waitsMs: [2_000],
    holdsMs: [1, 3, 5, 12],
    pausesMs: [0],
    sets: 0,
    setCallers: chance.integer(1, 2),
    sticky: true,
    nested: chance.pick([0, 0.1]),
  };
  const plan = planQuiet(seed, chance, {
    family: 'sets',
    nodes: 3,
    ttlMs: 1_000,
    keys,
    callers: [2 + keys.length * chance.integer(2, 3), ...(alone ? [] : [1])],
    concurrentTries: chance.pick([512, 3]),
    durationMs: 700,
    habits,
    grantedWithinMs: alone ? 1_000 : Infinity,
  });
  // Habits of somebody elsewhere who holds one key for long.
  const elsewhere = { holdsMs: [700], setCallers: 0, sticky: false, nested: 0 };
  const clients = plan.clients.map((client, index) =>
    index === 1 && chance.happens(0.5) ? { ...client, habits: elsewhere } : client,
  );
  return { ...plan, clients };
}

function planBlockedLoops(seed: number, chance: Chance): Plan {
  const ttlMs = chance.pick([500, 1_000]);
  const durationMs = 8 * ttlMs;
  const faults = [0, 1].flatMap((client) =>
    series({ untilMs: durationMs, apartMs: () => ttlMs * chance.between(1.3, 2) }, () => {
      const forMs = ttlMs * chance.pick([0.05, 0.15, 0.3]);
      return chance.happens(0.3)
        ? { kind: 'crowd', clients: [client], waitsMs: [ttlMs, 0, ttlMs / 8, 0], forMs }
        : { kind: 'block', clients: [client], afterCommands: chance.integer(0, 12), forMs };
    }),
  );
  return planQuiet(seed, chance, {
    family: 'blocked-loops',
    nodes: chance.pick([3, 5]),
    ttlMs,
    keys: ['a', 'b', 'c'],
    callers: [2, 2],
    durationMs,
    habits: { ...habitsOf(ttlMs, true), waitsMs: [0, 10, ttlMs] },
    keepsLocks: true,
    faults,
  });
}

function planDetached(seed: number, chance: Chance): Plan {
  const ttlMs = 300;
  const readingsPerStall = chance.pick([Infinity, 1_000]);
  return planQuiet(seed, chance, {
    family: 'detached',
    nodes: 3,
    ttlMs,
    keys: ['a', 'b'],
    callers: [2, 2],
    durationMs: 8 * ttlMs,
    readingsPerStall,
    keepsLocks: readingsPerStall === Infinity,
    habits: {
      ...habitsOf(ttlMs),
      waitsMs: [0, ttlMs, 3 * ttlMs],
      holdsMs: [0, 5, 20],
      sections: 0.8,
      detached: 0.7,
      careless: false,
    },
  });
}

function planSilentConnections(seed: number, chance: Chance): Plan {
  const ttlMs = 1_000;
  const durationMs = 60_000;
  const one = (): number => chance.integer(0, 2);
  const drawn = (): Fault => {
    const ends = { clients: [one()], servers: chance.pick([[one()], [0, 1, 2]]) };
    return chance.pick<Fault>([
      { kind: 'forget', what: 'commands', ...ends },
      { kind: 'forget', what: 'commands', ...ends },
      { kind: 'forget', what: 'hints', ...ends },
      { kind: 'freeze', servers: ends.servers },
      { kind: 'error', servers: [one()], reply: chance.pick(['READONLY', 'LOADING']) },
      { kind: 'reset', ...ends, lateByMs: 10 },
    ]);
  };
  const times = { untilMs: durationMs, apartMs: () => chance.between(100, 8_000) };
  const faults = series({ ...times, lastsMs: 5_000 }, drawn);
  // A client that connects again while a node fails has to join it again and again.
  for (const fault of faults)
    if (fault.kind === 'error')
      faults.push({ ...fault, kind: 'reset', clients: [0, 1, 2], lateByMs: 0, lastsMs: 0 });
  return planQuiet(seed, chance, {
    family: 'silent-connections',
    nodes: 3,
    ttlMs,
    callers: [1, 1, 1],
    durationMs,
    habits: {
      ...habitsOf(ttlMs),
      waitsMs: [0, ttlMs, 6_000],
      holdsMs: [0, ttlMs / 2],
      pausesMs: [50, 1_000, 18_000],
    },
    faults,
  });
}

function planSuspends(seed: number, chance: Chance): Plan {
  const ttlMs = chance.pick([300, 500]);
  const durationMs = 10 * ttlMs;
  const times = { untilMs: durationMs, apartMs: () => ttlMs * chance.between(0.1, 1) };
  const faults = series(times, () => ({
    kind: 'suspend',
    clients: [chance.integer(0, 2)],
    forMs: ttlMs * chance.pick([0.3, 0.7, 1.1, 3]),
  }));
  return planQuiet(seed, chance, {
    family: 'suspends',
    nodes: chance.pick([3, 5]),
    ttlMs,
    keys: ['a', 'b'],
    callers: [2, 2, 1],
    durationMs,
    faults,
  });
}

interface Times {
  readonly untilMs: number;
  readonly apartMs: () => number;
  readonly lastsMs?: number;
}

/** Series of faults. All instants are drawn before the first fault: it is the order that the seeds stand for. */
function series({ untilMs, apartMs, lastsMs = 0 }: Times, draw: () => Fault): PlannedFault[] {
  const instants: number[] = [];
  for (let atMs = apartMs(); atMs < untilMs; atMs += apartMs()) instants.push(atMs);
  return instants.map((atMs) => ({ ...draw(), atMs, lastsMs }));
}
