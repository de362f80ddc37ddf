import type { LockNames } from '../../lib/core/nodes/lock-node.ts';
import { MemoryLockServer } from '../../lib/testing/index.ts';
import { pairsOf, type Gate } from '../../lib/testing/memory/memory-state.ts';

type Method = 'acquire' | 'extend' | 'release' | 'wait' | 'join';
type Call<Name extends Method> = Parameters<MemoryLockServer[Name]>[0];
type Reply<Name extends Method> = ReturnType<MemoryLockServer[Name]>;
/** What a server does instead: `whole` is the method as it should be, on the same state. */
type Instead<Name extends Method> = (
  request: Call<Name>,
  whole: (request: Call<Name>) => Reply<Name>,
  state: MemoryLockServer['state'],
) => Reply<Name>;
export type Flaw = { readonly [Name in Method]?: Instead<Name> };

/** A server in memory with one flaw. */
export function brokenServer(flaw: Flaw): MemoryLockServer {
  const server = new MemoryLockServer({ fresh: true });
  const replace = <Name extends Method>(name: Name, instead: Instead<Name>): void => {
    const whole = server[name].bind(server) as (request: Call<Name>) => Reply<Name>;
    Reflect.set(server, name, (request: Call<Name>) => instead(request, whole, server.state));
  };
  for (const name of Object.keys(flaw) as Method[]) replace(name, flaw[name] as Instead<Method>);
  return server;
}

/** A gate that is changed once, after the vote that opened it. */
const changesGate = (change: (gate: Gate) => Gate): Flaw => ({
  acquire(request, whole, { gates }) {
    const { marker } = request.names;
    const wasOpen = gates.get(marker) !== undefined;
    const reply = whole(request);
    const gate = gates.get(marker);
    if (gate !== undefined && !wasOpen) gates.replace(marker, change(gate));
    return reply;
  },
});

const gateSurvivesJoin: Flaw = {
  join(request, whole, { gates }) {
    const gate = gates.get(request.markerName);
    const reply = whole(request);
    if (gate !== undefined) gates.set(request.markerName, gate, 37_500);
    return reply;
  },
};

const locksOf = (names: LockNames): string[] => pairsOf(names).map(({ lock }) => lock);

