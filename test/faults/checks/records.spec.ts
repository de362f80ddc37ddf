import { describe, expect, it } from '@jest/globals';
import type { AccessEvent, CampaignEvent } from '../campaign-event.ts';
import { access, brokenRules, granted, held, judge, measure } from './written-events.ts';

const UNFENCED = { view: 'unfenced' } as const;
const REFUSED = { accepted: false } as const;

/** a with token 1 from 0 to 100, b with token 2 from 200 to 300; both still reach the resource later. */
const TWO_HOLDERS = [...held('a', 0, 100), ...held('b', 200, 300, { token: 2 })];
const B = { token: 2 } as const;

function rulesOf(events: readonly CampaignEvent[]): string[] {
  return brokenRules([...TWO_HOLDERS, ...events]);
}

describe('the fenced view', () => {
  it('is right when numbers follow from each other and tokens grow', () => {
    expect(
      rulesOf([
        access('read', 'a', 10, 7),
        access('write', 'a', 20, 8),
        access('write', 'a', 30, 9),
        access('read', 'b', 210, 9, B),
        access('write', 'a', 215, 10, REFUSED),
        access('write', 'b', 220, 10, B),
      ]),
    ).toEqual([]);
  });

  it.each<[string, AccessEvent]>([
    ['write', access('write', 'a', 220, 1)],
    ['read, which claims the record', access('read', 'a', 220, 0)],
  ])('must not take a %s of an older token', (_, stale) => {
    const events = [access('read', 'a', 10, 0), access('read', 'b', 210, 0, B), stale];
    expect(rulesOf(events)).toEqual(['stale-write-accepted']);
    const [violation] = judge([...TWO_HOLDERS, ...events]).violations;
    expect(violation).toMatchObject({ key: 'seat', at: 220 });
    expect(violation!.message).toMatch(/token 1 \(holder a\).*after the.*token 2 \(holder b\)/);
  });

  it('may take an older token on another record', () => {
    const onRow = { keys: ['row'] };
    expect(
      rulesOf([
        access('read', 'b', 210, 0, B),
        ...held('c', 210, 230, onRow),
        access('read', 'c', 220, 0, { key: 'row' }),
      ]),
    ).toEqual([]);
  });

  it('compares with the highest token, not with the last', () => {
    expect(
      rulesOf([
        ...held('c', 400, 500, { token: 3 }),
        access('read', 'c', 410, 0, { token: 3 }),
        access('read', 'a', 420, 0),
        access('read', 'b', 430, 0, B),
      ]),
    ).toEqual(['stale-write-accepted']);
    expect(
      judge([
        ...TWO_HOLDERS,
        ...held('c', 400, 500, { token: 3 }),
        access('read', 'c', 410, 0, { token: 3 }),
        access('read', 'a', 420, 0),
        access('read', 'b', 430, 0, B),
      ]).violations,
    ).toHaveLength(2);
  });

  it.each<[string, AccessEvent[]]>([
    [
      'a write over a number that nobody read',
      [
        access('read', 'a', 10, 0),
        access('write', 'a', 20, 1),
        access('read', 'b', 210, 1, B),
        access('write', 'b', 220, 1, B),
      ],
    ],
    ['a write that leaves a number out', [access('read', 'a', 10, 0), access('write', 'a', 20, 2)]],
    [
      'a read of a number that was written over',
      [access('read', 'a', 10, 0), access('write', 'a', 20, 1), access('read', 'b', 210, 0, B)],
    ],
  ])('must not lose an update: %s', (_, accesses) => {
    expect(rulesOf(accesses)).toEqual(['lost-update']);
  });

  it('goes on from the number that broke the chain', () => {
    const events = [
      access('read', 'a', 10, 0),
      access('write', 'a', 20, 5),
      access('write', 'a', 30, 6),
    ];
    expect(judge([...TWO_HOLDERS, ...events]).violations).toHaveLength(1);
    const afterRead = [
      access('read', 'a', 10, 0),
      access('read', 'a', 20, 5),
      access('write', 'a', 30, 6),
    ];
    expect(judge([...TWO_HOLDERS, ...afterRead]).violations).toHaveLength(1);
  });

  it('is not judged by what it refused', () => {
    expect(
      rulesOf([
        access('read', 'b', 210, 0, B),
        access('write', 'a', 220, 7, REFUSED),
        access('write', 'b', 230, 1, B),
      ]),
    ).toEqual([]);
  });
});

