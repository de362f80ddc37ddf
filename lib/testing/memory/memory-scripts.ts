import type * as port from '../../core/nodes/lock-node.ts';
import { markOf } from '../../core/nodes/node-names.ts';
import { revokedText } from '../../core/process-identity.ts';
import { MAX_DURATION_MS } from '../../core/options/duration.ts';
import { failure, NOT_AN_INTEGER } from './memory-fault.ts';
import {
  type LockPair,
  type Marker,
  type MemoryState,
  type QueuedProcess,
  floorOf,
  holderOf,
  keptFor,
  pairsOf,
} from './memory-state.ts';

/** The work of the Lua scripts, as functions over the state of one server. */

const DAY_MICROS = 86_400_000_000;
const SECOND_MICROS = 1_000_000;

/** JOIN: the server remembers since when this start of it may vote. */
export function join(state: MemoryState, request: port.JoinRequest): port.JoinReply {
  const { markerName, floorRetentionMs, versions } = request;
  const { runId } = state;
  // Read once: time stands still inside a script.
  const nowMs = state.nowMs();
  const marker = state.markers.get(markerName);
  // When it is not ours, no process joined this start yet, or everything was flushed.
  const isOurs = marker?.runId === runId;
  if (marker !== undefined && disagrees(marker, request, isOurs))
    return {
      kind: 'disagree',
      versions: marker.versions,
      floorRetentionMs: marker.floorRetentionMs,
    };
  let { restartGuardMs } = request;
  // Longer ago than any guard.
  let joinedAtMs = state.hasServedGuard ? nowMs - MAX_DURATION_MS : nowMs;
  if (isOurs) {
    restartGuardMs = Math.max(marker.restartGuardMs, restartGuardMs);
    // When the clock went back, what was promised before is unknown. Otherwise a rolling deploy may raise maxTtl: the time
    // of the join stays, the guard grows.
    const wentBack = marker.voteAfterMs - nowMs > marker.restartGuardMs;
    if (!wentBack) joinedAtMs = marker.voteAfterMs - marker.restartGuardMs;
  }
  const voteAfterMs = joinedAtMs + restartGuardMs;
  state.markers.set(markerName, { voteAfterMs, runId, restartGuardMs, floorRetentionMs, versions });
  const others = noteConfiguration(state, request, nowMs);
  const joined = { kind: 'joined', quarantineMs: Math.max(0, voteAfterMs - nowMs) } as const;
  return others.length > 0 ? { ...joined, others } : joined;
}

function disagrees(
  { versions: [lowest, highest], floorRetentionMs }: Marker,
  request: port.JoinRequest,
  isOurs: boolean,
): boolean {
  const isDisjoint = lowest > request.versions[1] || highest < request.versions[0];
  return isDisjoint || (isOurs && floorRetentionMs !== request.floorRetentionMs);
}

/** Returns the others that joined within a day, the latest 15. */
function noteConfiguration(
  state: MemoryState,
  { markerName, configuration }: port.JoinRequest,
  nowMs: number,
): string[] {
  const known = state.configurations.get(markerName) ?? [];
  const recent = known.filter(({ atMs }) => nowMs - atMs < DAY_MICROS / 1000);
  const others = recent.filter((each) => each.configuration !== configuration);
  const latest = [...others.slice(-15), { configuration, atMs: nowMs }];
  state.configurations.set(markerName, latest);
  return others.map((each) => each.configuration);
}

/**
 * ACQUIRE: all keys or nothing; accepts only a free (or own) lock and a ballot above everything remembered. Without the gate of the
 * script, which lets nothing more through while the clock of the server does not step.
 */
