import type { FailedAttempt } from '../voting/attempt.ts';

/** A place in the line of every key of one acquire. */
export class Turn {
  readonly keys: readonly string[];
  /** Last failed try of whoever is first: what those behind report when their wait ends. */
  lastFailure: FailedAttempt | undefined;
  readonly #queue: WaitQueue;
  #onFirst: (() => void) | undefined;

  constructor(queue: WaitQueue, keys: readonly string[]) {
    this.#queue = queue;
    this.keys = keys;
  }

  get isFirst(): boolean {
    return this.#queue.isFirst(this);
  }

  /** The first in line for a key where this one is not. */
  get ahead(): Turn | undefined {
    return this.#queue.ahead(this);
  }

  /** Calls once, when this becomes the first in every line. */
  whenFirst(callback: (() => void) | undefined): void {
    this.#onFirst = callback;
  }

  leave(): void {
    this.#queue.leave(this);
  }

  wake(): void {
    if (!this.isFirst) return;
    this.#onFirst?.();
    this.#onFirst = undefined;
  }
}

/**
 * First come, first served inside the process, and one contender per process and key: the others ask no node.
 *
 * A set of keys enters all its lines in one step, so two sets that overlap always stand in the same order everywhere.
 */
export class WaitQueue {
  readonly #lines = new Map<string, Turn[]>();

  enter(keys: readonly string[]): Turn {
    const turn = new Turn(this, keys);
    for (const key of keys) {
      const line = this.#lines.get(key);
      if (line === undefined) this.#lines.set(key, [turn]);
      else line.push(turn);
    }
    return turn;
  }

  isFirst(turn: Turn): boolean {
    for (const key of turn.keys) if (this.#lines.get(key)?.[0] !== turn) return false;
    return true;
  }

  ahead(turn: Turn): Turn | undefined {
    for (const key of turn.keys) {
      const first = this.#lines.get(key)?.[0];
      if (first !== undefined && first !== turn) return first;
    }
    return undefined;
  }

  leave(turn: Turn): void {
    let next: Turn[] | undefined;
    for (const key of turn.keys) {
      const line = this.#lines.get(key);
      if (line === undefined) continue;
      if (line.length === 1) {
        if (line[0] === turn) this.#lines.delete(key);
        continue;
      }
      const position = line.indexOf(turn);
      if (position >= 0) line.splice(position, 1);
      if (position === 0 && line[0] !== undefined) (next ??= []).push(line[0]);
    }
    // All lines first: whoever is woken must find them as they are now.
    for (const other of next ?? []) other.wake();
  }
}
