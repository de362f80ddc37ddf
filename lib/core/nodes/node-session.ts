import type { Environment, TimerHandle } from '../environment.ts';
import type {
  JoinReply,
  LockNode,
  LockNodeListener,
  NodeFailure,
  ReleaseRequest,
} from './lock-node.ts';
import { OpenRequest } from './open-request.ts';
import type { OpenRequestOwner, VoteCollector, VoteReply } from './open-request.ts';
import { ReleaseOutbox } from './release-outbox.ts';
import type { ReleaseSettle } from './release-outbox.ts';
import type { NodeSessionSettings } from './session-settings.ts';

/** With this many unanswered votes a silent node is only sent releases. */
const MAX_OPEN_REQUESTS = 64;
/** Pause before a failed join is repeated. */
const JOIN_RETRY_MS = 50;

export interface NodeSessionListener {
  joined(session: NodeSession, quarantineMs: number): void;
  left(session: NodeSession, message: string): void;
  hint(lockName: string, holder: string | null): void;
}

/**
 * One node over all its connections: joins first on each, votes only after that, notices silence, and sees to it that
 * every release arrives.
 */
export class NodeSession implements LockNodeListener, OpenRequestOwner {
  readonly index: number;
  readonly node: LockNode;
  /** Why it can't be asked at the moment. */
  problem = 'not connected yet';
  readonly #settings: NodeSessionSettings;
  readonly #environment: Environment;
  readonly #listener: NodeSessionListener;
  readonly #outbox: ReleaseOutbox;
  readonly #waitingForJoin: OpenRequest[] = [];
  #connection = 0;
  #connected = false;
  #joining = false;
  #joined = false;
  #openRequests = 0;
  /** A vote on this connection failed in such a way that the node may have it all the same. */
  #unknownOutcome = false;
  /** When the answer that is due next was first waited for; 0 when none is. In order, so any answer shows life. */
  #waitingSinceMs = 0;
  /** When it was first found to be silent for too long; 0 when not. */
  #suspectedAtMs = 0;
  #joinTimer: TimerHandle;
  #closed = false;

  constructor(
    index: number,
    node: LockNode,
    settings: NodeSessionSettings,
    environment: Environment,
    listener: NodeSessionListener,
  ) {
    this.index = index;
    this.node = node;
    this.#settings = settings;
    this.#environment = environment;
    this.#listener = listener;
    this.#outbox = new ReleaseOutbox(node, environment, settings.nodeTimeoutMs);
  }

  get address(): string {
    return this.node.address;
  }

  /** True between a successful join and the end of its connection. */
  get hasJoined(): boolean {
    return this.#joined;
  }

  /** An earlier answer is overdue: it is still asked, but no decision waits for it. */
  isSilentAt(nowMs: number): boolean {
    return (
      this.#waitingSinceMs !== 0 && nowMs - this.#waitingSinceMs > this.#settings.nodeTimeoutMs
    );
  }

  open(): void {
    this.node.open(this);
  }