/** Flaws, and the checks that must notice each: the contract is worth only what it catches. */
export const FLAWS = {
  'keeps the ballot of an abandoned attempt': {
    flaw: { release: (request, whole) => whole({ ...request, granted: true }) },
    checks: [
      'abandon: the floor is again what it was before the attempt, also after several ballots',
      'extend: attempts that gave up never stand in the way of the holder',
    ],
  },
  'forgets granted ballots': {
    flaw: { release: (request, whole) => whole({ ...request, granted: false }) },
    checks: [
      'release: deletes the own lock once, and never forgets that it was granted',
      'several keys: a grant of the set orders each key on its own',
    ],
  },
  'takes its own earlier ballot for what was before': {
    flaw: {
      acquire(request, whole, { floors }) {
        const before = pairsOf(request.names).map(({ floor }) => floors.get(floor)?.floor ?? 0);
        const reply = whole(request);
        for (const [index, pair] of pairsOf(request.names).entries())
          if (reply.kind === 'accepted')
            floors.replace(pair.floor, { floor: request.ballot, previous: before[index]! });
        return reply;
      },
    },
    checks: [
      'abandon: the floor is again what it was before the attempt, also after several ballots',
      'acquire: a higher ballot of the same attempt raises the floor and keeps what was before',
    ],
  },
  'sets a missing lock again although a newer ballot was accepted': {
    flaw: {
      extend(request, whole, { locks, floors }) {
        for (const { lock, floor } of pairsOf(request.names))
          if (locks.get(lock) === undefined) floors.delete(floor);
        return whole(request);
      },
    },
    checks: ['extend: a missing lock is not set again once a newer ballot was accepted there'],
  },
  'extends the keys it can': {
    flaw: {
      extend(request, whole, { locks }) {
        const reply = whole(request);
        for (const lock of reply.kind === 'lost' ? locksOf(request.names) : [])
          if (locks.get(lock) === undefined) locks.set(lock, request.holder, request.ttlMs);
        return reply;
      },
    },
    checks: ['several keys: extend renews and sets again all of them or none'],
  },
  'shortens what it extends': {
    flaw: {
      extend(request, whole, { locks }) {
        const reply = whole(request);
        for (const lock of reply.kind === 'extended' ? locksOf(request.names) : [])
          locks.set(lock, request.holder, request.ttlMs);
        return reply;
      },
    },
    checks: ['extend: never shortens a lock or a floor'],
  },
  'gives a lock that somebody holds': {
    flaw: {
      acquire(request, whole, { locks }) {
        for (const lock of locksOf(request.names))
          if (locks.get(lock) !== request.holder) locks.delete(lock);
        return whole(request);
      },
    },
    checks: [
      'acquire: HELD names the holder, its remaining life and the floor, and writes nothing',
      'several keys: one that is held refuses all, and HELD names the first',
    ],
  },
  'accepts one ballot for two holders': {
    flaw: {
      acquire(request, whole, { locks, floors }) {
        for (const { lock, floor } of pairsOf(request.names)) {
          const value = floors.get(floor);
          if (value?.floor === request.ballot && locks.get(lock) === undefined)
            floors.replace(floor, { ...value, floor: value.floor - 1 });
        }
        return whole(request);
      },
    },
    checks: [
      'acquire: STALE at and below the floor, with floor and clock, and writes nothing',
      'acquire: a ballot is accepted for one holder only, also when the lock key vanished',
      'numbers: exact up to 2^53-1 in every command',
    ],
  },
  'deletes the lock of any holder': {
    flaw: {
      release(request, whole, { locks }) {
        for (const lock of locksOf(request.names))
          if (locks.get(lock) !== undefined) locks.set(lock, request.holder, null);
        return whole(request);
      },
    },
    checks: ['release: never touches what another holder owns, nor its floor'],
  },
  'votes at once after a restart': {
    flaw: { join: (request, whole) => whole({ ...request, restartGuardMs: 0 }) },
    checks: [
      'join: with a guard the node is in quarantine first, and writes nothing',
      'restart empty: no vote before the join, quarantine after it',
      'restart with its data: quarantine again, held locks are still extended and released',
    ],
  },
  'begins the quarantine again with every join': {
    flaw: {
      join(request, whole, { markers }) {
        markers.delete(request.markerName);
        return whole(request);
      },
    },
    checks: ['join: the node follows the larger guard, counted from the first join'],
  },
  'names somebody whatever was asked for': {
    flaw: { release: (request, whole) => whole({ ...request, pass: true }) },
    checks: [
      'turn: without pass the lock stays with its own service for a moment, where others wait',
      'turn: an abandoned attempt names the first in line if it is asked to, and forgets its ballot',
    ],
  },
  'names nobody': {
    flaw: { release: (request, whole) => whole({ ...request, pass: false }) },
    checks: [
      'turn: a release names the first in line and keeps the lock for it alone, and the second hears when that is over',
      'turn: one that is given back goes to the next',
    ],
  },
  'keeps a free lock for as long as it would be held': {
    flaw: {
      release(request, whole, { locks }) {
        const reply = whole(request);
        for (const lock of locksOf(request.names)) {
          const value = locks.get(lock);
          if (value?.startsWith('#')) locks.set(lock, value, 60_000);
        }
        return reply;
      },
    },
    checks: [
      'turn: a lock that nobody takes is free after its grace, at most 200 ms',
      'turn: without pass the lock stays with its own service for a moment, where others wait',
    ],
  },
  'keeps a line for as long as the latest in it says': {
    flaw: {
      wait(request, whole, { queues }) {
        const reply = whole(request);
        const lock = request.names.locks[0]!;
        const queued = queues.get(lock);
        if (queued !== undefined) queues.set(lock, queued, request.lifeMs);
        return reply;
      },
    },
    checks: [
      'wait: a line in which nobody stands again is forgotten, and no later one shortens its life',
    ],
  },
  'ignores tickets': {
    flaw: { wait: (request, whole) => whole({ ...request, ticket: 0 }) },
    checks: [
      'turn: a release names the first in line and keeps the lock for it alone, and the second hears when that is over',
    ],
  },
  'remembers nothing beyond the life of the lock': {
    flaw: {
      acquire(request, whole, { floors }) {
        const reply = whole(request);
        for (const { floor } of pairsOf(request.names)) {
          const value = floors.get(floor);
          if (reply.kind === 'accepted' && value) floors.set(floor, value, request.ttlMs);
        }
        return reply;
      },
    },
    checks: ['lock: expires by itself, and its floor still refuses the old ballot'],
  },
  'leaves the gate as it was when its marker changes': {
    flaw: gateSurvivesJoin,
    checks: ['gate: a larger guard closes it'],
  },
  'believes the gate of any start': {
    flaw: {
      ...gateSurvivesJoin,
      acquire(request, whole, { gates, runId }) {
        const gate = gates.get(request.names.marker);
        if (gate !== undefined) gates.replace(request.names.marker, { ...gate, runId });
        return whole(request);
      },
    },
    checks: [
      'join: a node with the data of another one does not vote before a new join, and is in quarantine again',
      'gate: a restart that keeps all data closes it',
    ],
  },
  'has a gate further ahead than floors are kept for': {
    flaw: changesGate((gate) => ({ ...gate, high: gate.low + 450_000_000 })),
    checks: ['gate: whatever is accepted is remembered for R past the ballot and past the clock'],
  },
  'has a gate as low as the clock was when it was opened': {
    flaw: changesGate((gate) => ({ ...gate, low: gate.low - 126_000 })),
    checks: ['gate: it lets no ballot through that the clock refuses, up to its end and after it'],
  },
  'keeps the floors of ballots that are ahead as if they were not': {
    flaw: changesGate((gate) => ({ ...gate, floorEndMs: gate.floorEndMs - 75_000 })),
    checks: [
      'gate: whatever is accepted is remembered for R past the ballot and past the clock',
      'clock: a ballot that a gate accepted is refused for good, also after a step back of R/2',
    ],
  },
  'counts the life of a floor from the present clock': {
    flaw: {
      acquire(request, whole, state) {
        const gate = state.gates.get(request.names.marker);
        const floorEndMs = state.nowMs() + 675_000;
        if (gate !== undefined) state.gates.replace(request.names.marker, { ...gate, floorEndMs });
        return whole(request);
      },
    },
    checks: ['clock: a step back while a gate is open ends no floor sooner than R past its ballot'],
  },
  'lets ballots of the quarantine through its gate': {
    flaw: changesGate((gate) => ({ ...gate, low: gate.low - 60_000_000 })),
    checks: ['clock: a gate from a jump ahead during the quarantine does not end it'],
  },
  'has a gate without an end': {
    flaw: {
      acquire(request, whole, { gates }) {
        const reply = whole(request);
        const gate = gates.get(request.names.marker);
        if (gate !== undefined) gates.set(request.names.marker, gate, null);
        return reply;
      },
    },
    checks: [
      'clock: a ballot that a gate accepted is refused for good, also after a step back of R/2',
    ],
  },
} satisfies Record<string, { readonly flaw: Flaw; readonly checks: readonly string[] }>;
