import { describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import { normalizeKeys } from '../../lib/core/options/lock-keys.ts';
import { fenceClaims } from '../../lib/fencing/fence-claim.ts';
import { parseFencingTokenHeader } from '../../lib/fencing/fencing-token-header.ts';
import { fenceSqlOf, fenceTableName } from '../../lib/fencing/sql/dialect.ts';
import { renderStatement } from '../../lib/fencing/sql/sql-executor.ts';

const usage = (text: RegExp): object =>
  expect.objectContaining({ code: 'FENCED_USAGE', message: expect.stringMatching(text) });
const thrown = (run: () => unknown): unknown => {
  try {
    return run();
  } catch (error) {
    return error;
  }
};

const refusing = (): never => {
  throw new Error('not as text');
};

describe('fenceClaims', () => {
  it('returns the keys of the token in the order of their bytes, without duplicates', () => {
    const token = new FencingToken(7, ['b', 'a', 'é', 'b', 'Z'], 'ana');
    expect(fenceClaims(token).map(({ key }) => key)).toEqual(['Z', 'a', 'b', 'é']);
    expect(fenceClaims(token, ['b'])).toEqual([{ key: 'b', token: '7', holder: 'ana' }]);
  });

  it.each([undefined, null, 34, '34', {}])('refuses %p as a token', (token) => {
    expect(thrown(() => fenceClaims(token as never))).toEqual(usage(/fencing token is needed/));
  });

  it.each([
    0,
    -1,
    1.5,
    Number.NaN,
    2 ** 53,
    '01',
    '1e3',
    '-1',
    '',
    ' 1',
    '9223372036854775808',
    0n,
    true,
    [5],
    { toString: () => '5' },
    { toString: refusing },
    Object.create(null),
    Symbol('5'),
    null,
    undefined,
  ])('refuses %p as the value of a token', (value) => {
    expect(thrown(() => fenceClaims({ value: value as never, keys: ['a'], holder: 'h' }))).toEqual(
      usage(/positive integer .* Pass the token as the lock gave it, or as it was received\. Noth/),
    );
  });

  it.each([1, 2 ** 53 - 1, 2n ** 53n + 1n, '9223372036854775807'])(
    'accepts %p as the value of a token',
    (value) => {
      expect(fenceClaims({ value, keys: ['a'], holder: 'h' })[0]?.token).toBe(String(value));
    },
  );

  it('asks for the token where it gets the whole lock', () => {
    const lock = { keys: ['a'], token: { value: 1, keys: ['a'], holder: 'me' } };
    expect(thrown(() => fenceClaims(lock as never))).toEqual(
      usage(/This is a lock: pass .*lock\.token/),
    );
    expect(thrown(() => fenceClaims(5 as never))).toEqual(usage(/it is a number/));
  });

  it('shows no more than the beginning of a long value', () => {
    const value = 'x'.repeat(5_000);
    expect(String(thrown(() => fenceClaims({ value, keys: ['a'], holder: 'h' })))).toMatch(
      /not x{40}…\. /,
    );
  });

  it('refuses a key that the token was not granted for', () => {
    expect(thrown(() => fenceClaims(new FencingToken(1, ['seat:1'], 'h'), ['seat:2']))).toEqual(
      usage(/granted for "seat:1", not for "seat:2"/),
    );
  });

  it.each(['seat', new Set(['seat']), { 0: 'seat', length: 1 }, 5])(
    'refuses %p where an array of keys belongs',
    (keys) => {
      const received = { value: '5', keys: [], holder: 'h' };
      expect(thrown(() => fenceClaims(received, keys as never))).toEqual(usage(/array of strings/));
      const token = { value: '5', keys: keys as never, holder: 'h' };
      expect(thrown(() => fenceClaims(token))).toEqual(usage(/array of strings/));
    },
  );

  it('asks for keys when the token has none', () => {
    const received = { value: '5', keys: [], holder: 'h' };
    expect(thrown(() => fenceClaims(received))).toEqual(usage(/name them in the call/));
    expect(fenceClaims(received, ['seat:1'])).toEqual([{ key: 'seat:1', token: '5', holder: 'h' }]);
  });

  it('refuses keys that are one string, whose letters would be the keys', () => {
    const received = { value: '5', keys: [], holder: 'h' };
    expect(thrown(() => fenceClaims(received, 'seat' as never))).toEqual(usage(/array/));
  });

  it.each([
    ['', '""'],
    ['a\0b', '"a\\u0000b"'],
    ['x'.repeat(2_501), `"${'x'.repeat(100)}…"`],
    ['\uD800', '"\\ud800"'],
    [5, 'a number'],
  ])('refuses %p as a key, and names it', (key, shown) => {
    const keys = ['good', key as never];
    expect(thrown(() => fenceClaims({ value: 1, keys, holder: 'h' }))).toMatchObject({
      code: 'FENCED_USAGE',
      message: `A fence key must be a non-empty, well-formed string of at most 2500 bytes without NUL, not ${shown}. Nothing was written.`,
    });
  });

  it('takes no list with a hole for the resource of a received token', () => {
    expect(parseFencingTokenHeader('1;h', Object.assign([], { 1: 'a' }))).toBeUndefined();
  });

  it('takes as many keys as a lock has, and refuses more', () => {
    const numbered = (count: number) => Array.from({ length: count }, (_none, at) => `k${at}`);
    const [most, more] = [numbered(1_000), numbered(1_001)];
    const token = (keys: readonly string[]) => ({ value: 1, keys, holder: 'h' });
    const tooMany = usage(/has at most 1000 keys, as a lock has, not 1001\. .*Nothing was written/);
    expect(normalizeKeys(most)).toHaveLength(1_000);
    expect(() => normalizeKeys(more)).toThrow(/at most 1000/);
    expect(fenceClaims(token(most))).toHaveLength(1_000);
    expect(thrown(() => fenceClaims(token(more)))).toEqual(tooMany);
    expect(thrown(() => fenceClaims(token([]), more))).toEqual(tooMany);
    expect(thrown(() => parseFencingTokenHeader('1;h', more))).toEqual(tooMany);
  });

  it.each([null, 5n, {}])(
    'refuses %p among the keys of a token, also where others are named',
    (key) => {
      const token = { value: 1, keys: ['a', key as never], holder: 'h' };
      expect(thrown(() => fenceClaims(token, ['b']))).toEqual(usage(/A fence key must be/));
    },
  );

  it.each(['', undefined, 'x'.repeat(256), 'line\nbreak', 'é'])(
    'refuses %p as a holder',
    (holder) => {
      expect(thrown(() => fenceClaims({ value: 1, keys: ['a'], holder: holder as never }))).toEqual(
        usage(/holder .* Pass the token as the lock gave it, or as it was received\. Nothing/),
      );
    },
  );
});

describe('the SQL of a fence', () => {
  it.each(['redlock_fence', 'app.fence2', '_f'])('accepts the table %s', (table) => {
    expect(fenceTableName(table)).toBe(table);
  });

  it.each(['', 'a b', 'a;b', '"a"', 'a.b.c', '1a', 'a-b'])('refuses the table %p', (table) => {
    expect(thrown(() => fenceTableName(table))).toMatchObject({
      code: 'REDLOCK_CONFIG',
      option: 'table',
    });
  });

  it('names the dialects in place of one that it does not speak', () => {
    expect(thrown(() => fenceSqlOf('oracle' as never))).toEqual(
      usage(/speaks postgresql, .*, not 'oracle'\. Give one of them as the option dialect/),
    );
  });

  it('repeats parameters for question marks in the order of their use', () => {
    const statement = { sql: 'a $2 b $1 c $2', parameters: [1, 2] };
    expect(renderStatement(statement, 'question-mark')).toEqual({
      sql: 'a ? b ? c ?',
      parameters: [2, 1, 2],
    });
    expect(renderStatement(statement, 'numbered')).toBe(statement);
  });
});
