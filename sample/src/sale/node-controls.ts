import type { Cluster, ClusterNode } from '../stage/cluster.ts';
import type { NodeState } from '../stage/stage-event.ts';
import { SaleConflict } from './sale-conflict.ts';

export const NODE_ACTIONS = ['freeze', 'kill', 'heal'] as const;
export type NodeAction = (typeof NODE_ACTIONS)[number];

const POSSIBLE: Record<NodeState, readonly NodeAction[]> = {
  up: ['freeze', 'kill'],
  frozen: ['kill', 'heal'],
  killed: ['heal'],
};

/** Freezes, kills and heals nodes on request, one thing at a time for each node. */
export class NodeControls {
  readonly #changing = new Set<ClusterNode>();

  constructor(private readonly cluster: Cluster) {}

  /**
   * @param number of the node, from 1.
   * @throws SaleConflict when the node can't do that at the moment, or belongs to others.
   */
  async apply(number: number, action: NodeAction): Promise<void> {
    const node = this.cluster.nodes[number - 1];
    if (!node) throw new SaleConflict(`There is no server ${number}.`);
    if (!this.cluster.canFault)
      throw new SaleConflict('The servers of REDIS_NODES are left alone.');
    if (this.#changing.has(node)) throw new SaleConflict(`Server ${number} is being changed.`);
    if (!POSSIBLE[node.state].includes(action)) {
      throw new SaleConflict(`Server ${number} is ${node.state}: it can't ${action}.`);
    }
    this.#changing.add(node);
    try {
      await node[action]();
    } finally {
      this.#changing.delete(node);
    }
  }
}
