import { describe, expect, it } from '@jest/globals';
import type { FencePast, FenceTicket } from '../../lib/testing/index.ts';
import { SEED, sleep, useVirtualTime } from './support/kit-in-virtual-time.ts';
import { AgedMemoryStore as Aged, failuresOf } from './support/memory-store.ts';

// Fences that are wrong in one way about the age of tokens, or forget in a wrong way.

const HOUR = 3_600_000_000n;
const DAY = 24n * HOUR;
const now = (): bigint => BigInt(Date.now()) * 1_000n;

function forgetting(end: (before: bigint) => bigint): new () => Aged {
  return class extends Aged {
    protected override forget(below: bigint): void {
      super.forget(end(below));
    }
  };
}

const WRONG: readonly (readonly [name: string, found: RegExp, new () => Aged])[] = [
  [
    'refuses what is older than 23 hours',
    /^a token that is not yet too old/,
    class extends Aged {
      protected override checkAge(ticket: FenceTicket): void {
        this.refuse(ticket, BigInt(ticket.token) < now() - 23n * HOUR);
      }
    },
  ],
  [
    'does not look at ages',
    /^a key that was forgotten/,
    class extends Aged {
      protected override checkAge(): void {}
    },
  ],
  [
    'looks at the age of tokens by a clock that has gone back by more than the margin since it forgot',
    /^a key that was forgotten/,
    class extends Aged {
      override readonly maxAge = Number((DAY + HOUR) / 1_000n);
      #behind = 0n;
      override async prune(past: FencePast): Promise<void> {
        await super.prune(past);
        this.#behind = HOUR;
      }
      protected override checkAge(ticket: FenceTicket): void {
        this.refuse(ticket, BigInt(ticket.token) < now() - this.#behind - DAY - HOUR);
      }
    },
  ],
  [
    'looks at the age of tokens only where a key has none yet',
    /^a token that is too old/,
    class extends Aged {
      protected override checkAge(ticket: FenceTicket): void {
        if (!this.data.rows.has(ticket.resource)) super.checkAge(ticket);
      }
    },
  ],
  [
    'forgets the holders of what was not used for an hour',
    /^a token that is not yet too old/,
    class extends Aged {
      protected override keep(ticket: FenceTicket): void {
        super.keep(ticket);
        const row = this.data.rows.get(ticket.resource)!;
        if (row.token < now() - HOUR) this.data.rows.set(ticket.resource, { ...row, holder: '' });
      }
    },
  ],
  [
    'forgets all that is older than an hour',
    /^a key whose token is not yet too old/,
    forgetting(() => now() - HOUR),
  ],
  [
    'forgets two seconds too much',
    /^a key whose token is not yet too old/,
    forgetting((before) => before + 2_000_000n),
  ],
  [
    'forgets what is younger by half an hour to a day',
    /^a key whose token is not yet too old/,
    class extends Aged {
      protected override forget(below: bigint): void {
        super.forget(below);
        super.forget(below + DAY, below + HOUR / 4n);
      }
    },
  ],
  [
    'looks at the age of a token, and then at its row, and is slow to answer most times',
    /all the while/,
    class extends Aged {
      #answers = 0;
      protected override async check(ticket: FenceTicket): Promise<void> {
        try {
          this.checkAge(ticket);
        } catch (error) {
          this.#answers += 1;
          if (this.#answers % 3 !== 0) await sleep(40);
          throw error;
        }
        // A divisor of the life of the kit's tokens would let all checks end when that does.
        await sleep(7);
        this.checkRow(ticket);
        this.keep(ticket);
      }
    },
  ],
  [
    'writes when its row is as it was',
    /paused .* that was pruned$/,
    class extends Aged {
      override async write(ticket: FenceTicket, text: string, pause: () => Promise<void>) {
        const { resource } = ticket;
        this.checkAge(ticket);
        this.checkRow(ticket);
        const before = this.data.rows.get(resource);
        await pause();
        this.refuse(ticket, before !== this.data.rows.get(resource));
        this.keep(ticket);
        this.data.texts.set(resource, text);
      }
    },
  ],
  [
    'keeps a copy of the rows that were there when it began to forget',
    /^overlapping holders/,
    class extends Aged {
      override async prune(past: FencePast): Promise<void> {
        await super.prune(past);
        const kept = new Map(this.data.rows);
        await sleep(5);
        this.data.rows = kept;
      }
    },
  ],
];

useVirtualTime();

describe(`with the random numbers of seed ${SEED}`, () => {
  it('the kit passes a right store, with one instance and with two', async () => {
    const store = new Aged();
    await expect(failuresOf(store)).resolves.toEqual([]);
    await expect(failuresOf(store, store)).resolves.toEqual([]);
  });

  it.each(WRONG)('the kit finds a store that %s', async (_name, found, Wrong) => {
    await expect(failuresOf(new Wrong())).resolves.toContainEqual(expect.stringMatching(found));
  });

  it('the kit asks a store that does not forget for its ages only', async () => {
    class Lasting extends Aged {
      override readonly prune = undefined as never;
    }
    await expect(failuresOf(new Lasting())).resolves.toEqual([]);
  });
});
