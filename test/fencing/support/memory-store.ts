import { StaleTokenError } from '../../../lib/core/errors.ts';
import type { FencePast, FenceStore, FenceTicket } from '../../../lib/testing/index.ts';
import { failedCases } from './kit-in-virtual-time.ts';

interface Row {
  readonly token: bigint;
  readonly holder: string;
  readonly usedMs: number;
}

/** Sight of a store: how it sees what it is given, and how long its fence lasts. */
export interface Sight {
  readonly token?: (value: bigint) => bigint;
  readonly resource?: (name: string) => string;
  readonly holder?: (name: string) => string;
  readonly lastsMs?: number;
}

/** A store in memory, right unless its sight is bad: it checks and writes behind a lock of its own for each resource. */
export class MemoryStore implements FenceStore {
  readonly #lastTurns = new Map<string, Promise<unknown>>();

  constructor(
    protected readonly data = { rows: new Map<string, Row>(), texts: new Map<string, string>() },
    private readonly sight: Sight = {},
  ) {}

  claim(ticket: FenceTicket): Promise<void> {
    return this.#inTurn(ticket, async () => this.check(ticket));
  }

  async read(ticket: FenceTicket): Promise<string | null> {
    return this.data.texts.get(this.#seen(ticket).resource) ?? null;
  }

  write(ticket: FenceTicket, text: string, pause: () => Promise<void>): Promise<void> {
    return this.#inTurn(ticket, async () => {
      await this.check(ticket);
      await pause();
      this.data.texts.set(this.#seen(ticket).resource, text);
    });
  }

  protected check(ticket: FenceTicket): void | Promise<void> {
    this.checkAge(ticket);
    this.checkRow(ticket);
    this.keep(ticket);
  }

  /** None, as long as nothing is forgotten. */
  protected checkAge(_ticket: FenceTicket): void {}

  protected checkRow(ticket: FenceTicket): void {
    const { token, holder, resource } = this.#seen(ticket);
    const row = this.data.rows.get(resource);
    if (!row || Date.now() - row.usedMs > (this.sight.lastsMs ?? Infinity)) return;
    this.refuse(ticket, row.token > token || (row.token === token && row.holder !== holder));
  }

  protected keep(ticket: FenceTicket): void {
    const { resource, ...row } = this.#seen(ticket);
    this.data.rows.set(resource, { ...row, usedMs: Date.now() });
  }

  protected refuse({ resource, token }: FenceTicket, isStale: boolean): void {
    if (isStale) throw new StaleTokenError(resource, token);
  }

  #seen(ticket: FenceTicket) {
    const { token, resource, holder } = this.sight;
    return {
      token: token?.(BigInt(ticket.token)) ?? BigInt(ticket.token),
      resource: resource?.(ticket.resource) ?? ticket.resource,
      holder: holder?.(ticket.holder) ?? ticket.holder,
    };
  }

  #inTurn(ticket: FenceTicket, use: () => Promise<void>): Promise<void> {
    const { resource } = this.#seen(ticket);
    const turn = (this.#lastTurns.get(resource) ?? Promise.resolve()).then(use);
    const ended = turn.catch(() => undefined);
    this.#lastTurns.set(resource, ended);
    return turn;
  }
}

const DAY_MS = 86_400_000;

/** The same, which refuses what is older than a day, and forgets. */
export class AgedMemoryStore extends MemoryStore {
  readonly maxAge: number = DAY_MS;

  async prune({ before }: FencePast): Promise<void> {
    this.forget(BigInt(before));
  }

  protected override checkAge(ticket: FenceTicket): void {
    this.refuse(ticket, BigInt(ticket.token) < BigInt(Date.now() - DAY_MS) * 1_000n);
  }

  protected forget(below: bigint, from = 0n): void {
    const { rows } = this.data;
    for (const [name, { token }] of rows) if (token >= from && token < below) rows.delete(name);
  }
}

/** The names of the cases of the kit that the store fails. */
export async function failuresOf(store: FenceStore, second?: FenceStore): Promise<string[]> {
  const options = { gateMs: 50, sessions: 200, ...(second && { second }) };
  return (await failedCases(store, options)).map(({ name }) => name);
}