export function acquire(
  state: MemoryState,
  request: port.AcquireRequest,
  start: string,
): port.AcquireReply {
  const { names, holder, ballot, ttlMs } = request;
  const pairs = pairsOf(names);
  const right = votingRight(state, names, start);
  if (right.kind !== 'open') return right;
  const highest = highestFloor(state, pairs);
  for (const [index, { lock }] of pairs.entries()) {
    const other = state.locks.get(lock) ?? holder;
    const remainingMs = state.locks.remainingMs(lock);
    if (other !== holder && other !== keptFor(holder))
      return { kind: 'held', index, remainingMs, floor: highest, holder: other };
  }
  const nowMicros = state.nowMicros();
  const known = Math.max(...pairs.map((pair) => refusedUpTo(state, pair, holder, ballot)));
  const clock = clockFloor(right.marker, nowMicros);
  const floor = Math.max(known, clock);
  if (ballot <= floor) return { kind: 'stale', floor, nowMicros, byClock: clock > known };
  if (ballot > Math.max(nowMicros + DAY_MICROS, highest + SECOND_MICROS))
    return { kind: 'ahead', nowMicros, floor: highest };
  if (!Number.isInteger(ttlMs)) return NOT_AN_INTEGER;
  const keepMs = floorLifeMs(state, ballot, ttlMs, right.marker.floorRetentionMs);
  for (const pair of pairs) {
    const before = state.floors.get(pair.floor);
    const mine = state.locks.get(pair.lock) === holder;
    const previous = (mine ? before?.previous : before?.floor) ?? 0;
    state.floors.set(pair.floor, { floor: ballot, previous }, keepMs);
    state.locks.set(pair.lock, holder, ttlMs);
  }
  return { kind: 'accepted' };
}

/** The floor, except that a duplicate of our own accepted ballot is accepted again. */
function refusedUpTo(state: MemoryState, pair: LockPair, holder: string, ballot: number): number {
  const floor = floorOf(state, pair);
  const duplicate = floor === ballot && state.locks.get(pair.lock) === holder;
  return duplicate ? ballot - 1 : floor;
}

/** Ballots that the node refuses without remembering why: those up to floors that expired, or were lost in a restart. */
function clockFloor(marker: Marker, nowMicros: number): number {
  const expired = nowMicros - marker.floorRetentionMs * 500;
  if (marker.restartGuardMs === 0) return expired;
  return Math.max(expired, marker.voteAfterMs * 1000 - marker.restartGuardMs * 500);
}

/** EXTEND: all keys or nothing, never shortens; a missing key is set again where nobody newer was accepted. */
export function extend(
  state: MemoryState,
  request: port.ExtendRequest,
  start: string,
): port.ExtendReply {
  const { names, holder, ballot, ttlMs } = request;
  const pairs = pairsOf(names);
  if (start !== state.runId) return { kind: 'unjoined' };
  const lost = pairs.find((pair) => isLost(state, request, pair));
  if (lost !== undefined) {
    const other = state.locks.get(lost.lock);
    return revokedText(other) === undefined ? { kind: 'lost' } : { kind: 'lost', revoked: other! };
  }
  const right = votingRight(state, names, start);
  const recreated = pairs.filter((pair) => holderOf(state, pair) === undefined).length;
  // Setting a key again is a vote.
  if (recreated > 0 && right.kind !== 'open') return right;
  if (!Number.isInteger(ttlMs)) return NOT_AN_INTEGER;
  for (const pair of pairs) {
    const lockLifeMs = Math.max(0, state.locks.remainingMs(pair.lock));
    // When there is no marker, the distance that acquire put between lock and floor stands for R.
    const retentionMs =
      state.markers.get(names.marker)?.floorRetentionMs ??
      Math.max(0, state.floors.remainingMs(pair.floor) - lockLifeMs);
    const before = state.floors.get(pair.floor);
    const missing = holderOf(state, pair) === undefined;
    const raise = before === undefined || before.floor < ballot || missing;
    const next = raise ? { floor: ballot, previous: ballot } : before;
    const keepMs = floorLifeMs(state, next.floor, ttlMs, retentionMs);
    state.floors.setForAtLeast(pair.floor, next, keepMs);
    if (missing) state.locks.set(pair.lock, holder, ttlMs);
    else state.locks.setForAtLeast(pair.lock, holder, ttlMs);
  }
  return { kind: 'extended', recreated };
}

