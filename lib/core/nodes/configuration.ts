import type { Configuration, EventSink } from '../events.ts';
import type { JoinReply, JoinRequest } from './lock-node.ts';

/** Writes a configuration as servers keep it: `quorum node1 node2 …`. */
export function configurationText(addresses: readonly string[], quorum: number): string {
  const names = addresses.map((address) => address.toLowerCase().replaceAll(/\s/g, '%20'));
  return [quorum, ...names.sort()].join(' ');
}

export function parseConfiguration(text: string): Configuration {
  const [quorum, ...nodes] = text.split(' ');
  return { nodes, quorum: Number(quorum) };
}

/**
 * Says whether a quorum of the one and a quorum of the other need have no node in common: then both could hold a lock at once.
 * At least `inCommon` nodes are known to be in both, under whichever names.
 */
export function mayMiss(one: Configuration, other: Configuration, inCommon = 0): boolean {
  const named = one.nodes.filter((name) => other.nodes.includes(name)).length;
  const shared = Math.min(Math.max(named, inCommon), one.nodes.length, other.nodes.length);
  const needed = ({ nodes, quorum }: Configuration) =>
    Math.max(0, quorum - (nodes.length - shared));
  return needed(one) + needed(other) <= shared;
}

/**
 * Finds the configurations whose quorums may miss those of `own`. A configuration that came before another one that meets both
 * was left behind by a change of the nodes, step by step: it is none of them. The others are in the order of their latest joins.
 */
export function conflicting(
  own: Configuration,
  others: readonly string[],
  inCommon: (text: string) => number,
): string[] {
  const parsed = others.map(parseConfiguration);
  return others.filter((text, at) => {
    const other = parsed[at]!;
    const isStep = (step: Configuration) => !mayMiss(own, step) && !mayMiss(step, other);
    return mayMiss(own, other, inCommon(text)) && !parsed.slice(at + 1).some(isStep);
  });
}

/** The configurations of the processes that joined the same nodes, this one and others. */
export class Configurations {
  readonly text: string;
  readonly #addresses: readonly string[];
  readonly #events: EventSink;
  /** The configurations of others, node by node, as far as it has joined. */
  readonly #others: (readonly string[] | undefined)[];
  readonly #reported = new Set<string>();

  constructor(addresses: readonly string[], quorum: number, events: EventSink) {
    this.text = configurationText(addresses, quorum);
    this.#addresses = addresses;
    this.#events = events;
    this.#others = addresses.map(() => undefined);
  }

  /** Reports, once each, configurations with which two processes could hold one lock. */
  joined(index: number, others: readonly string[]): void {
    this.#others[index] = others;
    const own = parseConfiguration(this.text);
    // The nodes that have not joined yet may turn out to be among theirs, under another name.
    const inCommon = (text: string) =>
      this.#others.filter((each) => each?.includes(text) !== false).length;
    for (const [at, each = []] of this.#others.entries()) {
      for (const text of conflicting(own, each, inCommon)) {
        if (this.#reported.has(text)) continue;
        this.#reported.add(text);
        const [address, other] = [this.#addresses[at]!, parseConfiguration(text)];
        this.#events.emit({ type: 'configurations-differ', address, own, other });
      }
    }
  }
}

/** The reason why a node did not join, for messages. */
export function whyNotJoined(
  reply: Exclude<JoinReply, { kind: 'joined' }>,
  asked: JoinRequest,
): string {
  if (reply.kind === 'failed') return `join failed: ${reply.message}`;
  const [theirs, ours] = [reply, asked].map(
    ({ versions: [lowest, highest], floorRetentionMs }) =>
      `versions ${lowest} to ${highest} of the protocol (floors kept for ${floorRetentionMs / 1000} s)`,
  );
  return `it is used by processes that speak ${theirs}, and this one speaks ${ours}: give all of them releases of this package that may run side by side`;
}
