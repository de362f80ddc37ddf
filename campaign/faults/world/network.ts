import { Program, type Edit } from '../../../test/support/program.ts';
import type { ConnectionKind, LinkMode, LinkTarget } from '../../../test/support/link.ts';

/** The links by the numbers of their clients and of their nodes, from 0; all when left out. */
export interface LinkSelection {
  readonly clients?: readonly number[];
  readonly nodes?: readonly number[];
}

/** The settings that the process of network and resource is given at its start. */
export interface WorldSettings {
  readonly targets: readonly LinkTarget[];
  readonly clients: number;
  /** Decides where a mode leaves something to chance. */
  readonly seed: number;
  readonly historyPath: string;
  /** The targets may be no Redis servers, which would not understand who watches them. */
  readonly isUnwatched?: true;
}

/** Ports, which it says first. */
export interface WorldPorts {
  /** The ports of each client to each node. */
  readonly links: readonly (readonly number[])[];
  readonly resource: number;
}

export type NetworkCommand = { readonly selection?: LinkSelection } & (
  | { readonly type: 'set'; readonly mode: LinkMode }
  /** The connections that are open now: nothing gets through any more, and neither end is notified. */
  | { readonly type: 'forget'; readonly kinds: readonly ConnectionKind[] }
  /** The next request of each link is executed, its reply lost, its connection reset. */
  | { readonly type: 'reset' | 'reset-after-request' | 'list' }
);

/** An open connection of a client. */
export interface CarriedConnection {
  readonly id: string;
  readonly kind: ConnectionKind;
  readonly isForgotten: boolean;
}

/**
 * The network between workers and servers, a link of its own for each pair, and the resource behind it. Both live in a process
 * of their own: when this one stalls, they don't.
 */
export class Network {
  private constructor(
    readonly program: Program<NetworkCommand>,
    private readonly ports: WorldPorts,
  ) {}

  /** `edits`: changes to the code of the fence, which controls break on purpose. */
  static async start(settings: WorldSettings, edits: readonly Edit[]): Promise<Network> {
    const script = 'campaign/faults/world/world-process.ts';
    const program = new Program<NetworkCommand>(script, settings, edits);
    return new Network(program, await program.first());
  }

  get resourcePort(): number {
    return this.ports.resource;
  }

  /** The address at which `client` reaches `node`. */
  url(client: number, node: number): string {
    return `redis://127.0.0.1:${this.ports.links[client]![node]!}`;
  }

  async do(command: Exclude<NetworkCommand, { type: 'list' }>): Promise<void> {
    await this.program.ask(command);
  }

  connections(): Promise<CarriedConnection[]> {
    return this.program.ask({ type: 'list' });
  }
}
