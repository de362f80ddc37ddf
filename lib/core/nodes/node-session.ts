import { brokenInvariant } from '../errors.ts';
import { whyNotJoined } from './configuration.ts';
import { Alarm, Deadline } from './deadlines.ts';
import type {
  JoinReply,
  LockNode,
  LockNodeListener,
  NodeFailure,
  ReleaseRequest,
  VoteReply,
  VoteRequest,
  WaitReply,
  WaitRequest,
} from './lock-node.ts';
import { NodeHealth } from './node-health.ts';
import type { Collected, ReleaseCollector, Service, ServiceNode } from './service.ts';
import { ReleaseOutbox } from './release-outbox.ts';

/** The number of unanswered votes with which a silent node is only sent releases. */
const MAX_OPEN_VOTES = 64;
/** The pauses before a node is joined again double up to this. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

export const NOT_GRANTED_HERE =
  'another server answers at this address now, which did not grant it';
const MUST_JOIN = 'has to be joined again';
const FORGETS = `${MUST_JOIN}, and that repeats: its maxmemory-policy evicts keys (set noeviction), or something deletes them`;

/** The party that asked for votes: receives each node's answer once, by its index. */
export interface VoteCollector extends Collected {
  readonly vote: VoteRequest;
  /** Collector no longer listens. */
  readonly ended: boolean;
  collect(index: number, reply: VoteReply): void;
}

/** The actions of the layers above when something changes at the nodes. */
export interface NodeSetListener {
  /** A node has begun to vote, or answers again. */
  joined(): void;
  /** A lock is kept for this process at a node; with `keptMs` for another one, and this one is behind it. */
  turn(session: NodeSession, lockName: string, keptMs: number): void;
  /** A node reports turns from now on, and may have reported some before. */
  listening(session: NodeSession): void;
  /** The clocks moved, or another server answers for a node: what is held should be proven to be held. */
  doubted(): void;
}

/** The state of one connection, which ends with it. */
class Connection {
  /** When the votes were sent that have not been answered; answers come in order. */
  readonly sentAtMs: number[] = [];
  /** A vote failed in such a way that the node may have it all the same. */
  hasUnknownOutcome = false;
  /** Names the server that was joined. */
  server = '';
  isJoinAsked = false;
}

/** Joins a node again, after a pause. */
class Rejoin extends Alarm {
  /** The joins in a row that failed. */
  failures = 0;
  /** The times in a row that the node forgot that it was joined, before it voted. */
  forgotten = 0;
  /** Since when the server is the one of now, and since when that one has given locks. */
  #movedAtMs = Number.POSITIVE_INFINITY;
  #upSinceMs = Number.POSITIVE_INFINITY;

  /** Returns whether the server is another one than before, and was there when that one was joined. */
  joined(nowMs: number, upMs: number | undefined): boolean {
    const wasUp = upMs !== undefined && nowMs - upMs < this.#movedAtMs;
    if (upMs !== undefined) this.#upSinceMs = nowMs - upMs;
    if (upMs !== undefined || this.#movedAtMs > nowMs) this.#movedAtMs = nowMs;
    return wasUp;
  }

  wasGrantedElsewhere(grantedAtMs: number): boolean {
    return this.#upSinceMs < grantedAtMs && grantedAtMs < this.#movedAtMs;
  }
}

/** Node over all its connections: joins first on each, votes only after that, and sees to it that releases arrive. */
export class NodeSession extends Deadline implements LockNodeListener {
  readonly index: number;
  readonly node: LockNode;
  readonly health: NodeHealth;
  /** `joining`: connected, and asked or about to be asked again when it may vote; `voting`: joined on this very connection. */
  state: ServiceNode['state'] = 'down';
  /** When its quarantine ends, as far as known. */
  votesAtMs = 0;
  /** The time of its latest vote. A number before the first, too, or each would be an object of its own. */
  roundTripMs = Number.NaN;
  readonly #service: Service;
  readonly #listener: NodeSetListener;
  readonly #outbox: ReleaseOutbox;
  /** The votes that are asked again once the node has been joined. */
  readonly #afterJoin: VoteCollector[] = [];
  /** Late answers of earlier ones change nothing here. */
  #connection = new Connection();
  readonly #rejoin = new Rejoin(() => this.#join());

