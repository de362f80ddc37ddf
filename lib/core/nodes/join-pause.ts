import { Alarm } from './deadlines.ts';
import type { JoinReply, JoinRequest } from './lock-node.ts';
import type { NodeSet } from './node-set.ts';

const FIRST_MS = 50;
const LONGEST_MS = 1_000;
/** Of a node that forgets again that it was joined. */
const LONGEST_OF_FORGETFUL_MS = 5_000;
/** What happens to a node that was joined for so long is no repetition. */
const STAYED_JOINED_MS = 10_000;

const MUST_JOIN = 'has to be joined again';
const FORGETS = `${MUST_JOIN}, because it forgets that soon: its maxmemory-policy evicts keys (set noeviction), or something deletes them`;

/** Says, for messages, why a node did not join. */
export function whyNotJoined(reply: Exclude<JoinReply, { kind: 'joined' }>, asked: JoinRequest) {
  if (reply.kind === 'failed') return `join failed: ${reply.message}`;
  const [theirs, ours] = [reply, asked].map(
    ({ versions: [lowest, highest], floorRetentionMs }) =>
      `versions ${lowest} to ${highest} of the protocol (floors kept for ${floorRetentionMs / 1000} s)`,
  );
  return `it is used by processes that speak ${theirs}, and this one speaks ${ours}: give all of them releases of this package that may run side by side`;
}

/** The pause before a node is joined again: it grows, by chance, while joins fail or no vote follows them. */
export class JoinPause {
  /** Joins that failed, in a row. */
  failures = 0;
  /** How often the node forgot in a row that it was joined, before it voted. */
  forgotten = 0;
  readonly #set: NodeSet;
  readonly #alarm: Alarm;
  #joinedAtMs = 0;

  constructor(set: NodeSet, join: () => void) {
    this.#set = set;
    this.#alarm = new Alarm(join);
  }

  get isRunning(): boolean {
    return this.#alarm.line !== undefined;
  }

  /** It forgot more than once, so that a join alone proves nothing. */
  get isForgetful(): boolean {
    return this.forgotten > 1;
  }

  joined(): void {
    this.#joinedAtMs = this.#set.nowMs;
  }

  failed(): void {
    this.#begin(LONGEST_MS, this.failures);
    this.failures += 1;
  }

  /** The node says that it is not joined. No pause the first time: it was flushed. Returns what is wrong, for messages. */
  forgot(): string {
    if (this.#set.nowMs - this.#joinedAtMs >= STAYED_JOINED_MS) this.forgotten = 0;
    this.forgotten += 1;
    if (!this.isForgetful) return MUST_JOIN;
    this.#begin(LONGEST_OF_FORGETFUL_MS, this.forgotten - 2);
    return FORGETS;
  }

  cancel(): void {
    this.#set.alarms.cancel(this.#alarm);
  }

  #begin(longestMs: number, earlier: number): void {
    const pauseMs = Math.min(longestMs, FIRST_MS * 2 ** earlier);
    const delayMs = Math.ceil(pauseMs * this.#set.environment.random.fraction());
    this.#set.alarms.set(this.#alarm, delayMs, this.#set.nowMs);
  }
}
