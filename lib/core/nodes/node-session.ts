import { brokenInvariant, isThorough } from '../invariant.ts';
import { Alarm, Deadline } from './deadlines.ts';
import { JoinPause, whyNotJoined } from './join-pause.ts';
import type {
  JoinReply,
  LinkSettings,
  LockNode,
  LockNodeListener,
  NodeFailure,
  ReleaseReply,
  ReleaseRequest,
  VoteReply,
  VoteRequest,
  WaitReply,
  WaitRequest,
} from './lock-node.ts';
import type { NodeSet, NodeSetListener } from './node-set.ts';
import { ReleaseOutbox } from './release-outbox.ts';

/** With this many unanswered votes a silent node is only sent releases. */
const MAX_OPEN_VOTES = 64;
/** This many refusals or whole timeouts in a row make a node failing. */
const FAILING_AFTER = 3;
/** So long a node may be away before the reason is reported, in beats: a blocked event loop delays them. */
const ABSENCE_BEAT_MS = 500;
const ABSENCE_BEATS = 4;

/** The party that asked for votes: receives each node's answer once, by its index. */
export interface VoteCollector {
  readonly vote: VoteRequest;
  /** It no longer listens. */
  readonly ended: boolean;
  collect(index: number, reply: VoteReply): void;
}

/** The party that released a lock: receives what became of it at each node once. */
export interface ReleaseCollector {
  released(session: NodeSession, reply: ReleaseReply): void;
}

/**
 * - `down`: no connection.
 * - `joining`: connected, and asked or about to be asked again when it may vote.
 * - `voting`: joined on this very connection.
 */
export type NodeSessionState = 'down' | 'joining' | 'voting' | 'closed';

/** One node over all its connections: joins first on each, votes only after that, and sees to it that releases arrive. */
export class NodeSession extends Deadline implements LockNodeListener {
  readonly index: number;
  readonly node: LockNode;
  readonly address: string;
  state: NodeSessionState = 'down';
  /** A whole node timeout passed without an answer that was due: it is still asked, but no decision waits for it. */
  isSilent = false;
  /** Why it can't be asked, or does not vote, at the moment. */
  problem = 'not connected yet';
  /** When its quarantine ends, as far as known. */
  votesAtMs = 0;
  /** Configurations of other processes that it knows; undefined before the first join. */
  others: readonly string[] | undefined = undefined;
  /** What its listeners know of it: the last event. */
  reported: 'nothing' | 'joined' | 'left' | 'failing' = 'nothing';
  readonly #set: NodeSet;
  readonly #listener: NodeSetListener;
  readonly #timeoutMs: number;
  readonly #outbox: ReleaseOutbox;
  #settings: LinkSettings | undefined;
  /** Votes that are asked again once the node has been joined. */
  readonly #afterJoin: VoteCollector[] = [];
  /** Which connection this is: late answers of earlier ones change nothing here. */
  #connection = 0;
  #isJoinAsked = false;
  readonly #joinPause: JoinPause;
  /** A vote on this connection failed in such a way that the node may have it all the same. */
  #hasUnknownOutcome = false;
  /** When the votes were sent that have not been answered; answers come in order. */
  readonly #sentAtMs: number[] = [];
  readonly #absence = new Alarm(() => this.#awayFor(this.#absenceBeats + 1));
  #absenceBeats = 0;
  /** In a row. A server without memory extends, and names holders: only an accepted lock ends the refusals of locks. */
  #refusedLocks = 0;
  #refusedExtensions = 0;
  #slowTimeouts = 0;

  constructor(index: number, node: LockNode, set: NodeSet, listener: NodeSetListener) {
    super();
    this.index = index;
    this.node = node;
    this.address = node.address;
    this.#set = set;
    this.#listener = listener;
    this.#timeoutMs = set.options.acquire.nodeTimeoutMs;
    this.#outbox = new ReleaseOutbox(node, set);
    this.#joinPause = new JoinPause(set, () => this.#join());
  }

