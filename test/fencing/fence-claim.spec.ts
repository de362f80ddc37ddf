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
    2 ** 53,
    '01',
    '1e3',
    '',
    ' 1',
    '9223372036854775808',
    0n,
    [5],
    { toString: () => '5' },
    Object.create(null),
    null,
    undefined,
  ])('refuses %p as the value of a token', (value) => {
    expect(thrown(() => fenceClaims({ value: value as never, keys: ['a'], holder: 'h' }))).toEqual(
      usage(/positive integer/),
    );
  });

  it.each([1, 2 ** 53 - 1, 2n ** 53n + 1n, '9223372036854775807'])(
    'accepts %p as the value of a token',
    (value) => {
      expect(fenceClaims({ value, keys: ['a'], holder: 'h' })[0]?.token).toBe(String(value));
    },
  );

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

  it.each(['', 'a\0b', 'x'.repeat(2_501), '\uD800', 5, null, {}])('refuses %p as a key', (key) => {
    const keys = ['good', key as never];
    expect(thrown(() => fenceClaims({ value: 1, keys, holder: 'h' }))).toEqual(
      usage(/A fence key must be .* Nothing was written/),
    );
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
    expect(() => normalizeKeys(more)).toThrow(/1 to 1000/);
    expect(fenceClaims(token(most))).toHaveLength(1_000);
    expect(thrown(() => fenceClaims(token(more)))).toEqual(tooMany);
    expect(thrown(() => fenceClaims(token([]), more))).toEqual(tooMany);
    expect(thrown(() => parseFencingTokenHeader('1;h', more))).toEqual(tooMany);
  });

  it.each(['', undefined, 'x'.repeat(256), 'line\nbreak', 'é'])(
    'refuses %p as a holder',
    (holder) => {
      expect(thrown(() => fenceClaims({ value: 1, keys: ['a'], holder: holder as never }))).toEqual(
        usage(/holder/),
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
