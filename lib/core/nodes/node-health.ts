import { Alarm } from '../deadlines.ts';
import type { LockNode, NodeFacts, NodeFailure } from './lock-node.ts';
import type { Service, ServiceNode } from './service.ts';

const FAILING_AFTER = 3;
/** The time that a node may be away before the reason is reported. */
const ABSENCE_MS = 2_000;
/** The pause between two looks at a node that refuses votes. */
const LOOK_PAUSE_MS = 1_000;
/** For how long a refusal counts that the node does not explain: a process that is not ready may get no calls that would end it. */
const UNEXPLAINED_MS = 10_000;

/** The fault of a vote: no answer in time, or the node itself refused it. */
type Fault = 'timeout' | 'acquire' | 'extend';

/** The part of a session that its health looks at. */
type Examined = Pick<ServiceNode, 'address' | 'state' | 'votesAtMs'> & { readonly node: LockNode };

/** The health of one node: how it does, and what listeners know of it. */
export class NodeHealth {
  /** Why it can't be asked, or does not vote, at the moment. */
  problem = 'not connected yet';
  reported: 'nothing' | 'joined' | 'left' | 'failing' = 'nothing';
  faults = 0;
  /** When it began to vote, or ceased to, as far as that was reported. */
  changedAtMs: number;
  readonly #session: Examined;
  readonly #service: Service;
  readonly #onWell: () => void;
  readonly #absence = new Alarm(() => this.#isAway());
  /** Asks a node that was joined, and does not vote, whether it would. */
  readonly #look = new Alarm(() => this.look());
  #isAsked = false;
  /** From when on it is believed that all is well: at once where the node had said what was wrong. */
  #believesFromMs = 0;
  #lastFault: Fault = 'timeout';

  /** @param onWell called when a look found that the node votes again */
  constructor(session: Examined, service: Service, onWell: () => void) {
    this.#session = session;
    this.#service = service;
    this.#onWell = onWell;
    this.changedAtMs = service.clock.nowMs;
  }

  fault(fault: Fault, message: string): void {
    this.faults += 1;
    if (fault !== 'timeout' || this.faults === 1) this.#lastFault = fault;
    if (fault !== 'timeout') this.#doubt();
    if (this.faults >= FAILING_AFTER) this.failing(message);
    else if (fault !== 'timeout') this.look();
  }

  /** The node answered in time. One whose memory is full still extends, and names holders: only a lock ends its refusals of locks. */
  works(did?: 'acquire' | 'extend'): void {
    if (did === 'acquire' || did === this.#lastFault || this.#lastFault === 'timeout')
      this.faults = 0;
    if (this.faults === 0) this.#announce(0);
  }

  /** A server that refuses votes is joined all the same, since it may extend: what it refused before has it asked first. */
  joined(quarantineMs: number, isMoved: boolean, upMs?: number): void {
    if (this.faults > 0 && this.#lastFault !== 'timeout' && !isMoved) {
      this.#believesFromMs = 0;
      return this.look();
    }
    this.faults = 0;
    this.#announce(quarantineMs, isMoved, upMs);
  }

  left(message: string): void {
    this.problem = message;
    this.#doubt();
    if (this.reported !== 'joined') return;
    this.#becomes('left');
    this.away();
    const { address } = this.#session;
    const hasQuorum = !this.#service.quorum.isMissing;
    this.#service.events.emit({ type: 'node-left', address, message, hasQuorum });
  }

  failing(reason: string): void {
    if (this.reported === 'failing') return;
    this.#becomes('failing');
    this.problem = reason;
    this.#service.events.emit({ type: 'node-failing', address: this.#session.address, reason });
    this.look();
  }

  /** Asks a node that was joined whether it votes, and again until it does: nothing else finds that out where no calls come. */
  look(): void {
    if (this.#isAsked || this.#session.state !== 'voting') return;
    this.#isAsked = true;
    const { nowMs } = this.#service.clock;
    this.#session.node.examine((reply) => this.#said(reply, nowMs));
  }

  away(): void {
    this.#service.alarms.set(this.#absence, ABSENCE_MS, this.#service.clock.nowMs);
  }

  close(): void {
    for (const alarm of [this.#absence, this.#look]) this.#service.alarms.cancel(alarm);
  }

  #doubt(): void {
    this.#believesFromMs = this.#service.clock.nowMs + UNEXPLAINED_MS;
  }

  #said(reply: NodeFacts | NodeFailure, askedAtMs: number): void {
    this.#isAsked = false;
    const { state, votesAtMs } = this.#session;
    if (state !== 'voting') return;
    const { alarms, clock, options } = this.#service;
    const { nowMs } = clock;
    const refusal = refusalIn(reply);
    const isInTime = nowMs - askedAtMs <= options.acquire.nodeTimeoutMs;
    if (refusal !== undefined) {
      this.faults = FAILING_AFTER;
      this.#lastFault = 'acquire';
      this.#believesFromMs = 0;
      this.failing(refusal);
      this.problem = refusal;
    } else if (isInTime && reply.kind === 'facts' && nowMs >= this.#believesFromMs) {
      this.faults = 0;
      this.#announce(Math.max(0, votesAtMs - nowMs));
      this.#onWell();
    }
    if (this.reported !== 'joined') alarms.set(this.#look, LOOK_PAUSE_MS, nowMs);
  }

  #becomes(reported: NodeHealth['reported']): void {
    if ([this.reported, reported].includes('joined')) this.changedAtMs = this.#service.clock.nowMs;
    this.reported = reported;
  }

  #announce(quarantineMs: number, isMoved = false, upMs?: number): void {
    if (this.reported === 'joined') return;
    this.#becomes('joined');
    this.#service.alarms.cancel(this.#absence);
    const joined = { type: 'node-joined', address: this.#session.address, quarantineMs } as const;
    const more = { ...(isMoved && { isMoved }), ...(upMs !== undefined && { upMs }) };
    this.#service.events.emit({ ...joined, ...more });
  }

  #isAway(): void {
    // A blocked event loop delays this, and what would have ended it.
    if (this.#service.clock.nowMs - this.#absence.dueMs > ABSENCE_MS / 4) this.away();
    else this.failing(this.problem);
  }
}

/** What a node says against votes; undefined where it says nothing, or could not be asked. */
function refusalIn(reply: NodeFacts | NodeFailure): string | undefined {
  if (reply.kind === 'failed') return reply.reason === 'error' ? reply.message : undefined;
  const [right] = reply.missingRights;
  return reply.refusesWrites ?? (right && `a right is missing (${right})`);
}
