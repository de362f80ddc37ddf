import { brokenInvariant } from '../errors.ts';
import { Alarm } from '../deadlines.ts';
import { whyNotJoined } from './configuration.ts';
import { Connection, MAX_OPEN_VOTES } from './connection.ts';
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
import type { ReleaseCollector, Service, ServiceNode, VoteCollector } from './service.ts';
import { ReleaseOutbox } from './release-outbox.ts';

/** The pauses before a node is joined again double up to this. */
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;

export const NOT_GRANTED_HERE =
  'another server answers at this address now, which did not grant it';
const MUST_JOIN = 'has to be joined again';
const FORGETS = `${MUST_JOIN}, and that repeats: its maxmemory-policy evicts keys (set noeviction), or something deletes them`;

/** The actions of the layers above when something changes at the nodes. */
export interface NodeSetListener {
  /** A node has begun to vote, or answers again. */
  joined(): void;
  /** See {@link LockNodeListener.turn}. */
  turn(session: NodeSession, lockName: string, keptMs: number): void;
  /** A node reports turns from now on, and may have reported some before. */
  listening(session: NodeSession): void;
  /** The clocks moved, or another server answers for a node: whether locks are still held has to be proven. */
  doubted(): void;
}

/** The joins of one node: on each connection anew, and again until it says yes. */
class Joining extends Alarm {
  /**
   * - `idle`: the node is joined, or there is no connection.
   * - `asked`: an answer is due.
   * - `pausing`: it said no, or has forgotten again that it was joined: it is asked when the pause is over.
   */
  state: 'idle' | 'asked' | 'pausing' = 'idle';
  askedAtMs = 0;
  /** The joins in a row that failed. */
  failures = 0;
  /** The times in a row that the node forgot that it was joined, before it voted. */
  forgotten = 0;
  /** The votes that are asked once the node has been joined. */
  readonly waiting: VoteCollector[] = [];
}

/** Which server answered at the address of a node, and when. */
class Succession {
  /** Since when the present server has been the one at this address, and since when it has given locks. */
  #movedAtMs = Number.POSITIVE_INFINITY;
  #upSinceMs = Number.POSITIVE_INFINITY;

  /** Returns whether the server is another one than before, and was there when that one was joined. */
  joined(nowMs: number, upMs: number | undefined): boolean {
    const wasUp = upMs !== undefined && nowMs - upMs < this.#movedAtMs;
    if (upMs !== undefined) this.#upSinceMs = nowMs - upMs;
    if (upMs !== undefined || this.#movedAtMs > nowMs) this.#movedAtMs = nowMs;
    return wasUp;
  }

  /** The present server gave locks already when another one, at the same address, granted this lock: it may grant it again. */
  wasGrantedElsewhere(grantedAtMs: number): boolean {
    return this.#upSinceMs < grantedAtMs && grantedAtMs < this.#movedAtMs;
  }
}

/**
 * A node, over all its connections. On each it is joined first, and only then asked for votes: a server that was restarted, and
 * forgot its votes, says in its answer to the join for how long it must not give any.
 */
export class NodeSession implements LockNodeListener {
  readonly health: NodeHealth;
  /** `joining`: connected, and asked or about to be asked again when it may vote; `voting`: joined on this very connection. */
  state: ServiceNode['state'] = 'down';
  /** When its quarantine ends, as far as that is known. */
  votesAtMs = 0;
  /** The time that its latest vote took. */
  roundTripMs: number | undefined = undefined;
  readonly #service: Service;
  readonly #listener: NodeSetListener;
  readonly #outbox: ReleaseOutbox;
  /** The present one, or the last. A late answer of an earlier one changes nothing. */
  connection: Connection;
  readonly #joining = new Joining(() => this.#join());
  readonly #succession = new Succession();

  constructor(
    readonly index: number,
    readonly node: LockNode,
    service: Service,
    listener: NodeSetListener,
  ) {
    this.#service = service;
    this.#listener = listener;
    this.health = new NodeHealth(this, service, () => listener.joined());
    this.#outbox = new ReleaseOutbox(node, service);
    this.connection = this.#newConnection();
  }

  get address(): string {
    return this.node.address;
  }

  /** The server that votes for it; undefined while none does. */
  get server(): string | undefined {
    return this.state === 'voting' ? this.connection.server : undefined;
  }

