import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { QueuePlace, type QueuedKey } from './queue-place.ts';

/** Time for which a process may keep a key for its own callers while others wait: hand-over inside a process is cheapest. */
const ROW_MS = 40;

/**
 * The turn of this process at one key. A row of grants here lasts for 40 ms, or hand-over between processes would take most of the
 * time of short holds. At its end this process leaves the line at all nodes: those that did not vote for it would name its old
 * place, ahead of others that have waited for longer.
 */
export class KeyTurn {
  /** Undefined where no caller here has to wait for another process. */
  place: QueuePlace | undefined = undefined;
  readonly #nodes: NodeSet;
  readonly #key: QueuedKey;
  /** Whether nodes may have a place of this process in the line of the key. */
  #isInLine = false;
  /** When the key was granted first in the present row. */
  #rowSinceMs: number | undefined;

  constructor(nodes: NodeSet, key: QueuedKey) {
    this.#nodes = nodes;
    this.#key = key;
  }

  get isInRow(): boolean {
    return this.#rowSinceMs !== undefined;
  }

  /** Takes its place in the line of the nodes, or says that it still stands there. */
  stand(nowMs: number): void {
    // Its row is over, and what nodes keep for it is the turn of others.
    if (this.isInRow) this.passOn();
    this.#isInLine = true;
    this.place ??= new QueuePlace(this.#nodes, this.#key);
    this.place.stand(nowMs);
  }

  /** No caller here waits for another process any more. */
  end(): void {
    this.place?.end();
    this.place = undefined;
  }

  /** Goes on with the row, or begins one. Returns false where it is over. */
  keep(grantedAtMs: number, nowMs: number): boolean {
    const sinceMs = this.#rowSinceMs ?? grantedAtMs;
    if (nowMs - sinceMs >= ROW_MS) return false;
    this.#rowSinceMs = sinceMs;
    return true;
  }

  /** Ends the row, and returns whether nodes may have a place of this process: the release has to leave it. */
  pass(): boolean {
    const wasInLine = this.#isInLine;
    this.#isInLine = false;
    this.#rowSinceMs = undefined;
    return wasInLine;
  }

  /** Gives back what nodes keep for callers here, and the place of this process in the line. */
  passOn(): void {
    const wasInRow = this.isInRow;
    if (!this.pass() && !wasInRow) return;
    const { options, mark, clock, allBits } = this.#nodes;
    const names = new NodeNames(options.keyPrefix, [this.#key.key]);
    const request = { names, holder: `#${mark}`, granted: true, pass: true };
    this.#nodes.release(allBits, request, clock.nowMs);
  }
}