  /** Asks for a vote; `collector` hears the answer, at once when the node can't be asked. */
  ask(collector: VoteCollector, nowMs: number): void {
    if (this.#waitingSinceMs !== 0) this.#checkSilence(nowMs);
    const request = new OpenRequest(this, collector);
    if (!this.#joined) request.fail(failure('unreachable', this.problem));
    else if (this.#openRequests >= MAX_OPEN_REQUESTS && this.isSilentAt(nowMs)) {
      request.fail(failure('overloaded', `${MAX_OPEN_REQUESTS} earlier requests are unanswered`));
    } else this.#send(request, nowMs);
  }

  /** Tells the node that the lock is over. Undelivered ones are repeated until `lifeMs` has passed. */
  release(request: ReleaseRequest, lifeMs: number, settle: ReleaseSettle): void {
    if (this.#closed || !this.#connected) {
      this.#outbox.add(request, lifeMs);
      settle(failure('unreachable', this.problem), 0);
      return;
    }
    this.#outbox.send(request, lifeMs, settle);
  }

  answered(request: OpenRequest, reply: VoteReply): void {
    if (request.connection !== this.#connection) return;
    this.#openRequests -= 1;
    if (reply.kind === 'failed' && !reply.nothingWritten) this.#unknownOutcome = true;
    this.#heard();
  }

  mustJoin(request: OpenRequest, again: boolean): boolean {
    if (request.connection !== this.#connection || !this.#connected) return false;
    if (this.#joined) {
      this.#joined = false;
      this.problem = 'has to be joined again';
    }
    if (again) this.#waitingForJoin.push(request);
    this.#join();
    return again;
  }

  opened(): void {
    this.#connection += 1;
    this.#connected = true;
    this.#openRequests = 0;
    this.#unknownOutcome = false;
    this.#heard();
    this.#join();
  }

  closed(message: string): void {
    const wasJoined = this.#joined;
    // Answers that are still open will never come; what they did is unknown. A node may have settled them already.
    const unanswered = this.#openRequests > 0 || this.#unknownOutcome;
    this.#connection += 1;
    this.#connected = false;
    this.#joined = false;
    this.#joining = false;
    this.#openRequests = 0;
    this.#heard();
    this.problem = message;
    this.#environment.timers.clear(this.#joinTimer);
    this.#outbox.connectionClosed(unanswered ? this.#settings.maxTtlMs : 0);
    this.#failWaiting(message);
    if (wasJoined && !this.#closed) this.#listener.left(this, message);
  }

  unreachable(message: string): void {
    if (!this.#connected) this.problem = message;
  }

  hint(lockName: string, holder: string | null): void {
    this.#listener.hint(lockName, holder);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#environment.timers.clear(this.#joinTimer);
    this.#outbox.close();
    await this.node.close();
  }

  #send(request: OpenRequest, nowMs: number): void {
    request.connection = this.#connection;
    this.#openRequests += 1;
    if (this.#waitingSinceMs === 0) this.#waitingSinceMs = nowMs;
    request.send(this.node);
  }

  #join(): void {
    if (this.#joining || this.#closed) return;
    this.#joining = true;
    const connection = this.#connection;
    if (this.#waitingSinceMs === 0) this.#waitingSinceMs = this.#now();
    this.node.join(this.#settings.join, (reply) => {
      if (connection !== this.#connection || this.#closed) return;
      this.#joining = false;
      this.#heard();
      this.#joinAnswered(reply);
    });
  }

  #joinAnswered(reply: JoinReply): void {
    if (reply.kind === 'joined') {
      this.#joined = true;
      this.problem = 'connection lost';
      this.#outbox.flush();
      // One that ended meanwhile has been released, and must not arrive after its release.
      for (const request of this.#waitingForJoin.splice(0))
        if (!request.ended) this.#send(request, this.#now());
      this.#listener.joined(this, reply.quarantineMs);
      return;
    }
    this.problem =
      reply.kind === 'disagree'
        ? `another client remembers fences for ${reply.floorRetentionMs} ms, this one for ${this.#settings.join.floorRetentionMs} ms: use one version of this package everywhere`
        : `join failed: ${reply.message}`;
    this.#failWaiting(this.problem);
    this.#environment.timers.clear(this.#joinTimer);
    this.#joinTimer = this.#environment.timers.set(
      () => {
        if (this.#connected && !this.#joined) this.#join();
      },
      JOIN_RETRY_MS,
      true,
    );
  }

  #failWaiting(message: string): void {
    for (const request of this.#waitingForJoin.splice(0))
      request.fail(failure('unreachable', message));
  }

  #heard(): void {
    this.#suspectedAtMs = 0;
    this.#waitingSinceMs = this.#openRequests > 0 ? this.#now() : 0;
  }

  /**
   * Replaces a connection that has been silent for too long. Found silent twice, a node timeout apart: after a pause of
   * our own process the answers are there and only have to be read.
   */
  #checkSilence(nowMs: number): void {
    if (nowMs - this.#waitingSinceMs < this.#settings.silenceLimitMs) return;
    if (this.#suspectedAtMs === 0) this.#suspectedAtMs = nowMs;
    else if (nowMs - this.#suspectedAtMs > this.#settings.nodeTimeoutMs) {
      this.#suspectedAtMs = nowMs;
      this.node.reset();
    }
  }

  #now(): number {
    return this.#environment.clock.monotonicMs();
  }
}

function failure(reason: NodeFailure['reason'], message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason, message };
}
