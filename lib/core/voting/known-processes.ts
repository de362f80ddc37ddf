import type { VoteReply } from '../nodes/lock-node.ts';
import { markOf, NodeNames } from '../nodes/node-names.ts';
import type { NodeSet } from '../nodes/node-set.ts';
import { parseIdentity, processText, revokedText } from '../process-identity.ts';
import { pastMoment } from '../system-environment.ts';
import type { NamedHolder } from './vote-count.ts';

const ASK_AGAIN_MS = 60_000;
const MOST_PROCESSES = 256;

interface Asked {
  readonly askedAtMs: number;
  text?: string;
}

/** The processes of the holders that stood in the way of callers here. One node is asked about each, once a minute. */
export class KnownProcesses {
  readonly #nodes: NodeSet;
  readonly #known = new Map<string, Asked>();

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  /**
   * Asks a node that named the holder of one of `keys` whose process that is, unless it is known. Returns a function that says what is
   * known by then.
   */
  meet(
    { holder }: NamedHolder,
    replies: readonly (VoteReply | undefined)[],
    keys: readonly string[],
  ): () => string | undefined {
    const nodeIndex = replies.findIndex(
      (reply) => reply?.kind === 'held' && reply.holder === holder,
    );
    const { index, floor } = replies[nodeIndex] as Extract<VoteReply, { kind: 'held' }>;
    // Where one key was asked for, the floor of the node is the token of the holder.
    const token = keys.length === 1 ? floor : 0;
    const revoked = revokedText(holder);
    if (revoked !== undefined) return () => `nobody (it was revoked ${revoked})`;
    const { options, clock, sessions, environment } = this.#nodes;
    if (options.identity === undefined) return () => undefined;
    const mark = markOf(holder);
    const { nowMs } = clock;
    const known = this.#known.get(mark);
    const isNew = known === undefined || nowMs - known.askedAtMs >= ASK_AGAIN_MS;
    const asked: Asked = isNew ? { askedAtMs: nowMs } : known;
    if (isNew) {
      if (this.#known.size >= MOST_PROCESSES) this.#known.clear();
      this.#known.set(mark, asked);
      const names = new NodeNames(options.keyPrefix, [keys[index]!]);
      sessions[nodeIndex]!.node.inspect({ names }, (reply) => {
        if (reply.kind === 'failed' || markOf(reply.holder ?? '') !== mark) return;
        const process = parseIdentity(reply.process);
        if (process) asked.text = processText(process);
      });
    }
    return () => {
      const since = asked.text && pastMoment(token, environment)?.toISOString();
      return since ? `${asked.text} since ${since}` : asked.text;
    };
  }
}
