import { describe, expect, it } from '@jest/globals';
import type { FenceTicket } from '../../lib/testing/index.ts';
import { failedCases, SEED, sleep, useVirtualTime } from './support/kit-in-virtual-time.ts';
import { failuresOf, MemoryStore, type Sight } from './support/memory-store.ts';

// Wrong stores of which each is found by one case of the kit only.

useVirtualTime();

describe(`with the random numbers of seed ${SEED}`, () => {
  it('the kit passes a right store, with one instance and with two', async () => {
    const store = new MemoryStore();
    await expect(failuresOf(store)).resolves.toEqual([]);
    await expect(failuresOf(store, store)).resolves.toEqual([]);
  });

  const NUMBERS = /^tokens around/;
  const RESOURCES = /^resources that differ/;
  const HOLDERS = /^holders of the same number/;
  const SIGNS = /^resources with signs/;
  const LARGE = /^tokens beyond/;

  const without = (marks: RegExp) => (name: string) => name.normalize('NFD').replace(marks, '');
  const upTo = (most: bigint) => (value: bigint) => (value > most ? most : value);

  const SIGHTS: readonly (readonly [name: string, found: RegExp, Sight])[] = [
    ['wraps tokens at 10^15', NUMBERS, { token: (value) => value % 10n ** 15n }],
    ['stops at 2^60', NUMBERS, { token: upTo(2n ** 60n) }],
    ['wraps tokens near 2^63', NUMBERS, { token: (value) => value % (2n ** 63n - 2n) }],
    ['pads resources with blanks', RESOURCES, { resource: (name) => name.trimEnd() }],
    ['ignores accents in resources', RESOURCES, { resource: without(/\p{Diacritic}/gu) }],
    ['takes ß for ss', RESOURCES, { resource: (name) => name.replace('ß', 'ss') }],
    ['keeps 100 characters of resources', RESOURCES, { resource: (name) => name.slice(0, 100) }],
    ['keeps 255 characters of resources', RESOURCES, { resource: (name) => name.slice(0, 255) }],
    [
      'keeps 1,023 characters of resources',
      RESOURCES,
      { resource: (name) => name.slice(0, 1_023) },
    ],
    [
      'has ? for characters beyond the BMP',
      SIGNS,
      { resource: (name) => name.replace(/[\u{10000}-\u{10ffff}]/gu, '?') },
    ],
    [
      'drops invisible characters',
      SIGNS,
      { resource: (name) => name.replace(/[\u200b\u200d]/g, '') },
    ],
    ['makes one slash of two', SIGNS, { resource: (name) => name.replace('//', '/') }],
    ['drops backslashes', SIGNS, { resource: (name) => name.replaceAll('\\', '') }],
    ['decodes percent signs', SIGNS, { resource: (name) => decodeURIComponent(name) }],
    ['takes # for the end of a resource', SIGNS, { resource: (name) => name.split('#')[0]! }],
    ['wraps tokens at 2^53', LARGE, { token: (value) => BigInt.asUintN(53, value) }],
    ['pads holders with blanks', HOLDERS, { holder: (name) => name.trimEnd() }],
    ['ignores the case of holders', HOLDERS, { holder: (name) => name.toLowerCase() }],
    ['keeps 64 characters of holders', HOLDERS, { holder: (name) => name.slice(0, 64) }],
  ];
  it.each(SIGHTS)('one case of the kit finds a store that %s', async (_name, found, sight) => {
    const failures = await failuresOf(new MemoryStore(undefined, sight));
    expect(failures).toEqual([expect.stringMatching(found)]);
  });

  it('one case of the kit finds a store that forgets after 300 ms', async () => {
    const store = new MemoryStore(undefined, { lastsMs: 300 });
    await expect(failuresOf(store)).resolves.toEqual([expect.stringMatching(/fence was idle/)]);
  });

  it.each<[string, RegExp, Sight]>([
    ['has tokens of 32 bits', NUMBERS, { token: (value) => BigInt.asUintN(32, value) }],
    ['stops at 2^31 - 1', NUMBERS, { token: upTo(2n ** 31n - 1n) }],
    ['has JavaScript numbers for tokens', LARGE, { token: (value) => BigInt(Number(value)) }],
    ['has no holders', /^of two holders/, { holder: () => '' }],
    ['has one fence for all resources', /^resources do not know/, { resource: () => 'all' }],
    ['takes every token for the same', /^an older claim/, { token: () => 1n, holder: () => '' }],
  ])('the kit finds a store that %s', async (_name, found, sight) => {
    const failures = await failuresOf(new MemoryStore(undefined, sight));
    expect(failures).toContainEqual(expect.stringMatching(found));
  });

  it('a second instance finds a lock in the memory of one process', async () => {
    const data = { rows: new Map(), texts: new Map() };
    await expect(failuresOf(new MemoryStore(data))).resolves.toEqual([]);
    await expect(failuresOf(new MemoryStore(data), new MemoryStore(data))).resolves.toContainEqual(
      expect.stringMatching(/paused between/),
    );
  });

  it('passes a right store that rejects names of more than 200 characters', async () => {
    const resource = (name: string): string => {
      if (name.length > 200) throw new Error('too long');
      return name;
    };
    await expect(failuresOf(new MemoryStore(undefined, { resource }))).resolves.toEqual([]);
  });

  it.each([
    [10, 'used', true],
    [50, 'made', false],
  ])(
    'one case of the kit finds a store that keeps the %s keys that were %s last',
    async (most, _last, isUsed) => {
      class Evicting extends MemoryStore {
        protected override keep(ticket: FenceTicket): void {
          const { rows } = this.data;
          if (isUsed) rows.delete(ticket.resource);
          super.keep(ticket);
          const [oldest] = rows.keys();
          if (rows.size > most) rows.delete(oldest!);
        }
      }
      await expect(failuresOf(new Evicting())).resolves.toEqual([
        expect.stringMatching(/^a token/),
      ]);
    },
  );

  it.each<[string, (pause: () => Promise<void>) => void]>([
    ['does not call', () => undefined],
    ['does not await', (pause) => void pause()],
  ])('one case of the kit finds a store whose write %s its pause', async (_name, start) => {
    class Hasty extends MemoryStore {
      override write(ticket: FenceTicket, text: string, pause: () => Promise<void>) {
        return super.write(ticket, text, async () => start(pause));
      }
    }
    expect(await failedCases(new Hasty(), { gateMs: 50 })).toEqual([
      {
        name: expect.stringMatching(/paused between/),
        failure: expect.stringContaining('did not await pause()'),
      },
    ]);
  });

  it('finds older writes behind newer ones, although none is lost, in a store that trusts whom it let in', async () => {
    class Trusting extends MemoryStore {
      readonly #read = new Map<string, string | null>();
      override async read(ticket: FenceTicket): Promise<string | null> {
        // Some readers come late.
        if (this.#read.size % 3 === 0) await sleep(20);
        const text = await super.read(ticket);
        this.#read.set(ticket.holder + ticket.resource, text);
        return text;
      }
      override async write(ticket: FenceTicket, text: string, pause: () => Promise<void>) {
        await pause();
        const now = this.data.texts.get(ticket.resource) ?? null;
        const before = this.#read.get(ticket.holder + ticket.resource);
        this.refuse(ticket, before !== undefined && before !== now);
        this.data.texts.set(ticket.resource, text);
      }
    }
    expect(await failedCases(new Trusting(), { gateMs: 50 })).toContainEqual({
      name: expect.stringMatching(/^overlapping holders/),
      failure: expect.stringContaining('came after a newer one'),
    });
  });

  /** Refuses with this error. */
  class OwnRefusal extends MemoryStore {
    constructor(private readonly own: Error) {
      super();
    }

    protected override refuse(_ticket: FenceTicket, isStale: boolean): void {
      if (isStale) throw this.own;
    }
  }

  it('passes a store that refuses with the code of our error alone', async () => {
    const own = Object.assign(new Error('the ticket is stale'), { code: 'STALE_TOKEN' });
    await expect(failuresOf(new OwnRefusal(own))).resolves.toEqual([]);
  });

  it('passes a store that refuses with an error of its own when isStale tells it', async () => {
    const own = new TypeError('the ticket is stale');
    const store = Object.assign(new OwnRefusal(own), {
      isStale: (error: unknown) => error === own,
    });
    await expect(failuresOf(store)).resolves.toEqual([]);
  });
});
