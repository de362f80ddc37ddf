import type {
  AcquireReply,
  AcquireRequest,
  ExtendRequest,
  ReleaseRequest,
} from '../../../lib/core/nodes/lock-node.ts';
import type { RequestKind } from '../network/simulated-node.ts';

/** Commands of one process to the nodes about one attempt. */
interface WireAttempt {
  ballot: number;
  /** Latest ballot. */
  answers: Map<number, string>;
  /** Nodes that hold it, or may, over all ballots. */
  readonly mayHold: Set<number>;
  /** Nodes that said that they hold it, or gave no clear answer to an earlier ballot in time, over all ballots. */
  readonly accepted: Set<number>;
  readonly released: Set<number>;
}

/** Extension of one lock: to all nodes at once, by one request object. */
export interface WireExtension {
  readonly request: ExtendRequest;
  readonly sentAtMs: number;
  readonly stalledMs: number;
  extended: number;
  lost: number;
}

export interface WireListener {
  readonly quorum: number;
  readonly nodeCount: number;
  now(): { readonly atMs: number; readonly stalledMs: number };
  broke(
    rule:
      | 'older-ballot'
      | 'vote-after-release'
      | 'granted-lock-abandoned'
      | 'join-storm'
      | 'not-written'
      | 'written-after-all',
    message: string,
  ): void;
  /** Ballot that follows another of the same attempt. */
  reballot(): void;
  /** A node set keys again that it had lost. */
  recreated(keys: number): void;
  /** A node said that somebody else has this lock for so long, or had it just now. */
  taken(lockName: string, remainingMs: number): void;
  /** The clock of a node refused a number. */
  refusedByClock(node: number): void;
  wasGranted(holder: string): boolean;
  /** A quorum agreed to an extension. */
  extendedByQuorum(extension: WireExtension): void;
  /** Quorum is no longer left for an extension. */
  lostByMajority(extension: WireExtension): void;
}

/** Limit of joins: with a back-off and a connection that breaks now and then there are far fewer. */
const MAX_JOINS = 40;

/** Watches what one process says to its nodes, against the rules that can be seen on the wire alone. */
export class WireMonitor {
  readonly #listener: WireListener;
  readonly #attempts = new Map<string, WireAttempt>();
  readonly #extensions = new Map<unknown, WireExtension>();
  /** When each node was joined lately. */
  readonly #joins: number[][] = [];
  /** The holders whose release has left for each node. */
  readonly #released: Set<string>[] = [];

  constructor(listener: WireListener) {
    this.#listener = listener;
  }

  sending(kind: RequestKind, request: unknown, node: number): void {
    if (kind === 'join') this.#joining(node);
    else if (kind === 'acquire') this.#acquiring(request as AcquireRequest, node);
    else if (kind === 'extend') this.#extending(request as ExtendRequest, node);
    else if (kind === 'release') this.#releasing(request as ReleaseRequest, node);
  }

  unwritten(command: string): void {
    this.#listener.broke('not-written', command);
  }

