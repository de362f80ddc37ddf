import type { VoteReply } from '../nodes/lock-node.ts';

const NOBODY = Object.freeze({ holder: undefined, index: -1 });

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

/** The holder that a quorum of nodes named, and which of the keys it has: the index in the order of the request. */
export interface NamedHolder {
  readonly holder: string | undefined;
  readonly index: number;
}

/** The answers of one round, and all that can be read from them. The only place in which votes are read. */
export class VoteCount {
  /** By node; undefined while there is none. */
  readonly replies: (VoteReply | undefined)[] = [];
  readonly quorum: number;
  /** Yes: ACCEPTED, or EXTENDED. */
  yes = 0;
  /** STALE or AHEAD: another number would do. */
  wrongNumber = 0;
  held = 0;
  lost = 0;
  quarantined = 0;
  /** Could not be asked, or answered nothing that the protocol knows. */
  failed = 0;
  /** Nodes that had time left to answer when the others decided. */
  pending = 0;
  /** Not answered, by nodes that were silent when asked, and by the others. */
  #silentOpen = 0;
  liveOpen: number;
  #silentNodes = 0;

  constructor(nodeCount: number, quorum: number) {
    this.quorum = quorum;
    for (let index = 0; index < nodeCount; index += 1) this.replies.push(undefined);
    this.liveOpen = nodeCount;
  }

  /** This node has an earlier answer overdue: it is asked, and waited for only where no quorum is possible without it. */
  silent(index: number): void {
    this.#silentNodes |= 1 << index;
    this.#silentOpen += 1;
    this.liveOpen -= 1;
  }

