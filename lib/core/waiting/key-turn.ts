import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { QueuePlace, type QueuedKey } from './queue-place.ts';

const ROW_MS = 40;

/**
 * The turn of this process at one key. Where ten callers here and ten in another process hold a key for a millisecond each, most
 * of the time would go into handing it over. So a process may keep a key for a row of its own callers, for 40 ms. Then it leaves
 * the line at all nodes: one that did not vote for it would name its old place, ahead of others that have waited for longer.
 */
export class KeyTurn {
  /** Its place in the line of the nodes; undefined where no caller here has to wait for another process. */
  place: QueuePlace | undefined = undefined;
  readonly #nodes: NodeSet;
  readonly #key: QueuedKey;
  /** Nodes may have a place of this process, also after its turn has come. */
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
    // A caller here lost its vote, so the row is over.
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

  /** Gives its place up, with what nodes keep for it: callers here that go on waiting stand behind the others. */
  giveUp(): void {
    if (this.place === undefined) return;
    this.end();
    this.passOn();
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

  passOn(): void {
    const wasInRow = this.isInRow;
    if (this.pass() || wasInRow) leaveLine(this.#nodes, this.#key.key, this.#nodes.allBits);
  }
}

/** Gives back what these nodes, as bits, keep for callers here, and the place of this process. */
export function leaveLine(nodes: NodeSet, key: string, at: number): void {
  const { options, mark, clock } = nodes;
  const names = new NodeNames(options.keyPrefix, [key]);
  const request = { names, holder: `#${mark}`, granted: true, pass: true };
  // It is not repeated, or it would take away a place of later. A node that it did not reach names this process, which leaves then.
  nodes.release(at, request, clock.nowMs);
}