  constructor(index: number, node: LockNode, service: Service, listener: NodeSetListener) {
    super();
    this.index = index;
    this.node = node;
    this.#service = service;
    this.#listener = listener;
    this.health = new NodeHealth(this, service, () => listener.joined());
    this.#outbox = new ReleaseOutbox(node, service);
  }

  get address(): string {
    return this.node.address;
  }

  /** When the vote was sent that has been unanswered for longest. */
  get askedAtMs(): number | undefined {
    return this.#connection.sentAtMs[0];
  }

  /** The server that votes for it; undefined while none does. */
  get server(): string | undefined {
    return this.state === 'voting' ? this.#connection.server : undefined;
  }

  /** The server was there already when another one, at the same address, granted a lock: that one may still give it. */
  wasGrantedElsewhere(grantedAtMs: number): boolean {
    return this.#rejoin.wasGrantedElsewhere(grantedAtMs);
  }

  open(): void {
    this.health.away();
    this.node.open(this, this.#service.linkSettings);
  }

  /** Asks for a vote, and returns whether that leaves with the next flush. The answer comes at once when it can't be asked. */
  ask(collector: VoteCollector, nowMs: number): boolean {
    const { sentAtMs } = this.#connection;
    const isOverloaded = this.health.isSilent && sentAtMs.length >= MAX_OPEN_VOTES;
    if (this.state === 'voting' && !isOverloaded) return this.#send(collector, nowMs, false);
    const refusal = isOverloaded
      ? failure('overloaded', `${MAX_OPEN_VOTES} earlier requests are unanswered`)
      : failure('unreachable', this.health.problem);
    collector.collect(this.index, refusal);
    return false;
  }

  /** Votes that were asked since `sinceMs` left only now: the time of their answers runs from here. */
  left(sinceMs: number, nowMs: number): void {
    const { sentAtMs } = this.#connection;
    const first = sentAtMs.findIndex((atMs) => atMs >= sinceMs);
    if (first !== -1) sentAtMs.fill(nowMs, first);
  }

  release(request: ReleaseRequest, untilMs: number, by?: ReleaseCollector): boolean {
    if (this.state === 'closed' || this.state === 'down') {
      this.#outbox.keep(request, untilMs);
      by?.released(this, failure('unreachable', this.health.problem));
      return false;
    }
    return this.node.release(request, (reply) => {
      if (reply.kind === 'failed' || this.#outbox.repeatUntilMs !== 0)
        this.#outbox.answered(request, untilMs, reply);
      by?.released(this, reply);
    });
  }

  /** Answers have been due for a node timeout in which this process read its sockets. */
  onDeadline(): void {
    const [waitingSinceMs] = this.#connection.sentAtMs;
    if (waitingSinceMs === undefined) return;
    const { clock, answers, quorum, options } = this.#service;
    const { nowMs } = clock;
    const timeoutMs = options.acquire.nodeTimeoutMs;
    const dueInMs = Math.ceil(waitingSinceMs + timeoutMs - nowMs);
    answers.set(this, dueInMs > 0 ? dueInMs : timeoutMs, nowMs);
    if (dueInMs > 0) return;
    this.health.isSilent = true;
    const alone = quorum.lastAnswerAtMs > waitingSinceMs ? ' while others answered' : '';
    this.health.fault('timeout', `no answer within the node timeout (${timeoutMs} ms)${alone}`);
  }

  opened(): void {
    this.#reconnected('joining');
    this.health.problem = 'connected, but has not answered yet whether it gives locks';
    this.#join();
  }

  closed(message: string): void {
    if (this.state === 'closed') return;
    // The answers that are still open will never come; what they did is unknown. A node may have settled them already.
    const { sentAtMs, hasUnknownOutcome } = this.#connection;
    const unanswered = sentAtMs.length > 0 || hasUnknownOutcome;
    this.#reconnected('down');
    // The keys of commands without an answer can live so long.
    if (unanswered)
      this.#outbox.repeatUntilMs = this.#service.clock.nowMs + this.#service.options.maxTtlMs;
    this.#failWaiting(message);
    this.health.left(message);
  }

  unreachable(message: string): void {
    if (this.state === 'down') this.health.problem = message;
  }

  stalled(): void {
    if (this.state !== 'voting') return;
    this.health.isSilent = true;
    this.health.failing('no answer on its connection, nor on a second one');
  }

  spoke(): void {
    // The reply that comes may be a vote, which says more.
    const isDue = this.#connection.sentAtMs.length > 0;
    if (this.state !== 'voting' || !this.health.isSilent || isDue) return;
    this.health.isSilent = false;
    this.health.works();
    this.#listener.joined();
  }

  /** Stands in line there, once it has joined. */
  wait(request: WaitRequest, settle: (reply: WaitReply) => void): void {
    if (this.state !== 'voting') return;
    this.node.listen(this.#service.channel);
    if (this.votesAtMs > this.#service.clock.nowMs) return;
    this.node.wait(request, settle);
  }

  turn(lockName: string, keptMs: number): void {
    if (this.votesAtMs > this.#service.clock.nowMs) return;
    this.#listener.turn(this, lockName, keptMs);
  }

  listening(): void {
    this.#listener.listening(this);
  }

  async close(): Promise<void> {
    this.state = 'closed';
    this.#service.answers.cancel(this);
    this.#service.alarms.cancel(this.#rejoin);
    this.health.close();
    this.#outbox.close();
    this.#failWaiting('closed');
    await this.node.close();
  }

  #reconnected(state: ServiceNode['state']): void {
    this.#connection = new Connection();
    this.state = state;
    this.#service.alarms.cancel(this.#rejoin);
    this.health.isSilent = false;
  }

  #send(collector: VoteCollector, nowMs: number, isRepeat: boolean): boolean {
    if (this.state !== 'voting') throw brokenInvariant('a node votes only after it was joined');
    const connection = this.#connection;
    const { vote } = collector;
    if (vote.kind === 'extend' && this.wasGrantedElsewhere(vote.grantedAtMs)) {
      collector.collect(this.index, { kind: 'lost', why: NOT_GRANTED_HERE });
      return false;
    }
    if (this.votesAtMs > nowMs && this.#mayBeTakenElsewhere(vote)) {
      const remainingMs = this.votesAtMs - nowMs;
      collector.collect(this.index, { kind: 'quarantined', remainingMs });
      return false;
    }
    if (connection.sentAtMs.push(nowMs) === 1 && this.position === -1)
      this.#service.answers.set(this, this.#service.options.acquire.nodeTimeoutMs, nowMs);
    const settle = (reply: VoteReply) => {
      const isAskedAgain = connection === this.#connection && this.#answered(vote, reply);
      // Nothing was written, so it can be sent once more after the join, unless it has been released meanwhile.
      const again = isAskedAgain && !isRepeat && !collector.ended;
      if (again) this.#afterJoin.push(collector);
      if (isAskedAgain) this.#mustJoin();
      if (!again) collector.collect(this.index, reply);
    };
    return vote.kind === 'acquire'
      ? this.node.acquire(vote, settle)
      : this.node.extend(vote, settle);
  }

  /**
   * A primary that was cut off before a failover may still grant a lock whose ttl it saw end. So the one in its place, in quarantine,
   * extends no lock that may end before the other has certainly stopped, `maxTtl` before the quarantine is over.
   */
  #mayBeTakenElsewhere(vote: VoteRequest): boolean {
    const { maxLagMs, maxTtlMs } = this.#service.options;
    if (vote.kind === 'acquire' || maxLagMs === undefined) return false;
    return vote.validUntilMs < this.votesAtMs - maxTtlMs;
  }

  /** Learns from the answer to a vote. Returns whether the node has to be joined. */
  #answered({ kind: vote }: VoteRequest, reply: VoteReply): boolean {
    const { clock, options } = this.#service;
    const { nowMs } = clock;
    const timeoutMs = options.acquire.nodeTimeoutMs;
    const connection = this.#connection;
    const sentAtMs = connection.sentAtMs.shift() ?? nowMs;
    // Found silent while this answer was due: it came too late to count in its vote.
    const isLate = this.health.isSilent && nowMs - sentAtMs > timeoutMs;
    if (this.health.isSilent && nowMs - (connection.sentAtMs[0] ?? nowMs) <= timeoutMs) {
      this.health.isSilent = false;
      if (this.state === 'voting') this.#listener.joined();
    }
    if (reply.kind === 'unjoined' || (reply.kind === 'failed' && reply.mustJoin === true))
      return true;
    if (reply.kind === 'failed') {
      if (!reply.nothingWritten) connection.hasUnknownOutcome = true;
      if (reply.reason === 'error') this.health.fault(vote, reply.message);
    } else if (!isLate) {
      this.roundTripMs = nowMs - sentAtMs;
      if (reply.kind === 'quarantined') this.votesAtMs = nowMs + reply.remainingMs;
      // An extension need not look at what says that it was joined.
      if (vote === 'acquire') this.#rejoin.forgotten = 0;
      const did = reply.kind === 'accepted' || reply.kind === 'extended' ? vote : undefined;
      const isNews = this.health.faults > 0 || this.health.reported !== 'joined';
      if (isNews && this.state === 'voting') this.health.works(did);
    }
    return false;
  }

  #mustJoin(): void {
    if (this.state === 'voting') {
      this.state = 'joining';
      this.#rejoin.forgotten += 1;
      this.health.left(this.#rejoin.forgotten > 1 ? FORGETS : MUST_JOIN);
      // Pauses begin with the second time: the first time it was flushed.
      if (this.#rejoin.forgotten > 1) this.#joinLater(this.#rejoin.forgotten - 2);
    }
    if (this.#rejoin.position === -1) this.#join();
    else this.#failWaiting(this.health.problem);
  }

  #joinLater(earlier: number): void {
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** earlier);
    const delayMs = Math.ceil(pauseMs * this.#service.environment.random.fraction());
    this.#service.alarms.set(this.#rejoin, delayMs, this.#service.clock.nowMs);
  }

  #join(): void {
    const connection = this.#connection;
    if (this.state !== 'joining' || connection.isJoinAsked) return;
    connection.isJoinAsked = true;
    const { join } = this.#service.linkSettings;
    this.node.join(join, (reply) => {
      if (connection !== this.#connection || this.state !== 'joining') return;
      connection.isJoinAsked = false;
      this.health.isSilent = false;
      if (reply.kind === 'joined') {
        // One server has one vote, however many nodes lead to it.
        const twin = this.#service.sessions.find(({ server }) => server === reply.server);
        if (twin === undefined) return this.#joined(reply);
        this.health.problem = `leads to the same server as ${twin.address} now`;
      } else this.health.problem = whyNotJoined(reply, join);
      this.#failWaiting(this.health.problem);
      this.#joinLater(this.#rejoin.failures);
      this.#rejoin.failures += 1;
    });
  }

  #joined(reply: JoinReply & { kind: 'joined' }): void {
    const { quarantineMs, isMoved = false, others = [], upMs } = reply;
    const { nowMs } = this.#service.clock;
    const wasUp = this.#rejoin.joined(nowMs, upMs);
    // The server that answered is another one: the one before forgot nothing.
    if (isMoved) this.#rejoin.forgotten = 0;
    this.#rejoin.failures = 0;
    this.state = 'voting';
    this.#connection.server = reply.server;
    this.votesAtMs = nowMs + quarantineMs;
    this.#outbox.flush();
    // Vote that ended meanwhile has been released, and must not arrive after its release.
    for (const collector of this.#afterJoin.splice(0))
      if (!collector.ended) this.#send(collector, this.#service.clock.nowMs, true);
    this.#service.outgoing.flushLater();
    // A node that forgets has to vote first.
    if (this.#rejoin.forgotten <= 1) {
      this.health.problem = 'connection lost';
      this.health.joined(quarantineMs, isMoved, wasUp ? upMs : undefined);
    } else this.health.look();
    this.#listener.joined();
    if (upMs !== undefined) this.#listener.doubted();
    this.#service.configurations.joined(this.index, others);
  }

  #failWaiting(message: string): void {
    for (const collector of this.#afterJoin.splice(0))
      collector.collect(this.index, failure('unreachable', message));
  }
}

function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason, message };
}
