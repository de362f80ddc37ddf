import { NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { slotKey } from '../options/lock-keys.ts';
import type { Granted, LockCall } from './attempt.ts';

const LOOK_AGAIN_MS = 60_000;
const MOST_REMEMBERED = 256;

/**
 * Finds out whether others take a key with more permits than calls here, or as a plain lock: they all would have it at once, and no
 * error would say so. Nodes remember for ten minutes which keys were locked, so it is enough to ask now and then.
 */
export class PermitNumbers {
  readonly #nodes: NodeSet;
  readonly #differing = new Set<string>();
  #lookAgainMs = Number.NEGATIVE_INFINITY;

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  /** Asks the nodes that granted a slot about the key itself, and the first slot that none of the calls here takes. */
  look({ keys, settings, caller }: LockCall, { mayHold, startedAtMs }: Granted): void {
    const [key] = keys as [string];
    if (startedAtMs < this.#lookAgainMs || this.#differing.has(key)) return;
    this.#lookAgainMs = startedAtMs + LOOK_AGAIN_MS;
    const { sessions, options, events } = this.#nodes;
    const permits = settings.permits!;
    const names = new NodeNames(options.keyPrefix, [key, slotKey(key, permits)]);
    for (const { node, index } of sessions) {
      if ((mayHold & (1 << index)) === 0) continue;
      node.inspect({ names }, (reply) => {
        if (reply.kind === 'failed' || reply.floor === 0 || this.#differing.has(key)) return;
        if (this.#differing.size >= MOST_REMEMBERED) this.#differing.clear();
        this.#differing.add(key);
        events.emit({ type: 'permits-differ', keys, permits, ...caller });
      });
    }
  }
}
