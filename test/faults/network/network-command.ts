import type { LinkTarget } from './link-connection.ts';
import type { LinkMode } from './link-mode.ts';

/** Links by the numbers of their clients and of their nodes (targets), from 0; all when left out. */
export interface LinkSelection {
  readonly clients?: readonly number[];
  readonly nodes?: readonly number[];
}

/** What the process of the network is told at its start, as JSON in its first argument. */
export interface NetworkSettings {
  readonly targets: readonly LinkTarget[];
  readonly clients: number;
  readonly seed: number;
}

export type NetworkOrder = { readonly selection: LinkSelection } & (
  | { readonly type: 'set'; readonly mode: LinkMode }
  | { readonly type: 'reset-connections' | 'reset-after-request' | 'count' }
);

/** What the parent tells the process of the network; each command is answered. */
export type NetworkCommand = NetworkOrder & { readonly id: number };

/** What the process of the network tells its parent. */
export type NetworkMessage =
  /** The first one: port by client and node. */
  | { readonly type: 'listening'; readonly ports: readonly (readonly number[])[] }
  | { readonly type: 'done'; readonly id: number; readonly result?: unknown }
  | { readonly type: 'failed'; readonly id: number; readonly message: string };