  open(settings: LinkSettings): void {
    this.#settings = settings;
    this.#awayFor(0);
    this.node.open(this, settings);
  }

  /** Asks for a vote, and returns whether that leaves with the next flush. The answer comes at once when it can't be asked. */
  ask(collector: VoteCollector, nowMs: number): boolean {
    if (this.state === 'voting') {
      if (this.#sentAtMs.length < MAX_OPEN_VOTES || !this.isSilent)
        return this.#send(collector, nowMs, false);
      const message = `${MAX_OPEN_VOTES} earlier requests are unanswered`;
      collector.collect(this.index, failure('overloaded', message));
    } else collector.collect(this.index, failure('unreachable', this.problem));
    return false;
  }

  /**
   * Notifies the node that the lock is over, and returns whether that leaves with the next flush. What can't be delivered is
   * repeated until `lifeMs` has passed.
   */
  release(
    request: ReleaseRequest,
    lifeMs: number,
    nowMs: number,
    collector?: ReleaseCollector,
  ): boolean {
    const expiresAtMs = nowMs + lifeMs;
    if (this.state === 'closed' || this.state === 'down') {
      this.#outbox.keep(request, expiresAtMs);
      collector?.released(this, failure('unreachable', this.problem));
      return false;
    }
    return this.node.release(request, (reply) => {
      if (reply.kind === 'failed' || this.#outbox.repeatUntilMs !== 0)
        this.#outbox.answered(request, expiresAtMs, reply);
      collector?.released(this, reply);
    });
  }

  /** Answers have been due for a node timeout in which this process read its sockets. */
  onDeadline(): void {
    const [waitingSinceMs] = this.#sentAtMs;
    if (waitingSinceMs === undefined) return;
    const { nowMs } = this.#set;
    const dueInMs = waitingSinceMs + this.#timeoutMs - nowMs;
    if (dueInMs > 0) return this.#set.silences.set(this, Math.ceil(dueInMs), nowMs);
    this.isSilent = true;
    this.#slowTimeouts += 1;
    if (this.#slowTimeouts >= FAILING_AFTER) {
      const alone = this.#set.lastQuorumAtMs > waitingSinceMs ? ' while others answered' : '';
      this.#isFailing(`no answer within the node timeout (${this.#timeoutMs} ms)${alone}`);
    }
    this.#set.silences.set(this, this.#timeoutMs, nowMs);
  }

  opened(): void {
    this.#connection += 1;
    this.state = 'joining';
    this.problem = 'connected, but it has not answered yet whether it may vote';
    this.#sentAtMs.length = 0;
    this.isSilent = this.#hasUnknownOutcome = false;
    this.#join();
  }

  closed(message: string): void {
    if (this.state === 'closed') return;
    // Answers that are still open will never come; what they did is unknown. A node may have settled them already.
    const unanswered = this.#sentAtMs.length > 0 || this.#hasUnknownOutcome;
    this.#connection += 1;
    this.state = 'down';
    this.#isJoinAsked = false;
    this.#sentAtMs.length = 0;
    this.isSilent = false;
    this.problem = message;
    this.#joinPause.cancel();
    this.#outbox.connectionClosed(unanswered ? this.#set.options.maxTtlMs : 0);
    this.#failWaiting(message);
    this.#left(message);
  }

  unreachable(message: string): void {
    if (this.state === 'down') this.problem = message;
  }

  stalled(): void {
    if (this.state !== 'voting') return;
    this.isSilent = true;
    this.#isFailing('no answer on its connection, nor on a second one');
    if (!this.#set.isAnswering) this.#set.outageAtMs = this.#set.nowMs;
  }

  spoke(): void {
    // What comes may be a vote, which says more.
    if (this.state !== 'voting' || !this.isSilent || this.#sentAtMs.length > 0) return;
    this.#slowTimeouts = 0;
    this.isSilent = false;
    if (this.#set.isAnswering) this.#set.outageAtMs = Number.NEGATIVE_INFINITY;
    this.#speaks();
    if (this.#refusals < FAILING_AFTER) this.#announce(0);
  }

  /** Stands in line there, once it has joined. */
  wait(request: WaitRequest, settle: (reply: WaitReply) => void): void {
    if (this.state !== 'voting' || this.votesAtMs > this.#set.nowMs) return;
    this.node.listen(this.#set.channel);
    this.node.wait(request, settle);
  }

  turn(lockName: string, keptMs: number): void {
    if (this.votesAtMs > this.#set.nowMs) return;
    this.#listener.turn(this, lockName, keptMs);
  }

  listening(): void {
    this.#listener.listening(this);
  }

  async close(): Promise<void> {
    this.state = 'closed';
    this.#joinPause.cancel();
    this.#set.alarms.cancel(this.#absence);
    this.#set.silences.cancel(this);
    this.#outbox.close();
    this.#failWaiting('closed');
    await this.node.close();
  }

  #send(collector: VoteCollector, nowMs: number, isRepeat: boolean): boolean {
    if (isThorough && this.state !== 'voting')
      throw brokenInvariant('a node votes only after it was joined');
    const connection = this.#connection;
    const { vote } = collector;
    if (this.#sentAtMs.push(nowMs) === 1 && this.line === undefined)
      this.#set.silences.set(this, this.#timeoutMs, nowMs);
    const settle = (reply: VoteReply) => this.#settled(collector, connection, isRepeat, reply);
    return vote.kind === 'acquire'
      ? this.node.acquire(vote, settle)
      : this.node.extend(vote, settle);
  }

  #settled(
    collector: VoteCollector,
    connection: number,
    isRepeat: boolean,
    reply: VoteReply,
  ): void {
    if (connection === this.#connection) {
      const { nowMs } = this.#set;
      const sentAtMs = this.#sentAtMs.shift() ?? nowMs;
      // Found silent while this answer was due: it came too late to count in its vote.
      const isLate = this.isSilent && nowMs - sentAtMs > this.#timeoutMs;
      if (this.isSilent && !(nowMs - (this.#sentAtMs[0] ?? nowMs) > this.#timeoutMs))
        this.#speaks();
      const { kind } = reply;
      if (kind === 'failed' || kind === 'unjoined') {
        const mustJoin = kind === 'unjoined' || reply.mustJoin === true;
        if (kind === 'failed' && !mustJoin) this.#judge(collector.vote.kind, reply);
        // Nothing was written, so it can be sent once more after the join, unless it has been released meanwhile.
        const again = mustJoin && !isRepeat && !collector.ended;
        if (again) this.#afterJoin.push(collector);
        if (mustJoin) this.#mustJoin();
        if (again) return;
      } else if (!isLate) {
        if (kind === 'quarantined') this.votesAtMs = nowMs + reply.remainingMs;
        this.#slowTimeouts = this.#joinPause.failures = 0;
        // An extension need not look at what says that it was joined.
        if (kind !== 'extended' && kind !== 'lost') this.#joinPause.forgotten = 0;
        if (kind === 'accepted') this.#refusedLocks = this.#refusedExtensions = 0;
        else if (kind === 'extended') this.#refusedExtensions = 0;
        const isNews = this.reported !== 'joined' && this.state === 'voting';
        if (isNews && this.#refusals < FAILING_AFTER) this.#announce(0);
      }
    }
    collector.collect(this.index, reply);
  }

  /** Counts refusals by the node itself, and remembers unknown outcomes. */
  #judge(vote: VoteRequest['kind'], { reason, nothingWritten, message }: NodeFailure): void {
    if (!nothingWritten) this.#hasUnknownOutcome = true;
    if (reason !== 'error') return;
    if (vote === 'acquire') this.#refusedLocks += 1;
    else this.#refusedExtensions += 1;
    if (this.#refusals >= FAILING_AFTER) this.#isFailing(message);
  }

  get #refusals(): number {
    return Math.max(this.#refusedLocks, this.#refusedExtensions);
  }

  #mustJoin(): void {
    if (this.state === 'voting') {
      this.state = 'joining';
      this.problem = this.#joinPause.forgot();
      this.#left(this.problem);
    }
    if (!this.#joinPause.isRunning) this.#join();
    else this.#failWaiting(this.problem);
  }

  #join(): void {
    if (this.state !== 'joining' || this.#isJoinAsked || this.#settings === undefined) return;
    this.#isJoinAsked = true;
    const connection = this.#connection;
    this.node.join(this.#settings.join, (reply) => {
      if (connection !== this.#connection || this.state !== 'joining') return;
      this.#isJoinAsked = false;
      if (this.isSilent) this.#speaks();
      this.#joinAnswered(reply);
    });
  }

  #joinAnswered(reply: JoinReply): void {
    if (reply.kind === 'joined') {
      const { quarantineMs, isMoved = false } = reply;
      // Server that answered is another one: the one before forgot nothing.
      if (isMoved) this.#joinPause.forgotten = 0;
      this.state = 'voting';
      this.votesAtMs = this.#set.nowMs + quarantineMs;
      this.#joinPause.joined();
      const { isForgetful } = this.#joinPause;
      if (!isForgetful) {
        this.problem = 'connection lost';
        // What was found before is outdated.
        this.#set.outageAtMs = Number.NEGATIVE_INFINITY;
      }
      this.#refusedLocks = this.#refusedExtensions = 0;
      this.#outbox.flush();
      // One that ended meanwhile has been released, and must not arrive after its release.
      for (const collector of this.#afterJoin.splice(0))
        if (!collector.ended) this.#send(collector, this.#set.nowMs, true);
      this.#set.flushLater();
      // Another one votes first.
      if (!isForgetful) this.#announce(quarantineMs, isMoved);
      this.#listener.joined();
      this.others = reply.others ?? [];
      this.#set.compareConfigurations();
      return;
    }
    this.problem = whyNotJoined(reply, this.#settings!.join);
    this.#failWaiting(this.problem);
    this.#joinPause.failed();
  }

  #failWaiting(message: string): void {
    for (const collector of this.#afterJoin.splice(0))
      collector.collect(this.index, failure('unreachable', message));
  }

  /** It answers in time again: callers that wait for votes may try. */
  #speaks(): void {
    this.isSilent = false;
    if (this.state === 'voting') this.#listener.joined();
  }

  /** It has not voted for so many beats. */
  #awayFor(beats: number): void {
    this.#absenceBeats = beats;
    if (beats === ABSENCE_BEATS) this.#isFailing(this.problem);
    else this.#set.alarms.set(this.#absence, ABSENCE_BEAT_MS, this.#set.nowMs);
  }

  #announce(quarantineMs: number, isMoved = false): void {
    if (this.reported === 'joined') return;
    this.reported = 'joined';
    this.#set.alarms.cancel(this.#absence);
    const joined = { type: 'node-joined', address: this.address, quarantineMs } as const;
    this.#set.emit(isMoved ? { ...joined, isMoved } : joined);
  }

  #left(message: string): void {
    if (this.reported !== 'joined') return;
    this.reported = 'left';
    this.#awayFor(0);
    const hasQuorum = !this.#set.isQuorumMissing;
    this.#set.emit({ type: 'node-left', address: this.address, message, hasQuorum });
  }

  #isFailing(reason: string): void {
    if (this.reported === 'failing') return;
    this.reported = 'failing';
    this.problem = reason;
    this.#set.emit({ type: 'node-failing', address: this.address, reason });
  }
}

function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason, message };
}
