import type { LockNames } from '../../core/nodes/lock-node.ts';
import { ExpiringMap } from './expiring-map.ts';

/** What a node remembers of a lock's ballots. */
export interface Fence {
  /** F: every ballot up to it is refused. */
  readonly fence: number;
  /** What F was before the last accept; 0 = there was none. */
  readonly previous: number;
}

/** What join wrote: since when this incarnation of the server may vote. */
export interface Marker {
  readonly voteAfterMs: number;
  readonly runId: string;
  readonly restartGuardMs: number;
  readonly floorRetentionMs: number;
}

/** The data of one server at one moment, as in a dump file. Opaque. */
export interface MemorySnapshot {
  readonly locks: ReadonlyMap<string, unknown>;
  readonly fences: ReadonlyMap<string, unknown>;
  readonly markers: ReadonlyMap<string, Marker>;
}

/** The keys of one server and its own clock: what the commands read and write. */
export class MemoryState {
  readonly nowMicros: () => number;
  readonly locks: ExpiringMap<string>;
  readonly fences: ExpiringMap<Fence>;
  readonly markers = new Map<string, Marker>();
  /** Changes with every start of the server. */
  runId: string;

  constructor(nowMicros: () => number, runId: string) {
    this.nowMicros = nowMicros;
    this.runId = runId;
    this.locks = new ExpiringMap(() => this.nowMs());
    this.fences = new ExpiringMap(() => this.nowMs());
  }

  nowMs(): number {
    return Math.floor(this.nowMicros() / 1000);
  }

  clear(): void {
    this.locks.clear();
    this.fences.clear();
    this.markers.clear();
  }

  dump(): MemorySnapshot {
    return { locks: this.locks.dump(), fences: this.fences.dump(), markers: new Map(this.markers) };
  }

  load(snapshot: MemorySnapshot): void {
    this.clear();
    this.locks.load(snapshot.locks);
    this.fences.load(snapshot.fences);
    for (const [name, marker] of snapshot.markers) this.markers.set(name, marker);
  }
}

/** One key of a lock: where its holder and its fence are. */
export interface LockPair {
  readonly lock: string;
  readonly fence: string;
}

export function pairsOf(names: LockNames): LockPair[] {
  return names.locks.map((lock, index) => ({ lock, fence: names.pairs[2 * index + 1]! }));
}

export function markerNameOf(names: LockNames): string {
  return names.withMarker[0]!;
}

/** F, 0 when none is remembered. */
export function fenceOf(state: MemoryState, pair: LockPair): number {
  return state.fences.get(pair.fence)?.fence ?? 0;
}

export interface Holder {
  readonly holder: string;
  /** -1: without expiry. */
  readonly remainingMs: number;
}

/** Of the owners other than `holder`, the one whose lock lives longest. */
export function longestHolder(
  state: MemoryState,
  pairs: readonly LockPair[],
  holder?: string,
): Holder | undefined {
  let longest: Holder | undefined;
  for (const pair of pairs) {
    const holder = state.locks.get(pair.lock);
    if (holder === undefined || holder === holder) continue;
    const remainingMs = state.locks.remainingMs(pair.lock);
    if (longest === undefined || lifeOf(remainingMs) > lifeOf(longest.remainingMs))
      longest = { holder, remainingMs };
  }
  return longest;
}

function lifeOf(remainingMs: number): number {
  return remainingMs === -1 ? Infinity : remainingMs;
}

export function highestFence(state: MemoryState, pairs: readonly LockPair[]): number {
  return Math.max(...pairs.map((pair) => fenceOf(state, pair)));
}
