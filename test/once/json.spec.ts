import { describe, expect, it } from '@jest/globals';
import { exactJson, fingerprintOf } from '../../lib/once/json.ts';

class Money {
  readonly #cents: number;
  constructor(cents: number) {
    this.#cents = cents;
  }
  get cents() {
    return this.#cents;
  }
}

class Order {
  constructor(
    readonly id: string,
    readonly cents?: number,
  ) {}
}

const inItself: Record<string, unknown> = {};
inItself.again = [inItself];

describe('the JSON of a result', () => {
  it.each([
    null,
    'text \ud800 \u2028 "\\ \0',
    -1.5e300,
    [],
    [[1], { a: null }],
    { b: 1, a: { 10: 'x', 2: [] }, __proto__: null },
    JSON.parse('{"__proto__": 1}'),
  ])('is that of JSON, and gives back what went in: %j', (value) => {
    expect(exactJson(value)).toBe(JSON.stringify(value));
  });

  it('leaves out a property that is undefined, as JSON does', () => {
    expect(exactJson({ a: undefined, b: 1 })).toBe('{"b":1}');
  });

  it.each([
    [new Date(0), 'an object of the class Date'],
    [{ a: [1n] }, '.a[0] is 1'],
    [[undefined], '[0] is undefined'],
    // oxlint-disable-next-line no-sparse-arrays
    [[1, , 2], '[1] is undefined'],
    [{ a: NaN }, '.a is NaN'],
    [{ a: { b: () => 1 } }, '.a.b is a function'],
    [Symbol('a'), ' is a symbol'],
    [new Map([[1, 2]]), 'the class Map'],
    [Buffer.from('a'), 'the class Buffer'],
    [new Order('1'), 'the class Order'],
    [{ toJSON: () => 1 }, '.toJSON is a function'],
    [inItself, '.again[0] is an object that is in itself'],
  ])('is refused where it would give back something else: %p', (value, what) => {
    expect(() => exactJson(value)).toThrow(what);
  });
});

describe('the fingerprint of a payload', () => {
  it.each([
    [
      { a: 1, b: { c: 2, d: 3 } },
      { b: { d: 3, c: 2 }, a: 1 },
    ],
    [{ a: 1 }, { a: 1, b: undefined }],
    [new Order('1', 2), { cents: 2, id: '1' }],
    [new Date(5), new Date(5)],
    [Buffer.from('a'), Buffer.from('a')],
    [1n, 1n],
  ])('is the same for what is equal: %p', (left, right) => {
    expect(fingerprintOf(left)).toBe(fingerprintOf(right));
  });

  it('is another one for what differs', () => {
    const values = [1, '1', 1n, [1], { 1: 1 }, true, null, 'null', NaN, [], {}, '', [[]], [1, 2]];
    const others = [[[1], 2], [[1, 2]], { a: '1' }, { a: 1 }, { a: { b: 1 } }, { ab: 1 }, '["1"]'];
    const prints = [...values, ...others, new Date(5), new Date(6)].map(fingerprintOf);
    expect(new Set(prints).size).toBe(prints.length);
  });

  it.each([
    [{ a: () => 1 }, '.a is a function'],
    [[Symbol('a')], '[0] is a symbol'],
    [new Map(), 'the class Map without properties'],
    [[new Money(1)], '[0] is an object of the class Money without properties'],
    [Promise.resolve(), 'the class Promise'],
    [inItself, 'in itself'],
  ])('is refused where there is nothing to compare: %p', (value, what) => {
    expect(() => fingerprintOf(value)).toThrow(what);
  });

  it('is refused for what is nested deeper than a stack is high', () => {
    let payload: unknown = [];
    for (let level = 1; level < 20_000; level += 1) payload = [payload];
    expect(() => fingerprintOf(payload)).toThrow('nested more than 500 levels deep');
  });
});
