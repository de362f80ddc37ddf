import type { LockNames } from '../../core/nodes/lock-node.ts';

interface Entry<Value> {
  readonly value: Value;
  /** Milliseconds of the server's clock; `Infinity`: never. */
  readonly expiresAtMs: number;
}

/** The keys of a Redis that expire by that server's own clock. */
class ExpiringMap<Value> {
  /** Everything with its absolute expiry, as a dump file has it. */
  readonly entries = new Map<string, Entry<Value>>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get(name: string): Value | undefined {
    return this.#live(name)?.value;
  }

  /** Milliseconds left, as PTTL says it: -1 without expiry, -2 when there is no such key. */
  remainingMs(name: string): number {
    const entry = this.#live(name);
    if (entry === undefined) return -2;
    return entry.expiresAtMs === Infinity ? -1 : entry.expiresAtMs - this.#nowMs();
  }

  /** Sets the value with a new life; `null`: it never expires. */
  set(name: string, value: Value, ttlMs: number | null): void {
    this.entries.set(name, { value, expiresAtMs: this.#nowMs() + (ttlMs ?? Infinity) });
  }

  /** Sets the value, and the life only if that makes it longer. */
  setForAtLeast(name: string, value: Value, ttlMs: number): void {
    const expiresAtMs = Math.max(this.#live(name)?.expiresAtMs ?? 0, this.#nowMs() + ttlMs);
    this.entries.set(name, { value, expiresAtMs });
  }

  /** Changes the value of a key that exists; its life stays as it is. */
  replace(name: string, value: Value): void {
    const entry = this.#live(name);
    if (entry !== undefined) this.entries.set(name, { value, expiresAtMs: entry.expiresAtMs });
  }

  delete(name: string): boolean {
    const existed = this.#live(name) !== undefined;
    this.entries.delete(name);
    return existed;
  }

  /** The names of the keys that exist now. */
  names(): string[] {
    return [...this.entries.keys()].filter((name) => this.#live(name) !== undefined);
  }

  #live(name: string): Entry<Value> | undefined {
    const entry = this.entries.get(name);
    if (entry === undefined || this.#nowMs() <= entry.expiresAtMs) return entry;
    this.entries.delete(name);
    return undefined;
  }
}

/** Ballots of a lock, as a node remembers them. */
export interface Floor {
  /** F: every ballot up to it is refused. */
  readonly floor: number;
  /** The value of F before the last accept; 0 = there was none. */
  readonly previous: number;
}

/** Marker that join wrote: since when this incarnation of the server may vote. */
export interface Marker {
  readonly voteAfterMs: number;
  readonly runId: string;
  readonly restartGuardMs: number;
  readonly floorRetentionMs: number;
  /** Versions of the protocol: the lowest and the highest that its writer speaks. */
  readonly versions: readonly [lowest: number, highest: number];
}

/** Process in the line of a lock. */
export interface QueuedProcess {
  readonly member: string;
  readonly ticket: number;
}

/** The data of one server at one moment, as in a dump file. Opaque. */
export interface MemorySnapshot {
  readonly locks: ReadonlyMap<string, unknown>;
  readonly floors: ReadonlyMap<string, unknown>;
  readonly markers: ReadonlyMap<string, Marker>;
  readonly queues: ReadonlyMap<string, unknown>;
  readonly processes: ReadonlyMap<string, unknown>;
  readonly configurations: ReadonlyMap<string, unknown>;
}

/** Configuration, and when a process with it joined last. */
export interface Joined {
  readonly configuration: string;
  readonly atMs: number;
}

/** The keys of one server and its own clock: what the commands read and write. */
export class MemoryState {
  readonly nowMicros: () => number;
  readonly locks: ExpiringMap<string>;
  readonly floors: ExpiringMap<Floor>;
  readonly markers = new Map<string, Marker>();
  /** Processes that wait, in the order of their tickets, by the name of the lock. */
  readonly queues: ExpiringMap<readonly QueuedProcess[]>;
  readonly processes: ExpiringMap<string>;
  /** The configurations by the name of the marker, in the order of the joins. */
  readonly configurations = new Map<string, readonly Joined[]>();
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
    this.queues = new ExpiringMap(() => this.nowMs());
    this.processes = new ExpiringMap(() => this.nowMs());
  }

  nowMs(): number {
    return Math.floor(this.nowMicros() / 1000);
  }

  clear(): void {
    for (const map of Object.values(this.#data())) map.clear();
    this.hasServedGuard = false;
  }

  dump(): MemorySnapshot {
    const copies = Object.entries(this.#data()).map(([name, map]) => [name, new Map(map)]);
    return Object.fromEntries(copies) as MemorySnapshot;
  }

  load(snapshot: MemorySnapshot): void {
    for (const [name, map] of Object.entries(this.#data())) {
      map.clear();
      for (const [key, value] of snapshot[name as keyof MemorySnapshot]) map.set(key, value);
    }
  }

  #data(): Readonly<Record<keyof MemorySnapshot, Map<string, any>>> {
    const { markers, configurations, processes } = this;
    const [locks, floors, queues] = [this.locks.entries, this.floors.entries, this.queues.entries];
    return { locks, floors, markers, queues, configurations, processes: processes.entries };
  }
}

/** The key of a lock: where its holder and its floor are. */
export interface LockPair {
  readonly lock: string;
  readonly floor: string;
}

export function pairsOf(names: LockNames): LockPair[] {
  return names.locks.map((lock, index) => ({ lock, floor: names.pairs[2 * index + 1]! }));
}

/** Length of the text with which all holders of one service begin. */
const MARK_LENGTH = 8;

/** The value of a lock that is free, and kept for the processes of this holder. */
export function keptFor(holder: string): string {
  return `#${holder.slice(0, MARK_LENGTH)}`;
}

/** The holder of a lock; undefined where it is free, also where it is kept for somebody. */
export function holderOf(state: MemoryState, { lock }: LockPair): string | undefined {
  const holder = state.locks.get(lock);
  const isKept = holder?.length === MARK_LENGTH + 1 && holder.startsWith('#');
  return isKept ? undefined : holder;
}

/** F, 0 when none is remembered. */
export function floorOf(state: MemoryState, pair: LockPair): number {
  return state.floors.get(pair.floor)?.floor ?? 0;
}