function isLost(state: MemoryState, request: port.ExtendRequest, pair: LockPair): boolean {
  const holder = holderOf(state, pair);
  return holder === undefined ? floorOf(state, pair) > request.ballot : holder !== request.holder;
}

/** Tells a message to the connections that subscribed to a channel, and returns how many there are. */
type Publish = (channel: string, message: string) => number;

const OWN_GRACE_MS = 20;
const LONGEST_GRACE_MS = 200;
const LONGEST_QUEUE = 1_000;
const DAY_MS = 86_400_000;

/** RELEASE: deletes only what this holder has; an abandoned attempt leaves the floor as it found it. */
export function release(
  state: MemoryState,
  { names, holder, granted, pass }: port.ReleaseRequest,
  publish: Publish,
): port.ReleaseReply {
  const own = pairsOf(names).filter((pair) => state.locks.get(pair.lock) === holder);
  for (const pair of own) {
    state.locks.delete(pair.lock);
    if (!granted) restoreFloor(state, pair);
    const before = granted ? keptFor(holder) : '';
    if (pass) nextWaiter(state, pair.lock, publish, before);
    else if (granted && state.queues.get(pair.lock) !== undefined)
      state.locks.set(pair.lock, keptFor(holder), OWN_GRACE_MS);
  }
  return { kind: 'released', deleted: own.length };
}

/** Keeps a free lock for the first process in line that listens; not for that which had it until now. */
function nextWaiter(state: MemoryState, lock: string, publish: Publish, own = ''): boolean {
  for (;;) {
    const [head, ...others] = state.queues.get(lock) ?? [];
    if (head === undefined) return false;
    if (others.length === 0) state.queues.delete(lock);
    else state.queues.replace(lock, others);
    const [mark, grace, channel] = memberOf(head.member);
    if (`#${mark}` === own || publish(channel, `0 ${lock}`) === 0) continue;
    const graceMs = Math.min(grace, LONGEST_GRACE_MS);
    state.locks.set(lock, `#${mark}`, graceMs);
    const [second] = others;
    if (second !== undefined) publish(memberOf(second.member)[2], `${graceMs} ${lock}`);
    return true;
  }
}

function memberOf(member: string): [mark: string, graceMs: number, channel: string] {
  const [, mark = '', graceMs, channel = ''] = /^(\S+) (\d+) (.+)$/s.exec(member) ?? [];
  return [mark, Number(graceMs), channel];
}

/** WAIT: stands in line, and votes for nothing. */
export function wait(
  state: MemoryState,
  request: port.WaitRequest,
  publish: Publish,
): port.WaitReply {
  const { names, member } = request;
  const lock = names.locks[0]!;
  // It came just now, so what is kept for it is the turn of an older place: others have waited for longer.
  if (request.ticket === 0 && state.locks.get(lock) === `#${markOf(member)}`)
    state.locks.delete(lock);
  const ticket = request.ticket || state.nowMicros();
  return { kind: 'waiting', ticket, freeInMs: freeInMs(state, request, ticket, publish) };
}

function freeInMs(
  state: MemoryState,
  { names, member, lifeMs }: port.WaitRequest,
  ticket: number,
  publish: Publish,
): number {
  const lock = names.locks[0]!;
  const [mark] = memberOf(member);
  const waiting = state.queues.get(lock) ?? [];
  if (state.locks.get(lock) === `#${mark}`) return -1;
  const isKept = state.locks.get(lock)?.startsWith('#') === true;
  // The first in line heard when the turn is over. It goes on to look after it where it goes behind others, who did not hear.
  const wasFirst = markOf(waiting[0]?.member ?? '') === mark;
  if (waiting.length < LONGEST_QUEUE) {
    const others = waiting.filter((each) => markOf(each.member) !== mark);
    state.queues.setForAtLeast(lock, [...others, { member, ticket }].sort(byTicket), lifeMs);
  }
  const isNamer = state.locks.get(lock) === undefined;
  if (isNamer && !nextWaiter(state, lock, publish)) return 0;
  const value = state.locks.get(lock)!;
  if (value === `#${mark}`) return -1;
  if (value.startsWith(mark)) return 0;
  const leftMs = state.locks.remainingMs(lock);
  const isFirst = state.queues.get(lock)?.[0]?.member === member;
  const isBehind = isKept && !wasFirst && !isFirst;
  return isBehind || leftMs === -1 ? DAY_MS : Math.max(1, leftMs);
}

