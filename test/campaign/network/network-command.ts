import type { LinkTarget } from './link-connection.ts';
import type { LinkMode } from './link-mode.ts';

/** Links by the numbers of their clients and of their nodes (targets), from 0; all when left out. */
export interface LinkSelection {
  readonly clients?: readonly number[];
  readonly nodes?: readonly number[];
}

/** What the process of the network is given at its start. */
export interface NetworkSettings {
  readonly targets: readonly LinkTarget[];
  readonly clients: number;
  readonly seed: number;
  /** Where it writes down what it did to connections, and when servers or itself did not run; nowhere when left out. */
  readonly historyPath?: string;
}

/** What a connection is for: votes, or hints of releases. */
export type ConnectionKind = 'commands' | 'hints';

/** What the parent asks of the process of the network. */
export type NetworkCommand = { readonly selection: LinkSelection } & (
  | { readonly type: 'set'; readonly mode: LinkMode }
  | { readonly type: 'forget'; readonly kinds: readonly ConnectionKind[] }
  | { readonly type: 'reset-connections' | 'reset-after-request' | 'count' | 'list' }
);

/** An open connection of a client that the network carries. */
export interface CarriedConnection {
  /** Unique in the run. */
  readonly id: string;
  readonly kind: ConnectionKind;
  /** The network no longer knows it: nothing gets through. */
  readonly isForgotten: boolean;
}
