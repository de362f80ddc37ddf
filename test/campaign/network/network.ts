import { Program, type Edit } from '../../support/program.ts';
import type { LinkCounts } from './link-counts.ts';
import type { LinkMode } from './link-mode.ts';
import type {
  CarriedConnection,
  ConnectionKind,
  LinkSelection,
  NetworkCommand,
  NetworkSettings,
} from './network-command.ts';

/**
 * The network between some clients and some servers: a link of its own for each pair, so that it can fail for a client,
 * for a server, or between two of them. The links live in a process of their own: when this one stalls, the network
 * doesn't.
 *
 * Every method rejects when that process has ended, with what it said last.
 */
export class Network {
  private constructor(
    private readonly program: Program<NetworkCommand>,
    private readonly ports: readonly (readonly number[])[],
  ) {}

  /**
   * Starts a network in which everything passes.
   * @param settings `targets`: the servers; they may be down, and come back on the same port. `seed`: decides where a
   * mode leaves something to chance
   * @param edits changes to its code
   */
  static async start(
    { targets, ...settings }: NetworkSettings,
    edits: readonly Edit[] = [],
  ): Promise<Network> {
    // Targets may be servers, with more to them.
    const addresses = targets.map(({ host, port }) => ({ host, port }));
    const script = 'test/campaign/network/network-process.ts';
    const program = new Program<NetworkCommand>(script, { ...settings, targets: addresses }, edits);
    return new Network(program, await program.first());
  }

  /** Process id of the network. */
  get pid(): number | undefined {
    return this.program.child.pid;
  }

  /** Address at which `client` reaches `node`; stays the same. */
  url(client: number, node: number): string {
    const port = this.ports[client]?.[node];
    if (port === undefined) throw new RangeError(`no link of client ${client} to node ${node}`);
    return `redis://127.0.0.1:${port}`;
  }

  /**
   * Changes the mode of the links, and calls off what `resetAfterRequest` has not met yet. Resolves when all of them have
   * it.
   */
  async set(mode: LinkMode, selection: LinkSelection = {}): Promise<void> {
    await this.program.ask({ type: 'set', mode, selection });
  }

  /** Forgets the connections that are open now, as a NAT does: nothing gets through any more, and neither end is notified. */
  async forgetConnections(kinds: readonly ConnectionKind[], selection: LinkSelection = {}) {
    await this.program.ask({ type: 'forget', kinds, selection });
  }

  /** Resets the connections that are open now. */
  async resetConnections(selection: LinkSelection = {}): Promise<void> {
    await this.program.ask({ type: 'reset-connections', selection });
  }

  /** Executes the next request on each of the links, loses its reply, and resets its connection. */
  async resetAfterRequest(selection: LinkSelection = {}): Promise<void> {
    await this.program.ask({ type: 'reset-after-request', selection });
  }

  /** Counts so far, summed over the links. */
  counts(selection: LinkSelection = {}): Promise<LinkCounts> {
    return this.program.ask({ type: 'count', selection });
  }

  /** The connections that clients have open now. */
  connections(selection: LinkSelection = {}): Promise<CarriedConnection[]> {
    return this.program.ask({ type: 'list', selection });
  }

  /** Ends the process and with it all connections. May be called twice. */
  async close(): Promise<void> {
    await this.program.kill();
  }
}
