import type { LinkTarget } from './link-connection.ts';
import type { LinkMode } from './link-mode.ts';

/** Links by the numbers of their clients and of their nodes (targets), from 0; all when left out. */
export interface LinkSelection {
  readonly clients?: readonly number[];
  readonly nodes?: readonly number[];
}

/** Settings that the process of the network is given at its start. */
export interface NetworkSettings {
  readonly targets: readonly LinkTarget[];
  readonly clients: number;
  readonly seed: number;
  /** File where it writes down what it did to connections, and when servers or itself did not run; none when left out. */
  readonly historyPath?: string;
}

/** Purpose of a connection: votes, or hints of releases. */
export type ConnectionKind = 'commands' | 'hints';

/** Request of the parent to the process of the network. */
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
