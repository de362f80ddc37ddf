import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from '@jest/globals';
import type { FencePast, FenceTicket } from '../../lib/testing/index.ts';
import { failuresOf, PrunedMemoryStore as Pruned } from './support/memory-store.ts';

// Prunes that are wrong in one way, each of which one case of the kit finds only.

const HOUR = 3_600_000_000n;
const YEAR = 365n * 24n * HOUR;
const now = (): bigint => BigInt(Date.now()) * 1_000n;

/** Its floor is right. */
function deletesTo(end: (floor: bigint) => bigint): new () => Pruned {
  return class extends Pruned {
    protected override forget(below: bigint): void {
      super.forget(end(below));
    }
  };
}

const PRUNES: readonly (readonly [name: string, found: RegExp, new () => Pruned])[] = [
  [
    'takes the newest of the deleted tokens for its floor, which then is admitted',
    /^a pruned key keeps/,
    class extends Pruned {
      override async prune({ floor }: FencePast): Promise<void> {
        for (const { token } of this.data.rows.values())
          if (token < BigInt(floor) && token > this.floor) this.floor = token;
        this.forget(BigInt(floor));
      }
    },
  ],
  [
    'sets its floor where it should raise it',
    /less far/,
    class extends Pruned {
      protected override raise({ floor }: FencePast): void {
        this.floor = BigInt(floor);
      }
    },
  ],
  [
    'forgets the holders of what was not used for an hour',
    /^the newest holder of a key/,
    class extends Pruned {
      protected override forget(below: bigint): void {
        super.forget(below);
        for (const [name, row] of this.data.rows)
          if (row.token < now() - HOUR) this.data.rows.set(name, { ...row, holder: '' });
      }
    },
  ],
  [
    'deletes all that is older than an hour',
    /^a key above the floor/,
    deletesTo(() => now() - HOUR),
  ],
  ['deletes an hour too much', /^a key above the floor/, deletesTo((floor) => floor + HOUR)],
  ['deletes a day too much', /^a key above the floor/, deletesTo((floor) => floor + 24n * HOUR)],
  ['deletes a year too much', /^a key above the floor/, deletesTo((floor) => floor + YEAR)],
  [
    'deletes what is from a day to a year above its floor',
    /^a key above the floor/,
    class extends Pruned {
      protected override forget(below: bigint): void {
        super.forget(below);
        super.forget(below + YEAR, below + 24n * HOUR);
      }
    },
  ],
  [
    'deletes first, and then raises its floor',
    /all the while/,
    class extends Pruned {
      override async prune(past: FencePast): Promise<void> {
        this.forget(BigInt(past.floor));
        await sleep(5);
        this.raise(past);
      }
    },
  ],
  [
    'reads its floor, and then its row',
    /all the while/,
    class extends Pruned {
      protected override async check(ticket: FenceTicket): Promise<void> {
        this.checkFloor(ticket);
        await sleep(1);
        this.checkRow(ticket);
        this.keep(ticket);
      }
    },
  ],
  [
    'writes when its row is as it was',
    /paused .* that was pruned$/,
    class extends Pruned {
      override async write(ticket: FenceTicket, text: string, pause: () => Promise<void>) {
        const { resource } = ticket;
        const before = this.data.rows.get(resource);
        this.checkFloor(ticket);
        this.checkRow(ticket);
        await pause();
        this.refuse(ticket, this.data.rows.get(resource) !== before);
        this.keep(ticket);
        this.data.texts.set(resource, text);
      }
    },
  ],
  [
    'keeps a copy of the rows that were there when it began',
    /^overlapping holders/,
    class extends Pruned {
      override async prune(past: FencePast): Promise<void> {
        await super.prune(past);
        const kept = new Map(this.data.rows);
        await sleep(5);
        this.data.rows = kept;
      }
    },
  ],
];

it('the kit passes a right prune, again and again, with one instance and with two', async () => {
  const store = new Pruned();
  for (let run = 0; run < 3; run += 1) await expect(failuresOf(store)).resolves.toEqual([]);
  const runs = [failuresOf(store), failuresOf(store, store)];
  await expect(Promise.all(runs)).resolves.toEqual([[], []]);
});

it.each(PRUNES)('one case of the kit finds a store that %s', async (_name, found, Wrong) => {
  await expect(failuresOf(new Wrong())).resolves.toEqual([expect.stringMatching(found)]);
});

const WITH_MORE: readonly (readonly [
  name: string,
  found: RegExp,
  (past: FencePast) => FencePast,
])[] = [
  ['raises no floor', /^a pruned key keeps/, (past) => ({ ...past, floor: '0' })],
  [
    'raises its floor to this hour',
    /^the newest holder of a key/,
    (past) => ({ ...past, floor: String(now() - HOUR) }),
  ],
];

it.each(WITH_MORE)('the kit finds a store that %s', async (_name, found, change) => {
  class Wrong extends Pruned {
    protected override raise(past: FencePast): void {
      super.raise(change(past));
    }
  }
  await expect(failuresOf(new Wrong())).resolves.toContainEqual(expect.stringMatching(found));
});