  wasGrantedElsewhere(grantedAtMs: number): boolean {
    return this.#succession.wasGrantedElsewhere(grantedAtMs);
  }

  open(): void {
    this.health.away();
    this.node.open(this, this.#service.linkSettings);
  }

  /**
   * Asks for a vote, and returns whether that leaves with the next flush. It waits for the answer to a join, which is a moment away
   * unless it is overdue. The answer comes at once when it can't be asked.
   */
  ask(collector: VoteCollector, nowMs: number): boolean {
    const { isOverloaded } = this.connection;
    if (this.state === 'voting' && !isOverloaded) return this.#send(collector, nowMs, false);
    const { state, askedAtMs, waiting } = this.#joining;
    const dueMs = askedAtMs + this.#service.options.acquire.nodeTimeoutMs;
    if (this.state === 'joining' && state === 'asked' && nowMs < dueMs && !isOverloaded) {
      waiting.push(collector);
      return false;
    }
    const refusal = isOverloaded
      ? failure('overloaded', `${MAX_OPEN_VOTES} earlier requests are unanswered`)
      : failure('unreachable', this.health.problem);
    collector.collect(this.index, refusal);
    return false;
  }

  release(request: ReleaseRequest, untilMs: number, by?: ReleaseCollector): boolean {
    if (this.state === 'closed' || this.state === 'down') {
      this.#outbox.keep(request, untilMs);
      by?.released(this, failure('unreachable', this.health.problem));
      return false;
    }
    return this.node.release(request, (reply) => {
      if (reply.kind === 'failed') this.#outbox.keep(request, untilMs);
      by?.released(this, reply);
    });
  }

  opened(): void {
    this.#reconnected('joining');
    this.health.problem = 'connected, but has not answered yet whether it gives locks';
    this.#join();
  }

  closed(message: string): void {
    if (this.state === 'closed') return;
    this.#reconnected('down');
    this.#failWaiting(message);
    this.health.left(message);
  }

  unreachable(message: string): void {
    if (this.state === 'down') this.health.problem = message;
  }

  stalled(): void {
    if (this.state !== 'voting') return;
    this.connection.isSilent = true;
    this.health.failing('no answer on its connection, nor on a second one');
  }

  spoke(): void {
    // The reply that comes may be a vote, which says more.
    const isDue = this.connection.askedAtMs !== undefined;
    if (this.state !== 'voting' || !this.connection.isSilent || isDue) return;
    this.connection.isSilent = false;
    this.health.works();
    this.#listener.joined();
  }

  /** Hears from now on what the node has to say to this process, once it has joined. */
  listen(): void {
    if (this.state === 'voting') this.node.listen(this.#service.channel);
  }

  /** Stands in line there, once it has joined. */
  wait(request: WaitRequest, settle: (reply: WaitReply) => void): void {
    this.listen();
    if (this.state !== 'voting' || this.votesAtMs > this.#service.clock.nowMs) return;
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
    this.#service.answers.cancel(this.connection);
    this.#service.alarms.cancel(this.#joining);
    this.health.close();
    this.#outbox.close();
    this.#failWaiting('closed');
    await this.node.close();
  }

  #reconnected(state: ServiceNode['state']): void {
    this.#service.answers.cancel(this.connection);
    this.connection = this.#newConnection();
    this.state = state;
    this.#joining.state = 'idle';
    this.#service.alarms.cancel(this.#joining);
  }

  #newConnection(): Connection {
    const { quorum, options } = this.#service;
    const timeout = `no answer within the node timeout (${options.acquire.nodeTimeoutMs} ms)`;
    return new Connection(this.#service, (sinceMs) => {
      const alone = quorum.lastAnswerAtMs > sinceMs ? ' while others answered' : '';
      this.health.fault('timeout', timeout + alone);
    });
  }

