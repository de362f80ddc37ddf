import { Alarm } from './deadlines.ts';
import type { Service } from './service.ts';

const FAILING_AFTER = 3;
/** Time that a node may be away before the reason is reported. */
const ABSENCE_MS = 2_000;

/** Fault of a vote: no answer in time, or the node itself refused it. */
type Fault = 'timeout' | 'acquire' | 'extend';

/** Health of one node: how it does, and what listeners know of it. */
export class NodeHealth {
  /** Reason why it can't be asked, or does not vote, at the moment. */
  problem = 'not connected yet';
  reported: 'nothing' | 'joined' | 'left' | 'failing' = 'nothing';
  /** A whole node timeout passed without an answer that was due: it is still asked, but no decision waits for it. */
  isSilent = false;
  faults = 0;
  /** When it began to vote, or ceased to, as far as that was reported. */
  changedAtMs: number;
  readonly #address: string;
  readonly #set: Service;
  readonly #absence = new Alarm(() => this.#isAway());
  #lastFault: Fault = 'timeout';

  constructor(address: string, set: Service) {
    this.#address = address;
    this.#set = set;
    this.changedAtMs = set.clock.nowMs;
  }

  fault(fault: Fault, message: string): void {
    this.faults += 1;
    if (fault !== 'timeout' || this.faults === 1) this.#lastFault = fault;
    if (this.faults >= FAILING_AFTER) this.failing(message);
  }

  /** Answered in time. A server without memory extends, and names holders: only an accepted lock ends the refusals of locks. */
  works(did?: 'acquire' | 'extend'): void {
    if (did === 'acquire' || did === this.#lastFault || this.#lastFault === 'timeout')
      this.faults = 0;
    if (this.faults < FAILING_AFTER) this.#announce(0);
  }

  joined(quarantineMs: number, isMoved: boolean): void {
    this.faults = 0;
    this.#announce(quarantineMs, isMoved);
  }

  left(message: string): void {
    this.problem = message;
    if (this.reported !== 'joined') return;
    this.#becomes('left');
    this.away();
    const hasQuorum = !this.#set.quorum.isMissing;
    this.#set.events.emit({ type: 'node-left', address: this.#address, message, hasQuorum });
  }

  failing(reason: string): void {
    if (this.reported === 'failing') return;
    this.#becomes('failing');
    this.problem = reason;
    this.#set.events.emit({ type: 'node-failing', address: this.#address, reason });
  }

  away(): void {
    this.#set.alarms.set(this.#absence, ABSENCE_MS, this.#set.clock.nowMs);
  }

  close(): void {
    this.#set.alarms.cancel(this.#absence);
  }

  #becomes(reported: NodeHealth['reported']): void {
    if ([this.reported, reported].includes('joined')) this.changedAtMs = this.#set.clock.nowMs;
    this.reported = reported;
  }

  #announce(quarantineMs: number, isMoved = false): void {
    if (this.reported === 'joined') return;
    this.#becomes('joined');
    this.#set.alarms.cancel(this.#absence);
    const joined = { type: 'node-joined', address: this.#address, quarantineMs } as const;
    this.#set.events.emit(isMoved ? { ...joined, isMoved } : joined);
  }

  #isAway(): void {
    // A blocked event loop delays this, and what would have ended it.
    if (this.#set.clock.nowMs - this.#absence.dueMs > ABSENCE_MS / 4) this.away();
    else this.failing(this.problem);
  }
}