describe('a holder inside its validity', () => {
  it.each<[string, number, CampaignEvent[], string[]]>([
    ['at its grant', 0, [], ['legitimate-holder-refused']],
    ['before its release', 99.9, [], ['legitimate-holder-refused']],
    ['from its release on', 100, [], []],
    [
      'after it extended its lock',
      1_500,
      [
        granted('c', 600, { token: 3 }),
        { type: 'extended', process: 'process-c', holder: 'c', at: 900, validUntil: 1_888 },
      ],
      ['legitimate-holder-refused'],
    ],
    ['after its validity', 1_589, [granted('c', 600, { token: 3 })], []],
  ])('is not refused: %s', (_, at, more, rules) => {
    const holder = more.length > 0 ? 'c' : 'a';
    const token = more.length > 0 ? 3 : 1;
    expect(rulesOf([...more, access('write', holder, at, 1, { ...REFUSED, token })])).toEqual(
      rules,
    );
  });

  it('is not refused, and the same for its claim', () => {
    expect(rulesOf([access('read', 'a', 50, 0, REFUSED)])).toEqual(['legitimate-holder-refused']);
  });

  describe('where holders may overlap', () => {
    const overlap = { overlapMs: 500 };
    const older = granted('a', 0, { token: 1 });
    const newer = granted('b', 700, { token: 2 });
    const refused = (holder: string, token: number, at: number) =>
      access('write', holder, at, 1, { ...REFUSED, token });

    it('may be refused for a newer one beside it', () => {
      expect(brokenRules([older, newer, refused('a', 1, 800)], overlap)).toEqual([]);
    });

    it('but not the newer one for the older', () => {
      expect(brokenRules([older, newer, refused('b', 2, 800)], overlap)).toEqual([
        'legitimate-holder-refused',
      ]);
    });

    it('nor when there is none beside it', () => {
      const later = granted('b', 1_000, { token: 2 });
      expect(brokenRules([older, later, refused('a', 1, 900)], overlap)).toEqual([
        'legitimate-holder-refused',
      ]);
    });

    it('nor when the newer one was over before it began', () => {
      const before = held('b', -500, -400, { token: 2 });
      expect(brokenRules([...before, older, refused('a', 1, 100)], overlap)).toEqual([
        'decreasing-token',
        'legitimate-holder-refused',
      ]);
    });

    it('nor for one on another key', () => {
      const elsewhere = granted('b', 700, { token: 2, keys: ['row'] });
      expect(brokenRules([older, elsewhere, refused('a', 1, 800)], overlap)).toEqual([
        'legitimate-holder-refused',
      ]);
    });
  });
});

describe('an access', () => {
  it.each<[string, AccessEvent]>([
    ['of nobody', access('read', 'nobody', 50, 0)],
    ['with the token of another', access('read', 'a', 50, 0, B)],
    ['to a key that was not granted', access('read', 'a', 50, 0, { key: 'row' })],
    ['before the grant', access('read', 'a', -1, 0)],
    ['of nobody on the unfenced view', access('read', 'nobody', 50, 0, UNFENCED)],
  ])('%s belongs to no grant', (_, stray) => {
    expect(rulesOf([stray])).toEqual(['access-without-grant']);
  });
});

describe('measures of the records', () => {
  it('count what the unfenced view took, and forbid none of it', () => {
    const events = [
      access('read', 'a', 10, 0, UNFENCED),
      access('read', 'b', 210, 0, { ...B, ...UNFENCED }),
      access('write', 'b', 220, 1, { ...B, ...UNFENCED }),
      access('write', 'a', 230, 1, UNFENCED),
      access('read', 'a', 240, 1, UNFENCED),
      access('write', 'a', 250, 2, UNFENCED),
    ];
    expect(rulesOf(events)).toEqual([]);
    expect(measure([...TWO_HOLDERS, ...events])).toMatchObject({
      unfencedStaleWrites: 2,
      unfencedLostUpdates: 1,
    });
  });

  it('count what the fenced view took and refused', () => {
    const events = [
      access('read', 'a', 10, 0),
      access('write', 'a', 20, 1),
      access('read', 'b', 210, 1, B),
      access('write', 'a', 220, 2, REFUSED),
      access('read', 'a', 230, 2, REFUSED),
    ];
    expect(measure([...TWO_HOLDERS, ...events])).toMatchObject({
      fencedRefusals: 2,
      fencedWritesAccepted: 2,
      unfencedStaleWrites: 0,
      unfencedLostUpdates: 0,
    });
  });
});
