import { expect, it } from '@jest/globals';
import { StaleTokenError } from '../../lib/core/errors.ts';
import { fenceConformance, type FenceStore, type FenceTicket } from '../../lib/testing/fencing.ts';

// Wrong stores of which each is found by one case of the kit only.

interface Row {
  token: bigint;
  holder: string;
  text: string | null;
  usedMs: number;
}

/** How a store sees what it is given, and how long its fence lasts. */
interface Sight {
  readonly token?: (value: bigint) => bigint;
  readonly resource?: (name: string) => string;
  readonly holder?: (name: string) => string;
  readonly lastsMs?: number;
}

/** A store in memory, right unless its sight is bad: it checks and writes behind a lock of its own for each resource. */
function memoryStore(rows: Map<string, Row>, sight: Sight = {}): FenceStore {
  const lastTurns = new Map<string, Promise<unknown>>();
  const { resource: named = (name) => name } = sight;
  const check = (ticket: FenceTicket): Row => {
    const token = sight.token?.(BigInt(ticket.token)) ?? BigInt(ticket.token);
    const holder = sight.holder?.(ticket.holder) ?? ticket.holder;
    const name = named(ticket.resource);
    const known = rows.get(name);
    const isForgotten = known && Date.now() - known.usedMs > (sight.lastsMs ?? Infinity);
    const seen = isForgotten ? { ...known, token: 0n } : known;
    if (seen && (seen.token > token || (seen.token === token && seen.holder !== holder)))
      throw new StaleTokenError(ticket.resource, ticket.token);
    const row = { token, holder, text: seen?.text ?? null, usedMs: Date.now() };
    rows.set(name, row);
    return row;
  };
  const inTurn = <Result>(ticket: FenceTicket, use: () => Promise<Result>): Promise<Result> => {
    const name = named(ticket.resource);
    const turn = (lastTurns.get(name) ?? Promise.resolve()).then(use);
    lastTurns.set(
      name,
      turn.catch(() => undefined),
    );
    return turn;
  };
  return {
    claim: (ticket) => inTurn(ticket, async () => void check(ticket)),
    read: async ({ resource }) => rows.get(named(resource))?.text ?? null,
    write: (ticket, text, pause) =>
      inTurn(ticket, async () => {
        check(ticket);
        await pause();
        rows.get(named(ticket.resource))!.text = text;
      }),
  };
}

const failuresOf = async (store: FenceStore, second?: FenceStore): Promise<string[]> => {
  const { cases } = await fenceConformance(store, { gateMs: 50, ...(second && { second }) });
  return cases.filter(({ failure }) => failure !== undefined).map(({ name }) => name);
};

it('the kit passes a right store, with one instance and with two', async () => {
  const store = memoryStore(new Map());
  const runs = [failuresOf(store), failuresOf(store, { ...store })];
  await expect(Promise.all(runs)).resolves.toEqual([[], []]);
});

const NUMBERS = /^tokens around/;
const RESOURCES = /^resources that differ/;
const HOLDERS = /^holders of the same number/;

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
  ['ignores the case of holders', HOLDERS, { holder: (name) => name.toLowerCase() }],
  ['keeps 64 characters of holders', HOLDERS, { holder: (name) => name.slice(0, 64) }],
];
/** All of them at once, from the first test on: the kit mostly waits. */
let runs: Map<string, Promise<string[]>> | undefined;

it.each(SIGHTS)('one case of the kit finds a store that %s', async (name, found) => {
  runs ??= new Map(
    SIGHTS.map(([each, , sight]) => [each, failuresOf(memoryStore(new Map(), sight))]),
  );
  await expect(runs.get(name)).resolves.toEqual([expect.stringMatching(found)]);
});

it('one case of the kit finds a store that forgets after 300 ms', async () => {
  const store = memoryStore(new Map(), { lastsMs: 300 });
  await expect(failuresOf(store)).resolves.toEqual([expect.stringMatching(/fence was idle/)]);
});

it('finds tokens of 32 bits', async () => {
  const sights = [(value: bigint) => BigInt.asUintN(32, value), upTo(2n ** 31n - 1n)];
  const runs = sights.map((token) => failuresOf(memoryStore(new Map(), { token })));
  for (const failures of await Promise.all(runs))
    expect(failures).toContainEqual(expect.stringMatching(NUMBERS));
});

it('a second instance finds a lock in the memory of one process', async () => {
  const rows = new Map<string, Row>();
  await expect(failuresOf(memoryStore(rows))).resolves.toEqual([]);
  await expect(failuresOf(memoryStore(rows), memoryStore(rows))).resolves.toContainEqual(
    expect.stringMatching(/paused between/),
  );
});
