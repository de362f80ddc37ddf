import { randomUUID } from 'node:crypto';
import {
  demand,
  isRefused,
  type FenceStore,
  type FenceTicket,
  noPause,
  ticketFor,
} from '../fence-store.ts';
import { setTimeout as sleep } from 'node:timers/promises';

interface Written {
  readonly ticket: FenceTicket;
  /** The write it was derived from; null for the first. */
  readonly previous: string | null;
}

/**
 * Remembers every accepted write with the text it was derived from. When no update was lost, the writes form one chain from
 * nothing to the text that is left; the order in the chain is the order of commits, in which tokens may not fall.
 */
class FenceHistory {
  private readonly written = new Map<string, Written>();

  constructor(
    private readonly store: FenceStore,
    private readonly resource: string,
  ) {}

  /** @returns false when the ticket was rejected */
  async claim(ticket: FenceTicket): Promise<boolean> {
    return !(await isRefused(this.store, this.store.claim(ticket)));
  }

  /**
   * Reads and writes what was derived from it.
   * @returns false when the ticket was rejected
   */
  async readAndWrite(
    ticket: FenceTicket,
    pauseBefore: () => Promise<void>,
    pauseInside = pauseBefore,
  ): Promise<boolean> {
    const previous = await this.store.read(ticket);
    await pauseBefore();
    const text = randomUUID();
    // Noted before: a write that fails with another error than a refusal fails the case anyway.
    this.written.set(text, { ticket, previous });
    const refused = await isRefused(this.store, this.store.write(ticket, text, pauseInside));
    if (refused) this.written.delete(text);
    return !refused;
  }

  /** @throws Error that counts lost updates and writes out of order */
  async check(reader: FenceTicket): Promise<void> {
    const left = await this.store.read(reader);
    const chain: Written[] = [];
    for (let text = left; text !== null;) {
      const write = this.written.get(text);
      if (!write || chain.length > this.written.size) break;
      chain.push(write);
      text = write.previous;
    }
    const lost = this.written.size - chain.length;
    demand(
      lost === 0,
      `${lost} of ${this.written.size} accepted writes on ${this.resource} were lost`,
    );
    // Chain goes from the newest to the oldest.
    const fallen = chain.filter((write, index) => {
      const before = chain[index + 1];
      return before !== undefined && isOlder(write.ticket, before.ticket);
    });
    demand(
      fallen.length === 0,
      `${fallen.length} writes on ${this.resource} were accepted after a newer one`,
    );
  }
}

/** An equal number of another holder counts as older: it may not follow. */
function isOlder(ticket: FenceTicket, than: FenceTicket): boolean {
  if (ticket.token === than.token) return ticket.holder !== than.holder;
  return BigInt(ticket.token) < BigInt(than.token);
}

/** Longer than the rest of a write that does not wait for it. */
const PAUSE_MS = 100;

/**
 * A write without its pause can't be held where wrong stores lose updates, so that they would pass.
 *
 * @throws Error when the write ends before its pause
 */
export async function demandPause(store: FenceStore, resource: string): Promise<void> {
  let isOver = false;
  await store.write(ticketFor(`${resource}:pause`, 1), 'paused', async () => {
    await sleep(PAUSE_MS);
    isOver = true;
  });
  demand(
    isOver,
    'write did not await pause(): await it between the check and the write, or right before them when they are one step',
  );
}

/**
 * The older holder is held between its check and its write. Meanwhile a newer one works. A right store makes the newer wait (the
 * gate then opens after `gateMs`) or rejects the older; a wrong one loses an update, which the `last` holder finds.
 */
export async function interleaveFenceWriters(
  store: FenceStore,
  [older, last]: readonly [older: FenceTicket, last: FenceTicket],
  gateMs: number,
  work: (history: FenceHistory) => Promise<void>,
): Promise<void> {
  const history = new FenceHistory(store, older.resource);
  let open!: () => void;
  const isOpen = new Promise<void>((resolve) => (open = resolve));
  let enter!: () => void;
  const hasEntered = new Promise<void>((resolve) => (enter = resolve));
  const olderWrite = history.readAndWrite(older, noPause, () => {
    enter();
    return isOpen;
  });
  // The older may also end without passing the gate.
  await Promise.race([hasEntered, Promise.allSettled([olderWrite])]);
  const newerWork = work(history);
  const timer = setTimeout(open, gateMs);
  await Promise.allSettled([newerWork]);
  clearTimeout(timer);
  open();
  await Promise.all([olderWrite, newerWork]);
  await history.check(last);
}

/** Size of the stress. */
export interface FenceStressOptions {
  /** Sessions per resource, each with one or two writes. @default 60 */
  readonly sessions?: number;
  /** Sessions at the same time per resource. @default 8 */
  readonly workers?: number;
  /** @default 3 */
  readonly resources?: number;
  /** Share of tokens that repeat the number of the one before, with another holder. @default 0.15 */
  readonly duplicates?: number;
  /** Longest random pause between two steps. @default 3 */
  readonly maxPauseMs?: number;
}

/**
 * Holders with rising tokens overlap as if the lock did nothing; random pauses stand between all steps. A holder that is
 * rejected gives up. In the end the accepted writes must form one chain.
 */
export async function stressFence(
  store: FenceStore,
  prefix: string,
  options: FenceStressOptions = {},
): Promise<void> {
  const { resources = 3, maxPauseMs = 3 } = options;
  const pause = (): Promise<void> => sleep(Math.random() * maxPauseMs);
  const names = Array.from({ length: resources }, (_none, index) => `${prefix}:${index}`);
  await Promise.all(names.map((resource) => stressResource(store, resource, options, pause)));
}

async function stressResource(
  store: FenceStore,
  resource: string,
  { sessions = 60, workers = 8, duplicates = 0.15 }: FenceStressOptions,
  pause: () => Promise<void>,
): Promise<void> {
  const history = new FenceHistory(store, resource);
  let started = 0;
  let token = 0;
  const worker = async (): Promise<void> => {
    while (started < sessions) {
      started += 1;
      if (token === 0 || Math.random() >= duplicates) token += 1;
      await session(history, ticketFor(resource, token, `session-${started}`), pause);
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  const last = ticketFor(resource, token + 1);
  await store.claim(last);
  demand(await history.readAndWrite(last, pause), 'the newest holder was rejected');
  await history.check(last);
}

async function session(
  history: FenceHistory,
  by: FenceTicket,
  pause: () => Promise<void>,
): Promise<void> {
  await pause();
  if (!(await history.claim(by))) return;
  await pause();
  const goesOn = await history.readAndWrite(by, pause);
  if (goesOn && Math.random() < 0.5) await history.readAndWrite(by, pause);
}
