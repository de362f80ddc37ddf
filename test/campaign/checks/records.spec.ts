import { describe, expect, it } from '@jest/globals';
import type { AccessEvent, CampaignEvent } from '../campaign-event.ts';
import {
  access,
  brokenRules,
  clocksMoved,
  granted,
  held,
  judge,
  measure,
  voted,
} from './written-events.ts';

const UNFENCED = { view: 'unfenced' } as const;
const REFUSED = { accepted: false } as const;
const TOKENS = { a: 1, b: 2, c: 3, nobody: 1 };

type Holder = keyof typeof TOKENS;
type Changes = Partial<AccessEvent>;

const reads = (holder: Holder, at: number, value: number, changes: Changes = {}) =>
  access('read', holder, at, value, { token: TOKENS[holder], ...changes });
const writes = (holder: Holder, at: number, value: number, changes: Changes = {}) =>
  access('write', holder, at, value, { token: TOKENS[holder], ...changes });

/** a from 0 to 100, b from 200 to 300, c from 400 to 500; all still reach the resource later. */
const HOLDERS = [
  ...held('a', 0, 100),
  ...held('b', 200, 300, { token: 2 }),
  ...held('c', 400, 500, { token: 3 }),
];

function rulesOf(...events: CampaignEvent[]): string[] {
  return brokenRules([...HOLDERS, ...events]);
}

function violationsOf(...events: CampaignEvent[]) {
  return judge([...HOLDERS, ...events]).violations;
}

describe('the fenced view', () => {
  it('is right when numbers follow from each other and tokens grow', () => {
    const a = [reads('a', 10, 7), writes('a', 20, 8), writes('a', 30, 9)];
    const b = [reads('b', 210, 9), writes('a', 215, 10, REFUSED), writes('b', 220, 10)];
    expect(rulesOf(...a, ...b)).toEqual([]);
  });

  it.each([
    ['write', writes('a', 220, 1)],
    ['read, which claims the record', reads('a', 220, 0)],
  ])('must not take a %s of an older token', (_, stale) => {
    const violations = violationsOf(reads('a', 10, 0), reads('b', 210, 0), stale);
    expect(violations).toEqual([
      expect.objectContaining({ rule: 'stale-write-accepted', key: 'seat', at: 220 }),
    ]);
    const names = /token 1 \(holder a\).*after the.*token 2 \(holder b\)/;
    expect(violations[0]!.message).toMatch(names);
  });

  it('may take an older token on another record', () => {
    const onRow = held('nobody', 210, 230, { keys: ['row'] });
    expect(rulesOf(reads('b', 210, 0), ...onRow, reads('nobody', 220, 0, { key: 'row' }))).toEqual(
      [],
    );
  });

  it('compares with the highest token, not with the last', () => {
    const violations = violationsOf(reads('c', 410, 0), reads('a', 420, 0), reads('b', 430, 0));
    const rules = violations.map(({ rule }) => rule);
    expect(rules).toEqual(['stale-write-accepted', 'stale-write-accepted']);
  });

  it.each<[string, AccessEvent[]]>([
    [
      'a write over a number that no holder read',
      [reads('a', 10, 0), writes('a', 20, 1), reads('b', 210, 1), writes('b', 220, 1)],
    ],
    ['a write that leaves a number out', [reads('a', 10, 0), writes('a', 20, 2)]],
    [
      'a read of a number that was written over',
      [reads('a', 10, 0), writes('a', 20, 1), reads('b', 210, 0)],
    ],
  ])('must not lose an update: %s', (_, accesses) => {
    expect(rulesOf(...accesses)).toEqual(['lost-update']);
  });

  it('goes on from the number that broke the chain', () => {
    expect(violationsOf(reads('a', 10, 0), writes('a', 20, 5), writes('a', 30, 6))).toHaveLength(1);
    expect(violationsOf(reads('a', 10, 0), reads('a', 20, 5), writes('a', 30, 6))).toHaveLength(1);
  });

  it('is not judged by what it refused', () => {
    const refused = writes('a', 220, 7, REFUSED);
    expect(rulesOf(reads('b', 210, 0), refused, writes('b', 230, 1))).toEqual([]);
  });
});

