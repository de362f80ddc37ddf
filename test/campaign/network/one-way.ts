import type { Socket } from 'node:net';
import type { Chance } from '../../simulation/world/chance.ts';
import type { LinkCounts } from './link-counts.ts';
import type { LinkMode, Treatment } from './link-mode.ts';
import { resetSocket, whenWritten } from './reset-socket.ts';

/** Part of a link that a connection must know. */
export interface LinkState {
  readonly mode: LinkMode;
  readonly chance: Chance;
  readonly counts: LinkCounts;
}

/** Bytes, or that the source closed its stream or reset it. */
export type Cargo = Buffer | 'end' | 'reset';

interface Kept {
  readonly cargo: Cargo;
  readonly dueAt: number;
}

/** Beyond this the source is not read any more, so that its system's buffers fill as on a slow network. */
const KEPT_BYTES_LIMIT = 1_048_576;

/** Carries the bytes of one connection from one socket to the other, in order, as the mode of the link wants it. */
export class OneWay {
  /** Bytes of this stream were thrown away. */
  hasLost = false;
  readonly #source: Socket;
  readonly #target: Socket;
  readonly #link: LinkState;
  readonly #write: (bytes: Buffer) => boolean;
  #treatment: Treatment;
  #kept: Kept[] = [];
  #keptBytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #targetIsFull = false;
  #stopped = false;

  /** @param write hands bytes to the target; false: no more until it has drained */
  constructor(
    { source, target }: { readonly source: Socket; readonly target: Socket },
    link: LinkState,
    treatment: Treatment,
    write: (bytes: Buffer) => boolean,
  ) {
    this.#source = source;
    this.#target = target;
    this.#link = link;
    this.#treatment = treatment;
    this.#write = write;
    target.on('drain', () => {
      this.#targetIsFull = false;
      this.#throttle();
    });
  }

  /** Applies `treatment` from now on, also to what has been kept. */
  treat(treatment: Treatment): void {
    const isAgain = treatment === this.#treatment;
    const kept = this.#kept;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#kept = [];
    this.#keptBytes = 0;
    this.#treatment = treatment;
    for (const { cargo } of kept) this.carry(cargo, isAgain);
    this.#throttle();
  }

  /** @param isCounted it was treated like this before, and is now only treated once more */
  carry(cargo: Cargo, isCounted = false): void {
    if (this.#stopped) return;
    const { counts } = this.#link;
    const counted = typeof cargo === 'string' || isCounted ? 0 : 1;
    switch (this.#treatment) {
      case 'lose':
        this.hasLost = true;
        counts.lostChunks += counted;
        return;
      case 'hold':
        counts.heldChunks += counted;
        break;
      case 'delay':
        break;
      case 'pass':
        this.#deliver(cargo);
        this.#throttle();
        return;
    }
    this.#kept.push({ cargo, dueAt: this.#dueAt() });
    this.#keptBytes += sizeOf(cargo);
    this.#deliverDue();
  }

  /** Nothing is carried any more, and what was kept is gone. */
  stop(): void {
    this.#stopped = true;
    this.#kept = [];
    this.#keptBytes = 0;
    clearTimeout(this.#timer);
  }

  /** Time at which a chunk is due; it waits all the same for those before it. */
  #dueAt(): number {
    const { mode, chance } = this.#link;
    if (mode.kind !== 'delay') return Infinity;
    return performance.now() + chance.between(mode.minMs, mode.maxMs);
  }

  #deliverDue(): void {
    while (this.#kept.length > 0 && this.#treatment === 'delay') {
      const { cargo, dueAt } = this.#kept[0]!;
      const waitMs = dueAt - performance.now();
      if (waitMs > 0) {
        this.#timer ??= setTimeout(() => {
          this.#timer = undefined;
          this.#deliverDue();
        }, waitMs);
        break;
      }
      this.#kept.shift();
      this.#keptBytes -= sizeOf(cargo);
      this.#deliver(cargo);
    }
    this.#throttle();
  }

  #deliver(cargo: Cargo): void {
    const target = this.#target;
    if (target.destroyed) return;
    if (cargo === 'end') whenWritten(target, () => target.end());
    else if (cargo === 'reset') whenWritten(target, () => resetSocket(target));
    else this.#targetIsFull = !this.#write(cargo);
  }

  /** Reads on, or no more, depending on how much is waiting. */
  #throttle(): void {
    const pause = this.#targetIsFull || this.#keptBytes >= KEPT_BYTES_LIMIT;
    if (pause === this.#source.isPaused()) return;
    if (pause) this.#source.pause();
    else this.#source.resume();
  }
}

function sizeOf(cargo: Cargo): number {
  return typeof cargo === 'string' ? 0 : cargo.length;
}
