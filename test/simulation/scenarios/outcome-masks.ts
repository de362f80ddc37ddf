import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import type { LockNames } from '../../../lib/core/nodes/lock-node.ts';
import type { Stage } from '../world/stage.ts';

/** Outcomes of one node for one command. */
export const OUTCOMES = ['granted', 'held', 'stale', 'error', 'reply lost', 'late'] as const;
export type NodeOutcome = (typeof OUTCOMES)[number];
export type Mask = readonly NodeOutcome[];

/**
 * Combinations, all of them, of outcomes on so many nodes: of three nodes in every order, of more in one each, since nodes
 * are alike. Their order changes from one combination to the next.
 */
export function masksOf(nodes: number): Mask[] {
  let masks: Mask[] = [[]];
  for (let node = 0; node < nodes; node += 1)
    masks = masks.flatMap((mask) => OUTCOMES.map((outcome) => [...mask, outcome]));
  if (nodes === 3) return masks;
  const rankOf = (outcome: NodeOutcome) => OUTCOMES.indexOf(outcome);
  const isSorted = (mask: Mask) =>
    mask.every((outcome, index) => index === 0 || rankOf(mask[index - 1]!) <= rankOf(outcome));
  return masks.filter(isSorted).map((mask, number) => {
    const first = number % nodes;
    return [...mask.slice(first), ...mask.slice(0, first)];
  });
}

export function count(mask: Mask, ...outcomes: readonly NodeOutcome[]): number {
  return mask.filter((outcome) => outcomes.includes(outcome)).length;
}

const FOREIGN = 'foreign';
const FOREIGN_TTL_MS = 60_000;
/** Long enough to connect again, join, and repeat what was not delivered. */
const SETTLING_MS = 250;

/** Makes each node of one client answer by a mask, for one key at a time. */
export class MaskedNodes {
  readonly names: LockNames;
  readonly #stage: Stage;
  readonly #mask: Mask;

  constructor(stage: Stage, mask: Mask, key: string) {
    this.#stage = stage;
    this.#mask = mask;
    this.names = new NodeNames('lock:', [key]);
  }

  /** Applies it from now on. `fence`: fence of a node that has seen somebody newer. `refusal`: the error of a server. */
  apply(fence: number, refusal: 'OOM' | 'READONLY' | 'BUSY'): void {
    for (const [index, outcome] of this.#mask.entries()) {
      const server = this.#stage.servers[index]!;
      const { data } = server.redis;
      const [lock, fenceName] = this.names.pairs as [string, string];
      if (outcome === 'held') data.call('SET', lock, FOREIGN, 'PX', FOREIGN_TTL_MS);
      if (outcome === 'stale') data.call('DEL', lock);
      if (outcome === 'held' || outcome === 'stale')
        data.call('SET', fenceName, `${digits(fence)} ${digits(fence)}`, 'PX', FOREIGN_TTL_MS);
      if (outcome === 'error') server.error = refusal;
      if (outcome === 'reply lost' || outcome === 'late') this.#path(index).hold('replies');
    }
  }

  /** Late answers arrive, lost ones never do, errors end; and what has to be repeated is repeated. */
  async end(): Promise<void> {
    for (const [index, outcome] of this.#mask.entries()) {
      this.#stage.servers[index]!.error = undefined;
      if (outcome === 'reply lost') this.#stage.clients[0]!.nodes[index]!.breakOff('lost');
      if (outcome === 'reply lost' || outcome === 'late') this.#path(index).pass('replies');
    }
    await this.#stage.advance(SETTLING_MS);
  }

  /** Holder of the key on each node. */
  owners(): (string | null)[] {
    return this.#stage.servers.map((server) => server.holderOf(this.names.locks[0]!));
  }

  /** Position of the fence on each node; 0 = nowhere. */
  fences(): number[] {
    const fenceName = this.names.pairs[1]!;
    return this.#stage.servers.map(({ redis }) =>
      Number((redis.data.call('GET', fenceName) ?? '0').split(' ')[0]),
    );
  }

  /** Holders that must be left when every lock of the test has ended. */
  foreignOwners(): (string | null)[] {
    return this.#mask.map((outcome) => (outcome === 'held' ? FOREIGN : null));
  }

  #path(index: number) {
    return this.#stage.clients[0]!.nodes[index]!.ends.path;
  }
}

/** Floors are compared as texts of 16 digits. */
function digits(value: number): string {
  return String(value).padStart(16, '0');
}
