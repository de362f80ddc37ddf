import { randomUUID } from 'node:crypto';
import { demand, isRefused, type FenceStore, type FenceTicket } from '../fence-store.ts';

interface Written {
  readonly ticket: FenceTicket;
  /** The write it was derived from; null for the first. */
  readonly previous: string | null;
}

/**
 * Remembers every accepted write with the text it was derived from. When no update was lost, the writes form one chain from
 * nothing to the text that is left; the order in the chain is the order of commits, in which tokens may not fall.
 */
export class FenceHistory {
  private readonly written = new Map<string, Written>();

  constructor(
    private readonly store: FenceStore,
    private readonly resource: string,
  ) {}

  /** @returns false when the ticket was refused */
  async claim(ticket: FenceTicket): Promise<boolean> {
    return !(await isRefused(this.store, this.store.claim(ticket)));
  }

  /**
   * Reads and writes what was derived from it.
   * @returns false when the ticket was refused
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
    // From the newest to the oldest.
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