describe('a holder inside its validity', () => {
  const wrong = ['legitimate-holder-refused'];
  const long = granted('c', 600, { token: 3 });
  const extended: CampaignEvent = { ...long, type: 'extended', at: 900, validUntil: 1_888 };

  it('is not refused, from its grant to its release or the end of its validity', () => {
    for (const refusable of [reads, writes]) {
      expect(rulesOf(refusable('a', 0, 1, REFUSED))).toEqual(wrong);
      expect(rulesOf(refusable('a', 99.9, 1, REFUSED))).toEqual(wrong);
      expect(rulesOf(refusable('a', 100, 1, REFUSED))).toEqual([]);
    }
    const later = writes('c', 1_589, 1, REFUSED);
    expect(brokenRules([long, later])).toEqual([]);
    expect(brokenRules([long, extended, later])).toEqual(wrong);
  });

  describe('where holders may overlap', () => {
    const older = granted('a', 0);
    const newer = granted('b', 700, { token: 2 });
    const votes = [...voted('a', -1, [0, 1, 2]), ...voted('b', 699, [2, 3, 4])];
    const forgotten = [...votes, clocksMoved(10, 20, [2])];
    const rules = (...events: CampaignEvent[]) =>
      brokenRules([...forgotten, ...events], { overlapMs: 500 });

    it('may be refused for a newer one beside it, and not the newer one for the older', () => {
      expect(rules(older, newer, writes('a', 800, 1, REFUSED))).toEqual([]);
      expect(rules(older, newer, writes('b', 800, 1, REFUSED))).toEqual(wrong);
    });

    it('is not refused when there is none beside it, also on another key', () => {
      const later = granted('b', 1_000, { token: 2 });
      expect(rules(older, later, writes('a', 900, 1, REFUSED))).toEqual(wrong);
      const elsewhere = granted('b', 700, { token: 2, keys: ['row'] });
      expect(rules(older, elsewhere, writes('a', 800, 1, REFUSED))).toEqual(wrong);
    });

    it('is not refused when the newer one was over before it began', () => {
      const before = held('b', -500, -400, { token: 2 });
      const found = rules(...before, older, writes('a', 100, 1, REFUSED));
      expect(found).toEqual(['decreasing-token', ...wrong]);
    });
  });
});

describe('an access', () => {
  it.each([
    ['of no one', reads('nobody', 50, 0)],
    ['with the token of another', reads('a', 50, 0, { token: 2 })],
    ['to a key that was not granted', reads('a', 50, 0, { key: 'row' })],
    ['before the grant', reads('a', -1, 0)],
    ['of no one on the unfenced view', reads('nobody', 50, 0, UNFENCED)],
  ])('%s belongs to no grant', (_, stray) => {
    expect(rulesOf(stray)).toEqual(['access-without-grant']);
  });
});

describe('measures of the records', () => {
  it('count what the unfenced view took, and forbid none of it', () => {
    const right = [reads('a', 10, 0, UNFENCED), reads('b', 210, 0, UNFENCED)];
    const stale = [writes('a', 230, 1, UNFENCED), reads('a', 240, 1, UNFENCED)];
    const last = writes('a', 250, 2, UNFENCED);
    const events = [...right, writes('b', 220, 1, UNFENCED), ...stale, last];
    expect(rulesOf(...events)).toEqual([]);
    const counted = { unfencedStaleWrites: 2, unfencedLostUpdates: 1 };
    expect(measure([...HOLDERS, ...events])).toMatchObject(counted);
  });

  it('count what the fenced view took and refused', () => {
    const refused = [writes('a', 220, 2, REFUSED), reads('a', 230, 2, REFUSED)];
    const events = [reads('a', 10, 0), writes('a', 20, 1), reads('b', 210, 1), ...refused];
    const fenced = { fencedRefusals: 2, fencedWritesAccepted: 2 };
    const unfenced = { unfencedStaleWrites: 0, unfencedLostUpdates: 0 };
    expect(measure([...HOLDERS, ...events])).toMatchObject({ ...fenced, ...unfenced });
  });
});
