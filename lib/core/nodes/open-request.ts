import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  LockNode,
  NodeFailure,
} from './lock-node.ts';

/** A vote that was asked of one node: for a new lock or for an extension. */
export type VoteRequest =
  | { readonly kind: 'acquire'; readonly request: AcquireRequest }
  | { readonly kind: 'extend'; readonly request: ExtendRequest };

export type VoteReply = AcquireReply | ExtendReply;

/** Who asked for votes: hears each node's answer once, by its index. */
export interface VoteCollector {
  readonly vote: VoteRequest;
  /** It no longer listens. */
  readonly ended: boolean;
  collect(index: number, reply: VoteReply): void;
}

/** What a request tells the session of its node. */
export interface OpenRequestOwner {
  readonly index: number;
  answered(request: OpenRequest, reply: VoteReply): void;
  /** The node must be joined again; true when `request` is then sent `again`, as nothing was written. */
  mustJoin(request: OpenRequest, again: boolean): boolean;
}

/** One vote on its way to one node and back, however late. */
export class OpenRequest {
  /** Connection on which it was sent. */
  connection = 0;
  #resent = false;
  readonly #owner: OpenRequestOwner;
  readonly #collector: VoteCollector;

  constructor(owner: OpenRequestOwner, collector: VoteCollector) {
    this.#owner = owner;
    this.#collector = collector;
  }

  /** Nobody waits for the answer any more. */
  get ended(): boolean {
    return this.#collector.ended;
  }

  send(node: LockNode): void {
    const { vote } = this.#collector;
    if (vote.kind === 'acquire') node.acquire(vote.request, (reply) => this.#settle(reply));
    else node.extend(vote.request, (reply) => this.#settle(reply));
  }

  fail(failure: NodeFailure): void {
    this.#collector.collect(this.#owner.index, failure);
  }

  #settle(reply: VoteReply): void {
    this.#owner.answered(this, reply);
    const mustJoin =
      reply.kind === 'unjoined' || (reply.kind === 'failed' && reply.mustJoin === true);
    if (mustJoin) {
      const again = !this.#resent && !this.#collector.ended;
      this.#resent = true;
      if (this.#owner.mustJoin(this, again)) return;
    }
    this.#collector.collect(this.#owner.index, reply);
  }
}
