import type { LockEvent } from '../../lib/core/events.ts';
import type { Lock } from '../../lib/core/lock.ts';
import type { HistoryFile } from '../history/history-file.ts';
import type { MachineEnvironment } from './machine-environment.ts';
import { recordStalls } from './record-stalls.ts';

/** Writes down what a process sees of its locks, each fact at once when it is known. */
export class LockRecorder {
  readonly #file: HistoryFile;
  readonly #process: string;
  readonly #environment: MachineEnvironment;
  readonly #held = new Map<string, HeldRecord>();

  constructor(file: HistoryFile, process: string, environment: MachineEnvironment) {
    this.#file = file;
    this.#process = process;
    this.#environment = environment;
    recordStalls(file, process, () => environment.now());
  }

  /** Hears the events of the lock service. */
  readonly listen = (event: LockEvent): void => {
    if (event.type !== 'extended') return;
    const record = this.#held.get(nameOf(event.keys, event.token));
    if (!record) return;
    const { holder } = record.lock.token;
    this.#file.append({
      type: 'extended',
      process: this.#process,
      holder,
      at: this.#environment.now(),
      validUntil: this.#validUntil(record.lock, record.startedAt),
    });
  };

  /** First thing after a grant. `calledAt`: when the caller asked, for locks whose attempt is not known. */
  granted(lock: Lock, calledAt: number): void {
    const { holder, value: token } = lock.token;
    const process = this.#process;
    const startedAt = this.#environment.attemptStartedAt(holder) ?? calledAt;
    const at = this.#environment.now();
    const held = this.#environment.still(at, () => lock.isHeld);
    // A lock that was lost on the way to us no longer says how long it was valid.
    const validUntil = held ? this.#validUntil(lock, startedAt) : at;
    const { keys } = lock;
    this.#held.set(nameOf(keys, token), { lock, startedAt });
    this.#file.append({
      type: 'granted',
      process,
      holder,
      keys,
      token,
      startedAt,
      at,
      validUntil,
      held,
    });
    const lost = () => {
      const { reason } = lock.signal.reason as { reason: string };
      this.#file.append({ type: 'lost', process, holder, at: this.#environment.now(), reason });
      this.#held.delete(nameOf(keys, token));
    };
    if (lock.signal.aborted) lost();
    else lock.signal.addEventListener('abort', lost, { once: true });
  }

  /** The holder is about to do a piece of work; false when the lock says that it must not. */
  step(lock: Lock): boolean {
    const at = this.#environment.now();
    if (!this.#environment.still(at, () => lock.isHeld)) return false;
    this.#file.append({ type: 'step', process: this.#process, holder: lock.token.holder, at });
    return true;
  }

  /** `inner` was given while `outer` is held. Returns whether it is held. */
  reentered(outer: Lock, inner: Lock): boolean {
    const at = this.#environment.now();
    if (!this.#environment.still(at, () => inner.isHeld)) return false;
    const { holder } = outer.token;
    this.#file.append({
      type: 'reentered',
      process: this.#process,
      holder,
      at,
      token: inner.token.value,
    });
    return true;
  }

  left(outer: Lock): void {
    const at = this.#environment.now();
    this.#file.append({ type: 'left', process: this.#process, holder: outer.token.holder, at });
  }

  /** Last thing before a release. */
  releasing(lock: Lock): void {
    const at = this.#environment.now();
    this.#file.append({ type: 'released', process: this.#process, holder: lock.token.holder, at });
    this.#held.delete(nameOf(lock.keys, lock.token.value));
  }

  refused(keys: readonly string[], code: string): void {
    this.#file.append({
      type: 'refused',
      process: this.#process,
      keys,
      at: this.#environment.now(),
      code,
    });
  }

  /** With the clock at the start of the attempt, what remains is the whole validity. */
  #validUntil(lock: Lock, startedAt: number): number {
    return startedAt + this.#environment.still(startedAt, () => lock.remainingMs);
  }
}

interface HeldRecord {
  readonly lock: Lock;
  readonly startedAt: number;
}

function nameOf(keys: readonly string[], token: number): string {
  return `${token}:${keys.join()}`;
}
