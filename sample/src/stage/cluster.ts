import {
  findRedis,
  type RedisProvider,
  type RedisServer,
} from '../../../test/support/redis-servers/index.ts';
import type { NodeState } from './stage-event.ts';

/** Number of servers that the sample starts. */
const OWN_NODES = 5;

/** Redis server of the cluster, and what the story did to it. */
export class ClusterNode {
  #state: NodeState = 'up';

  constructor(
    /** Number from 1. */
    readonly number: number,
    private readonly server: RedisServer,
    private readonly onChange: (node: ClusterNode) => void,
  ) {}

  get state(): NodeState {
    return this.#state;
  }

  get url(): string {
    return this.server.url;
  }

  /** Address as errors and events name it. */
  get address(): string {
    return `${this.server.host}:${this.server.port}`;
  }

  /** SIGKILL: connections break. */
  async kill(): Promise<void> {
    await this.server.kill();
    this.#became('killed');
  }

  /** SIGSTOP: connections stay open, and nothing is answered. */
  async freeze(): Promise<void> {
    await this.server.freeze();
    this.#became('frozen');
  }

  /** A frozen server goes on; a killed one comes back, empty. */
  async heal(): Promise<void> {
    if (this.#state === 'frozen') await this.server.resume();
    if (this.#state === 'killed') await this.server.restart();
    if (this.#state !== 'up') this.#became('up');
  }

  #became(state: NodeState): void {
    this.#state = state;
    this.onChange(this);
  }
}

/** The Redis servers: five that the sample started, or those of `REDIS_NODES`, which it can't harm. */
export class Cluster {
  private constructor(
    readonly nodes: readonly ClusterNode[],
    private readonly servers: readonly RedisServer[],
    /** Whether nodes can be killed and frozen. */
    readonly canFault: boolean,
    /** Line for people. */
    readonly description: string,
  ) {}

  /** @throws Error that lists the ways to get Redis when there is none here. */
  static async start(onChange: (node: ClusterNode) => void): Promise<Cluster> {
    const provider = await findRedis();
    const servers = await provider.start(countFor(provider));
    return new Cluster(
      servers.map((server, index) => new ClusterNode(index + 1, server, onChange)),
      servers,
      provider.canFault,
      provider.description,
    );
  }

  get urls(): string[] {
    return this.nodes.map(({ url }) => url);
  }

  /** Nodes from 1. */
  node(number: number): ClusterNode {
    const node = this.nodes[number - 1];
    if (!node) throw new Error(`There is no server ${number}.`);
    return node;
  }

  async healAll(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.heal()));
  }

  async stop(): Promise<void> {
    await Promise.all(this.servers.map((server) => server.stop()));
  }
}

function countFor(provider: RedisProvider): number {
  if (provider.way !== 'urls') return OWN_NODES;
  return (process.env['REDIS_NODES'] ?? '').split(',').filter((url) => url.trim() !== '').length;
}
