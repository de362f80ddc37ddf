import type { Configuration } from '../events.ts';

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
 *
 * @param inCommon at least so many nodes are known to be in both, under whichever names
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
 * was left behind by a change of the nodes, step by step: it is none of them.
 *
 * @param others in the order of their latest joins
 * @param inCommon how many nodes one of them shares with `own` at least
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