  #send(collector: VoteCollector, nowMs: number, isRepeat: boolean): boolean {
    if (this.state !== 'voting') throw brokenInvariant('a node votes only after it was joined');
    const connection = this.connection;
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
    connection.sent(nowMs);
    const settle = (reply: VoteReply) => {
      const isAskedAgain = connection === this.connection && this.#answered(vote, reply);
      // Nothing was written, so it can be sent once more after the join, unless it has been released meanwhile.
      const again = isAskedAgain && !isRepeat && !collector.ended;
      if (again) this.#joining.waiting.push(collector);
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
    const { nowMs } = this.#service.clock;
    const connection = this.connection;
    const wasSilent = connection.isSilent;
    const tookMs = connection.answered(nowMs);
    if (wasSilent && !connection.isSilent && this.state === 'voting') this.#listener.joined();
    if (reply.kind === 'unjoined' || (reply.kind === 'failed' && reply.mustJoin === true))
      return true;
    if (reply.kind === 'failed') {
      if (reply.reason === 'error') this.health.fault(vote, reply.message);
    } else if (tookMs !== undefined) {
      this.roundTripMs = tookMs;
      if (reply.kind === 'quarantined') this.votesAtMs = nowMs + reply.remainingMs;
      // An extension looks at what says that it was joined only where a key is missing.
      const isRecreated = reply.kind === 'extended' && reply.recreated > 0;
      if (vote === 'acquire' || isRecreated) this.#joining.forgotten = 0;
      const did = reply.kind === 'accepted' || reply.kind === 'extended' ? vote : undefined;
      const isNews = this.health.faults > 0 || this.health.reported !== 'joined';
      if (isNews && this.state === 'voting') this.health.works(did);
    }
    return false;
  }

  #mustJoin(): void {
    const joining = this.#joining;
    if (this.state === 'voting') {
      this.state = 'joining';
      joining.forgotten += 1;
      this.health.left(joining.forgotten > 1 ? FORGETS : MUST_JOIN);
      // Pauses begin with the second time: the first time it was flushed.
      if (joining.forgotten > 1) this.#joinLater(joining.forgotten - 2);
    }
    if (joining.state === 'pausing') this.#failWaiting(this.health.problem);
    else this.#join();
  }

  #joinLater(earlier: number): void {
    this.#joining.state = 'pausing';
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** earlier);
    const delayMs = Math.ceil(pauseMs * this.#service.environment.random.fraction());
    this.#service.alarms.set(this.#joining, delayMs, this.#service.clock.nowMs);
  }

  #join(): void {
    const joining = this.#joining;
    if (joining.state === 'asked') return;
    joining.state = 'asked';
    joining.askedAtMs = this.#service.clock.nowMs;
    const connection = this.connection;
    const { join } = this.#service.linkSettings;
    this.node.join(join, (reply) => {
      if (connection !== this.connection || this.state !== 'joining') return;
      joining.state = 'idle';
      connection.isSilent = false;
      if (reply.kind === 'joined') {
        // One server has one vote, however many nodes lead to it.
        const twin = this.#service.sessions.find(({ server }) => server === reply.server);
        if (twin === undefined) return this.#joined(reply);
        this.health.problem = `leads to the same server as ${twin.address} now`;
      } else this.health.problem = whyNotJoined(reply, join);
      this.#failWaiting(this.health.problem);
      this.#joinLater(joining.failures);
      joining.failures += 1;
    });
  }

  #joined(reply: JoinReply & { kind: 'joined' }): void {
    const { server, quarantineMs, isMoved = false, others = [], upMs } = reply;
    // The server that answered is another one: the one before forgot nothing.
    if (isMoved) this.#joining.forgotten = 0;
    this.#joining.failures = 0;
    const { nowMs } = this.#service.clock;
    const wasUp = this.#succession.joined(nowMs, upMs);
    this.state = 'voting';
    this.connection.server = server;
    this.votesAtMs = nowMs + quarantineMs;
    this.#outbox.flush();
    // A lock that was asked for before this server came would count as one that the server before it granted.
    if (upMs !== undefined) this.#failWaiting('another server answers at this address now');
    // A vote that ended meanwhile has been released, and must not arrive after its release.
    for (const collector of this.#joining.waiting.splice(0))
      if (!collector.ended) this.#send(collector, this.#service.clock.nowMs, true);
    this.#service.outgoing.flushLater();
    // A node that forgets has to vote first.
    if (this.#joining.forgotten > 1) this.health.look();
    else {
      this.health.problem = 'connection lost';
      this.health.joined(quarantineMs, isMoved, wasUp ? upMs : undefined);
    }
    this.#listener.joined();
    if (upMs !== undefined) this.#listener.doubted();
    this.#service.configurations.joined(this.index, others);
  }

  #failWaiting(message: string): void {
    for (const collector of this.#joining.waiting.splice(0))
      collector.collect(this.index, failure('unreachable', message));
  }
}

function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason, message };
}