  add(index: number, reply: VoteReply): void {
    this.replies[index] = reply;
    if ((this.#silentNodes & (1 << index)) !== 0) this.#silentOpen -= 1;
    else this.liveOpen -= 1;
    switch (reply.kind) {
      case 'accepted':
      case 'extended':
        this.yes += 1;
        return;
      case 'stale':
      case 'ahead':
        this.wrongNumber += 1;
        return;
      case 'held':
        this.held += 1;
        return;
      case 'lost':
        this.lost += 1;
        return;
      case 'quarantined':
        this.quarantined += 1;
        return;
      case 'unjoined':
      case 'failed':
        this.failed += 1;
    }
  }

  /** Nodes that accepted, counted again from their answers. */
  get accepts(): number {
    return this.replies.filter((reply) => reply?.kind === 'accepted').length;
  }

  isSilent(index: number): boolean {
    return (this.#silentNodes & (1 << index)) !== 0;
  }

  /** How many answers are worth waiting for. */
  get expected(): number {
    const unable = this.#silentOpen + this.failed + this.quarantined + this.lost;
    return this.replies.length - unable < this.quorum
      ? this.liveOpen + this.#silentOpen
      : this.liveOpen;
  }

  /** How many nodes may vote and did, for any holder. */
  get voted(): number {
    return this.yes + this.wrongNumber + this.held + this.lost;
  }

  /** Whether no answer that is worth waiting for can change what the votes mean. */
  isDecided(kind: 'acquire' | 'extend'): boolean {
    if (this.yes >= this.quorum) return true;
    const { expected } = this;
    if (kind === 'extend') return expected === 0 || this.decideExtension() !== 'unknown';
    return this.decideBallot(expected) !== 'open';
  }

  /** What a vote for a new lock means, when `expected` more answers may come. */
  decideBallot(expected: number): BallotDecision {
    const { yes, wrongNumber, quorum } = this;
    if (yes >= quorum) return 'won';
    if (yes + expected >= quorum) return 'open';
    if (yes + wrongNumber >= quorum) return 'reballot';
    return yes + wrongNumber + expected >= quorum ? 'open' : 'failed';
  }

  decideExtension(): ExtensionDecision {
    if (this.yes >= this.quorum) return 'extended';
    return this.lost > this.replies.length - this.quorum ? 'taken' : 'unknown';
  }

  /**
   * The next ballot after one that was STALE or AHEAD: above every floor seen; where a node's clock set the floor, not below
   * that clock; if our ballot was more than a day ahead of a node, just above that node's clock (without the vote of a node
   * that accepted the far ballot).
   *
   * After STALE it is `leadMicros` above, because a floor moves on with the clocks of others while the ballot is on its way; but
   * not by this more than `limitMicros` above the clock of the node, or callers could drive each other ahead of all clocks.
   */
  nextBallot(ballot: number, leadMicros: number, limitMicros: number): number {
    let floor = 0;
    let accepted = 0;
    let ahead = 0;
    for (const reply of this.replies) {
      if (reply?.kind === 'stale') {
        const { nowMicros, byClock } = reply;
        const moved = Math.min(reply.floor + leadMicros, nowMicros + limitMicros);
        floor = Math.max(floor, reply.floor, moved, byClock ? nowMicros : 0);
      } else if (reply?.kind === 'held') floor = Math.max(floor, reply.floor);
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

  /** Nodes that may have executed the request, as bits: they were sent it, and did not say that nothing was written. */
  get mayHaveWritten(): number {
    let nodes = 0;
    for (let index = 0; index < this.replies.length; index += 1) {
      const reply = this.replies[index];
      const yes = reply === undefined || reply.kind === 'accepted' || reply.kind === 'extended';
      if (yes || (reply.kind === 'failed' && !reply.nothingWritten)) nodes |= 1 << index;
    }
    return nodes;
  }

  /** The one holder that a quorum named. All nodes name the first held key, so a holder of several is named alike. */
  get namedHolder(): NamedHolder {
    if (this.held < this.quorum) return NOBODY;
    for (const reply of this.replies) {
      if (reply?.kind !== 'held') continue;
      const { holder, index } = reply;
      let names = 0;
      for (const other of this.replies)
        if (other?.kind === 'held' && other.holder === holder && other.index === index) names += 1;
      if (names >= this.quorum) return { holder, index };
    }
    return NOBODY;
  }

  /** The key that most nodes named as held: its index, or -1 when none named one. */
  get mostNamedIndex(): number {
    const names: number[] = [];
    for (const reply of this.replies)
      if (reply?.kind === 'held') names[reply.index] = (names[reply.index] ?? 0) + 1;
    return names.reduce((most, count, index) => (count > (names[most] ?? 0) ? index : most), -1);
  }

  /** The holder that every node named which named one; undefined when they named several, or none. */
  get soleHolder(): string | undefined {
    let sole: string | undefined;
    for (const reply of this.replies) {
      if (reply?.kind !== 'held') continue;
      if (sole !== undefined && sole !== reply.holder) return undefined;
      sole = reply.holder;
    }
    return sole;
  }

  /** Too few nodes are out of quarantine for a quorum. */
  get isQuarantined(): boolean {
    return this.replies.length - this.quarantined < this.quorum;
  }

  /** Nodes that voted for us, named another holder, refused only the number, or were not waited for make a quorum. */
  get isContention(): boolean {
    return this.pending + this.held + this.yes + this.wrongNumber >= this.quorum;
  }

  /** All that stood in the way is that the clock of this process differs from those of the nodes: another number would do. */
  get isWrongClock(): boolean {
    const isByClock = (reply?: VoteReply): boolean =>
      reply?.kind === 'ahead' || (reply?.kind === 'stale' && reply.byClock);
    return this.isContention && this.replies.filter(isByClock).length >= this.quorum;
  }

  /** Enough nodes refused by themselves to make a quorum impossible. */
  get isRefused(): boolean {
    return this.failed + this.quarantined > this.replies.length - this.quorum;
  }

  /** Says whether a quorum is possible with those of the `remade` nodes that could not be asked: their connections are being made. */
  isPossibleWith(remade: readonly boolean[]): boolean {
    const isCut = (reply: VoteReply | undefined, index: number) =>
      reply?.kind === 'failed' && reply.reason === 'unreachable' && remade[index] === true;
    const cut = this.replies.filter(isCut).length;
    return cut > 0 && this.failed - cut + this.quarantined <= this.replies.length - this.quorum;
  }

  /**
   * In how many ms enough leases and quarantines have ended for a quorum; undefined if unknown. Nodes that were not waited for
   * count as free: a try too early costs a round, one too late up to a whole lease.
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

  /** The shortest quarantine that a node reported: then it can have its key again. */
  get shortestQuarantineMs(): number | undefined {
    let shortest: number | undefined;
    for (const reply of this.replies)
      if (reply?.kind === 'quarantined')
        shortest = Math.min(shortest ?? reply.remainingMs, reply.remainingMs);
    return shortest;
  }
}
