interface Entry<Value> {
  readonly value: Value;
  /** Milliseconds of the server's clock; `Infinity`: never. */
  readonly expiresAtMs: number;
}

/** Keys of a Redis that expire by that server's own clock. */
export class ExpiringMap<Value> {
  readonly #nowMs: () => number;
  #entries = new Map<string, Entry<Value>>();

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
    this.#entries.set(name, { value, expiresAtMs: this.#nowMs() + (ttlMs ?? Infinity) });
  }

  /** Sets the value, and the life only if that makes it longer. */
  setForAtLeast(name: string, value: Value, ttlMs: number): void {
    const expiresAtMs = Math.max(this.#live(name)?.expiresAtMs ?? 0, this.#nowMs() + ttlMs);
    this.#entries.set(name, { value, expiresAtMs });
  }

  /** Changes the value of a key that exists; its life stays as it is. */
  replace(name: string, value: Value): void {
    const entry = this.#live(name);
    if (entry !== undefined) this.#entries.set(name, { value, expiresAtMs: entry.expiresAtMs });
  }

  delete(name: string): boolean {
    const existed = this.#live(name) !== undefined;
    this.#entries.delete(name);
    return existed;
  }

  /** Names of the keys that exist now. */
  names(): string[] {
    return [...this.#entries.keys()].filter((name) => this.#live(name) !== undefined);
  }

  /** Everything with its absolute expiry, as a dump file has it. */
  dump(): ReadonlyMap<string, unknown> {
    return new Map(this.#entries);
  }

  load(dump: ReadonlyMap<string, unknown>): void {
    this.#entries = new Map(dump as ReadonlyMap<string, Entry<Value>>);
  }

  #live(name: string): Entry<Value> | undefined {
    const entry = this.#entries.get(name);
    if (entry === undefined || this.#nowMs() <= entry.expiresAtMs) return entry;
    this.#entries.delete(name);
    return undefined;
  }
}
