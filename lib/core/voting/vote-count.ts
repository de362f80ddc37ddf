import type { VoteReply } from '../nodes/lock-node.ts';

/**
 * - `won`: a quorum accepted this ballot.
 * - `reballot`: a quorum would accept a higher ballot.
 * - `failed`: neither is possible any more.
 * - `open`: an answer that is still expected can decide.
 */
export type BallotDecision = 'won' | 'reballot' | 'failed' | 'open';

/**
 * - `extended`: a quorum agreed.
 * - `taken`: too few nodes still hold it to form a quorum.
 * - `unknown`: neither.
 */
export type ExtensionDecision = 'extended' | 'taken' | 'unknown';

/** A holder that nodes named, which of the keys it has, in the order of the request, and how many named it. */
export interface NamedHolder {
  readonly holder: string;
  readonly index: number;
  names: number;
}

/** The answers of one round, and all that can be read from them. The only place in which votes are read. */
export class VoteCount {
  /** The replies by node; undefined while there is none. */
  readonly replies: (VoteReply | undefined)[] = [];
  readonly #counts: Record<VoteReply['kind'], number> = {
    accepted: 0,
    extended: 0,
    stale: 0,
    ahead: 0,
    held: 0,
    lost: 0,
    quarantined: 0,
    unjoined: 0,
    failed: 0,
  };
  yes = 0;
  held = 0;
  /** The number of nodes that would accept another ballot: they answered STALE or AHEAD. */
  wrongNumber = 0;
  /** The number of nodes that could not be asked, or gave no answer that the protocol knows. */
  failed = 0;
  /** The nodes that had time left to answer when the others decided. */
  pending = 0;
  /** The answers that are missing: of nodes that were silent when they were asked, and of the others. */
  #silentOpen = 0;
  liveOpen: number;
  #silentNodes = 0;

  constructor(
    nodeCount: number,
    readonly quorum: number,
  ) {
    for (let index = 0; index < nodeCount; index += 1) this.replies.push(undefined);
    this.liveOpen = nodeCount;
  }

  /** An earlier answer of the node is overdue: it is waited for only where no quorum is possible without it. */
  silent(index: number): void {
    this.#silentNodes |= 1 << index;
    this.#silentOpen += 1;
    this.liveOpen -= 1;
  }

  add(index: number, reply: VoteReply): void {
    const counts = this.#counts;
    this.replies[index] = reply;
    if ((this.#silentNodes & (1 << index)) !== 0) this.#silentOpen -= 1;
    else this.liveOpen -= 1;
    counts[reply.kind] += 1;
    this.yes = counts.accepted + counts.extended;
    this.held = counts.held;
    this.wrongNumber = counts.stale + counts.ahead;
    this.failed = counts.unjoined + counts.failed;
  }

  isSilent(index: number): boolean {
    return (this.#silentNodes & (1 << index)) !== 0;
  }

  /** The number of answers that are worth waiting for. */
  get expected(): number {
    const { quarantined, lost } = this.#counts;
    const able = this.replies.length - this.#silentOpen - this.failed - quarantined - lost;
    return able < this.quorum ? this.liveOpen + this.#silentOpen : this.liveOpen;
  }

  /** The number of nodes that may vote and did, for any holder. */
  get voted(): number {
    return this.yes + this.wrongNumber + this.held + this.#counts.lost;
  }

  /** Whether no answer that is worth waiting for can change what the votes mean. */
  isDecided(kind: 'acquire' | 'extend'): boolean {
    if (this.yes >= this.quorum) return true;
    const { expected } = this;
    if (kind === 'extend') return expected === 0 || this.decideExtension() !== 'unknown';
    return this.decideBallot(expected) !== 'open';
  }

  decideBallot(expected: number): BallotDecision {
    const { yes, wrongNumber, quorum } = this;
    if (yes >= quorum) return 'won';
    if (yes + expected >= quorum) return 'open';
    if (yes + wrongNumber >= quorum) return 'reballot';
    return yes + wrongNumber + expected >= quorum ? 'open' : 'failed';
  }

  decideExtension(): ExtensionDecision {
    if (this.yes >= this.quorum) return 'extended';
    return this.#counts.lost > this.replies.length - this.quorum ? 'taken' : 'unknown';
  }

  /** The value in place of the holder, where a node said that it was revoked. */
  get revoked(): string | undefined {
    for (const reply of this.replies)
      if (reply?.kind === 'lost' && reply.revoked !== undefined) return reply.revoked;
    return undefined;
  }

  /**
   * The next ballot after one that was STALE or AHEAD: above every floor seen; where a node's clock set the floor, not below
   * that clock; if our ballot was more than a day ahead of a node, just above that node's clock (without the vote of a node
   * that accepted the far ballot).
   */
  nextBallot(ballot: number): number {
    let floor = this.highestFloor;
    let accepted = 0;
    let ahead = 0;
    for (const reply of this.replies) {
      if (reply?.kind === 'stale' && reply.byClock) floor = Math.max(floor, reply.nowMicros);
      else if (reply?.kind === 'accepted') accepted = ballot;
      else if (reply?.kind === 'ahead') ahead = Math.max(ahead, reply.nowMicros, reply.floor);
    }
    return Math.max(floor, ahead > 0 ? ahead : accepted) + 1;
  }

  /** The highest floor that a node remembers of these keys, as far as the answers say; 0 when none does. */
  get highestFloor(): number {
    let floor = 0;
    for (const reply of this.replies)
      if (reply?.kind === 'held' || reply?.kind === 'stale') floor = Math.max(floor, reply.floor);
    return floor;
  }

  /** The nodes that may have executed the request, as bits: they were sent it, and did not say that nothing was written. */
  get mayHaveWritten(): number {
    let nodes = 0;
    for (let index = 0; index < this.replies.length; index += 1) {
      const reply = this.replies[index];
      const yes = reply === undefined || reply.kind === 'accepted' || reply.kind === 'extended';
      if (yes || (reply.kind === 'failed' && !reply.nothingWritten)) nodes |= 1 << index;
    }
    return nodes;
  }

  /** The holders that nodes named, most often named first. Each node names that of the first held key, so sets are named alike. */
  get holders(): NamedHolder[] {
    const holders: NamedHolder[] = [];
    for (const reply of this.replies) {
      if (reply?.kind !== 'held') continue;
      const { holder, index } = reply;
      const known = holders.find((each) => each.holder === holder && each.index === index);
      if (known === undefined) holders.push({ holder, index, names: 1 });
      else known.names += 1;
    }
    return holders.sort((one, other) => other.names - one.names);
  }

  /** The one holder that a quorum named. */
  get namedHolder(): NamedHolder | undefined {
    if (this.held < this.quorum) return undefined;
    const [most] = this.holders;
    return most!.names >= this.quorum ? most : undefined;
  }

  /** The holder that every node named which named one; undefined when they named several, or none. */
  get soleHolder(): string | undefined {
    const [sole, other] = this.holders;
    return other === undefined ? sole?.holder : undefined;
  }

  get isQuarantined(): boolean {
    return this.replies.length - this.#counts.quarantined < this.quorum;
  }

  /** A quorum voted for us, named another holder, refused only the number, or was not waited for. */
  get isContention(): boolean {
    return this.pending + this.held + this.yes + this.wrongNumber >= this.quorum;
  }

  /** Another number would do: only the clock of this process, which differs from those of the nodes, stood in the way. */
  get isWrongClock(): boolean {
    const isByClock = (reply?: VoteReply): boolean =>
      reply?.kind === 'ahead' || (reply?.kind === 'stale' && reply.byClock);
    return this.isContention && this.replies.filter(isByClock).length >= this.quorum;
  }

  /** So many nodes refused that no quorum is possible. */
  get isRefused(): boolean {
    return this.failed + this.#counts.quarantined > this.replies.length - this.quorum;
  }

  /** A quorum is possible with those nodes that could not be asked because their connections are being `remade`. */
  isPossibleWith(remade: readonly boolean[]): boolean {
    const isCut = (reply: VoteReply | undefined, index: number) =>
      reply?.kind === 'failed' && reply.reason === 'unreachable' && remade[index] === true;
    const cut = this.replies.filter(isCut).length;
    const missing = this.failed - cut + this.#counts.quarantined;
    return cut > 0 && missing <= this.replies.length - this.quorum;
  }

  /**
   * The time in ms until enough leases and quarantines have ended for a quorum; undefined if it is unknown. Nodes that were not
   * waited for count as free: a try that comes too early costs a round, one that comes too late up to a whole lease.
   */
  get freeInMs(): number | undefined {
    const times: number[] = [];
    for (const reply of this.replies) {
      if (reply?.kind === 'quarantined') times.push(reply.remainingMs);
      else if (reply?.kind === 'held' && reply.remainingMs >= 0) times.push(reply.remainingMs);
    }
    const missing = Math.max(1, this.quorum - this.yes - this.wrongNumber - this.pending);
    return times.sort((a, b) => a - b)[missing - 1];
  }

  /** The shortest quarantine that a node reported; infinite when none did. */
  get shortestQuarantineMs(): number {
    const times = this.replies.map((reply) =>
      reply?.kind === 'quarantined' ? reply.remainingMs : Number.POSITIVE_INFINITY,
    );
    return Math.min(...times);
  }
}