  /** A request leaves for a node: by the letter of its script, with the holder that it is about. */
  leaving(letter: string, holder: string, node: number): void {
    const released = (this.#released[node] ??= new Set());
    if (letter === 'r') released.add(holder);
    else if (released.has(holder))
      this.#listener.broke('vote-after-release', `a vote for ${holder} leaves for n${node}`);
  }

  /** Unless an extension of the lock wrote it, which is granted by other nodes. */
  writtenAfterAll(holder: string, server: string): void {
    if (!this.#listener.wasGranted(holder))
      this.#listener.broke('written-after-all', `${holder} on ${server}`);
  }

  #joining(node: number): void {
    const { atMs } = this.#listener.now();
    const times = this.#joins[node] ?? [];
    this.#joins[node] = [...times.filter((time) => time > atMs - 5_000), atMs];
    if (times.length < MAX_JOINS) return;
    this.#listener.broke('join-storm', `n${node} is joined ${times.length} times in five seconds`);
  }

  answered(kind: RequestKind, request: unknown, node: number, reply: { kind: string }): void {
    if (kind === 'acquire') {
      const { holder, ballot, names } = request as AcquireRequest;
      if (reply.kind === 'held') {
        const { index, remainingMs } = reply as AcquireReply & { kind: 'held' };
        this.#listener.taken(names.locks[index]!, remainingMs);
      } else if (reply.kind === 'stale') {
        for (const lockName of names.locks) this.#listener.taken(lockName, 0);
        if ('byClock' in reply && reply.byClock === true) this.#listener.refusedByClock(node);
      }
      const attempt = this.#attempts.get(holder);
      if (attempt?.ballot !== ballot) return;
      // Node is asked again after a join, so this is no answer yet.
      if (reply.kind === 'unjoined' || 'mustJoin' in reply) return;
      attempt.answers.set(node, reply.kind);
      const isUnknown =
        reply.kind === 'failed' && !('nothingWritten' in reply && reply.nothingWritten);
      if (reply.kind === 'accepted' || isUnknown) attempt.accepted.add(node);
      if (!attempt.accepted.has(node)) attempt.mayHold.delete(node);
    } else if (kind === 'extend') this.#extendAnswered(request, reply);
  }

  /** Failed attempts that some node may hold, and of which it received no end. */
  unreleased(): string[] {
    const failed = [...this.#attempts].filter(([holder]) => !this.#listener.wasGranted(holder));
    return failed.flatMap(([holder, { mayHold, released }]) =>
      [...mayHold].filter((node) => !released.has(node)).map((node) => `${holder} on n${node}`),
    );
  }

  #attempt(holder: string): WireAttempt {
    let attempt = this.#attempts.get(holder);
    if (!attempt) {
      attempt = {
        ballot: 0,
        answers: new Map(),
        mayHold: new Set(),
        accepted: new Set(),
        released: new Set(),
      };
      this.#attempts.set(holder, attempt);
    }
    return attempt;
  }

  #acquiring({ holder, ballot }: AcquireRequest, node: number): void {
    const attempt = this.#attempt(holder);
    this.#checkReleased(attempt, 'ACQUIRE', holder, node);
    if (ballot !== attempt.ballot) {
      // A node's clock may be a day behind the client's; then the next ballot comes from that clock.
      const isAhead = [...attempt.answers.values()].includes('ahead');
      if (ballot < attempt.ballot && !isAhead) {
        const message = `${holder} asks n${node} with ballot ${ballot} after ${attempt.ballot}`;
        this.#listener.broke('older-ballot', message);
      }
      if (attempt.ballot !== 0) this.#listener.reballot();
      // Requests still open then are not asked about again.
      for (const open of attempt.mayHold)
        if (!attempt.answers.has(open)) attempt.accepted.add(open);
      attempt.ballot = ballot;
      attempt.answers = new Map();
    }
    attempt.mayHold.add(node);
  }

  #extending(request: ExtendRequest, node: number): void {
    this.#checkReleased(this.#attempt(request.holder), 'EXTEND', request.holder, node);
    if (this.#extensions.has(request)) return;
    const { atMs: sentAtMs, stalledMs } = this.#listener.now();
    this.#extensions.set(request, { request, sentAtMs, stalledMs, extended: 0, lost: 0 });
  }

  #releasing({ holder, granted }: ReleaseRequest, node: number): void {
    // A turn that is given back, and no attempt.
    if (holder.startsWith('#')) return;
    this.#attempt(holder).released.add(node);
    if (granted || !this.#listener.wasGranted(holder)) return;
    const message = `${holder} is released on n${node} as if it had never been granted`;
    this.#listener.broke('granted-lock-abandoned', message);
  }

  #checkReleased(attempt: WireAttempt, what: string, holder: string, node: number): void {
    if (!attempt.released.has(node)) return;
    this.#listener.broke(
      'vote-after-release',
      `${what} of ${holder} to n${node} after its RELEASE`,
    );
  }

  #extendAnswered(request: unknown, reply: { kind: string }): void {
    const { kind } = reply;
    const extension = this.#extensions.get(request);
    if (!extension) return;
    const { quorum, nodeCount } = this.#listener;
    if (kind === 'extended') {
      extension.extended += 1;
      this.#listener.recreated((reply as unknown as { recreated: number }).recreated);
      if (extension.extended === quorum) this.#listener.extendedByQuorum(extension);
    } else if (kind === 'lost') {
      extension.lost += 1;
      const decided = extension.lost === nodeCount - quorum + 1;
      if (decided && extension.extended < quorum) this.#listener.lostByMajority(extension);
    }
  }
}
