/** Where the resource checks tokens, and where it takes what comes. */
export type ResourceView = 'fenced' | 'unfenced';

/** One line from a holder to the resource, as JSON. */
export interface ResourceRequest {
  readonly id: number;
  readonly view: ResourceView;
  readonly operation: 'read' | 'write';
  readonly key: string;
  /** As it travels to other services: `1795228058941046;f3c9…`. */
  readonly fencingToken: string;
  /** Of a write: the number to be written. */
  readonly value: number;
}

/** The answer, one line too. */
export interface ResourceReply {
  readonly id: number;
  /** False when the token was refused as stale. */
  readonly accepted: boolean;
  /** Of a read: the number that stands there. */
  readonly value: number;
}
