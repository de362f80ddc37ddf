import type { HeldLock } from '../holding/held-lock.ts';
import type { Granted, LockCall } from '../voting/attempt.ts';
import { Acquisition, type Wait } from './acquisition.ts';
import type { SharedByCallers } from './admission.ts';
import type { Call } from './call.ts';
import type { KeyRecord } from './keys.ts';

/**
 * A call for a key with permits: for whichever of its slots it can have, each of which is a lock of its own. Callers here stand in
 * one line for all slots. It asks for one slot at a time, from a random one on, and so never has two while somebody gets none.
 *
 * When every slot is taken, this process stands in the queues of all of them. A slot that becomes free is kept for the process that
 * waits longest, as a plain lock is, so nobody who comes later gets ahead, and one that died is passed over. Two slots may become
 * free at the same moment, and be kept for the same process. It takes one of them and leaves all other queues, which gives the
 * second slot to the next in line; its further callers stand behind those who wait.
 */
export class PermitAcquisition extends Acquisition {
  #slot = this.records[0]!;
  #wanted = this.#callFor(this.#slot);

  protected override use({ keys, nodes }: SharedByCallers, call: Call): readonly KeyRecord[] {
    const { permits } = call.settings;
    const records = keys.useSlots(call.keys[0]!, permits!);
    const first = Math.floor(nodes.environment.random.fraction() * records.length);
    return [...records.slice(first), ...records.slice(0, first)];
  }

  override get isForOneOf(): boolean {
    return true;
  }

  protected override get wanted(): LockCall {
    return this.#wanted;
  }

  protected override get asked(): readonly KeyRecord[] {
    return [this.#slot];
  }

  /** Chooses the slot to try for: one that nodes keep for this process, if they do. */
  protected override blockedBy(
    blocked: KeyRecord | undefined,
    nowMs: number,
    isOverdue: boolean,
  ): KeyRecord | undefined {
    const free = this.records.filter((record) => !this.isBlocked(record, nowMs, isOverdue));
    const kept =
      free.find(({ turn }) => turn?.place?.hasTurn) ?? free.find(({ turn }) => turn?.isInRow);
    const slot = kept ?? free[0];
    if (slot === undefined) return blocked;
    if (slot !== this.#slot) this.#wanted = this.#callFor(slot);
    this.#slot = slot;
    return undefined;
  }

  /** The slot that becomes free first wakes it. */
  protected override waitFor(_blocking: KeyRecord, nowMs: number): Wait {
    const waits = this.records.map((record) => super.waitFor(record, nowMs));
    return waits.reduce((first, other) => (other.untilMs < first.untilMs ? other : first));
  }

  protected override granted(outcome: Granted): HeldLock {
    const lock = super.granted(outcome);
    for (const record of this.records) record.turn?.giveUp();
    this.records[0]!.line?.first?.wake();
    this.shared.permits.look(this.call, outcome);
    return lock;
  }

  #callFor({ key }: KeyRecord): LockCall {
    const { settings, caller } = this.call;
    return { keys: Object.freeze([key]), settings, caller };
  }
}