/** Sorts as a sorted set of Redis does. */
function byTicket(one: QueuedProcess, other: QueuedProcess): number {
  return one.ticket - other.ticket || (one.member < other.member ? -1 : 1);
}

function restoreFloor(state: MemoryState, pair: LockPair): void {
  const previous = state.floors.get(pair.floor)?.previous;
  if (previous === undefined) return;
  if (previous === 0) state.floors.delete(pair.floor);
  else state.floors.replace(pair.floor, { floor: previous, previous });
}

/** INSPECT: who holds longest, and the highest floor. */
export function inspect(state: MemoryState, { names }: port.InspectRequest): port.InspectReply {
  const pairs = pairsOf(names);
  let [longest, remainingMs]: [string | null, number] = [null, 0];
  for (const pair of pairs) {
    const holder = holderOf(state, pair);
    const leftMs = state.locks.remainingMs(pair.lock);
    if (holder === undefined || (longest !== null && lifeOf(leftMs) <= lifeOf(remainingMs)))
      continue;
    [longest, remainingMs] = [holder, leftMs];
  }
  const process = state.processes.get(names.processes + markOf(longest ?? '')) ?? null;
  const floor = highestFloor(state, pairs);
  return { kind: 'inspected', holder: longest, remainingMs, floor, process };
}

/** REVOKE: puts a value in place of a holder. */
export function revoke(state: MemoryState, request: port.RevokeRequest): port.RevokeReply {
  const { names, holder, value, leastMs } = request;
  const [pair] = pairsOf(names) as [LockPair];
  const { lock } = pair;
  if (state.locks.get(lock) !== holder) return { kind: 'revoked', remainingMs: null };
  // A vote writes a TTL, and a floor.
  if (state.locks.remainingMs(lock) === -1 || state.floors.get(pair.floor) === undefined)
    return failure('error', `WRONGTYPE ${lock} holds data that is no lock`);
  state.locks.setForAtLeast(lock, value, Math.ceil(leastMs));
  return { kind: 'revoked', remainingMs: state.locks.remainingMs(lock) };
}

/** SCAN. */
export function list(state: MemoryState, request: port.ListRequest): port.ListReply {
  const { keyPrefix, keysBegin, most } = request;
  const names = state.locks.names().filter((name) => name.startsWith(keyPrefix + keysBegin));
  return { kind: 'listed', names: names.slice(0, most), isComplete: names.length <= most };
}

/** Whether this server may vote now, from the marker that join wrote. */
function votingRight(state: MemoryState, names: port.LockNames, start: string) {
  const marker = state.markers.get(names.marker);
  if (marker?.runId !== start || start !== state.runId) return { kind: 'unjoined' } as const;
  const leftMs = Math.ceil((marker.voteAfterMs * 1000 - state.nowMicros()) / 1000);
  // More than the whole quarantine is left: the clock went back since the join.
  if (leftMs > marker.restartGuardMs) return { kind: 'unjoined' } as const;
  if (leftMs > 0) return { kind: 'quarantined', remainingMs: leftMs } as const;
  return { kind: 'open', marker } as const;
}

/** ttl + R past the later of now and the ballot. */
function floorLifeMs(
  state: MemoryState,
  ballot: number,
  ttlMs: number,
  floorRetentionMs: number,
): number {
  const aheadMs = Math.max(0, Math.ceil((ballot - state.nowMicros()) / 1000));
  return ttlMs + floorRetentionMs + aheadMs;
}

function highestFloor(state: MemoryState, pairs: readonly LockPair[]): number {
  return Math.max(...pairs.map((pair) => floorOf(state, pair)));
}

function lifeOf(remainingMs: number): number {
  return remainingMs === -1 ? Infinity : remainingMs;
}
