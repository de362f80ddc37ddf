import type { LockNames } from '../../core/nodes/lock-node.ts';
import { ExpiringMap } from './expiring-map.ts';

/** What a node remembers of a lock's ballots. */
export interface Floor {
  /** F: every ballot up to it is refused. */
  readonly floor: number;
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

/** What marker and clock said of ballots for free keys, kept for a while. */
export interface Gate {
  readonly runId: string;
  /** Ballots above it, up to `high`, are accepted. */
  readonly low: number;
  readonly high: number;
  /** When a floor ends at the earliest, by the server's clock; the ttl of its lock counts on top. */
  readonly floorEndMs: number;
}

/** The data of one server at one moment, as in a dump file. Opaque. */
export interface MemorySnapshot {
  readonly locks: ReadonlyMap<string, unknown>;
  readonly floors: ReadonlyMap<string, unknown>;
  readonly markers: ReadonlyMap<string, Marker>;
  readonly gates: ReadonlyMap<string, unknown>;
}

/** The keys of one server and its own clock: what the commands read and write. */
export class MemoryState {
  readonly nowMicros: () => number;
  readonly locks: ExpiringMap<string>;
  readonly floors: ExpiringMap<Floor>;
  markers = new Map<string, Marker>();
  /** By the name of the marker. */
  readonly gates: ExpiringMap<Gate>;
  /** Changes with every start of the server. */
  runId: string;
  /** Whether the first join finds nothing to wait for, as on a server that has run for long. */
  hasServedGuard: boolean;

  constructor(nowMicros: () => number, runId: string, hasServedGuard: boolean) {
    this.nowMicros = nowMicros;
    this.runId = runId;
    this.hasServedGuard = hasServedGuard;
    this.locks = new ExpiringMap(() => this.nowMs());
    this.floors = new ExpiringMap(() => this.nowMs());
    this.gates = new ExpiringMap(() => this.nowMs());
  }

  nowMs(): number {
    return Math.floor(this.nowMicros() / 1000);
  }

  clear(): void {
    this.load({ locks: new Map(), floors: new Map(), markers: new Map(), gates: new Map() });
    this.hasServedGuard = false;
  }

  dump(): MemorySnapshot {
    return {
      locks: this.locks.dump(),
      floors: this.floors.dump(),
      markers: new Map(this.markers),
      gates: this.gates.dump(),
    };
  }

  load({ locks, floors, markers, gates }: MemorySnapshot): void {
    this.locks.load(locks);
    this.floors.load(floors);
    this.markers = new Map(markers);
    this.gates.load(gates);
  }
}

/** One key of a lock: where its holder and its floor are. */
export interface LockPair {
  readonly lock: string;
  readonly floor: string;
}

export function pairsOf(names: LockNames): LockPair[] {
  return names.locks.map((lock, index) => ({ lock, floor: names.pairs[2 * index + 1]! }));
}

/** F, 0 when none is remembered. */
export function floorOf(state: MemoryState, pair: LockPair): number {
  return state.floors.get(pair.floor)?.floor ?? 0;
}
