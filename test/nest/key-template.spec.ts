import { describe, expect, it } from '@jest/globals';
import { compileFencedKey } from '../../lib/nest/made-keys.ts';

const keyOf = (template: string, ...args: unknown[]) =>
  compileFencedKey(template, 'Seats.book')(args)[0];
const order = {
  get id(): string {
    return '42';
  },
  get customer(): object {
    throw new TypeError('not loaded');
  },
};

describe('key templates', () => {
  it.each([
    ['report', [], 'report'],
    ['seat:{0}', ['12A'], 'seat:12A'],
    ['{1}:{0}:{1}', ['a', 7], '7:a:7'],
    ['order:{0.customer.id}', [{ customer: { id: 3n } }], 'order:3'],
    ['item:{0.lines.1.sku}', [{ lines: [{}, { sku: 'x' }] }], 'item:x'],
    ['order:{0.id}', [order], 'order:42'],
    ['flag:{0}', [false], 'flag:false'],
    ['zero:{0}', [0], 'zero:0'],
    ['$tenant:{0.$id}$', [{ $id: 'a' }], '$tenant:a$'],
  ])('%s is filled in', (template, args, key) => {
    expect(keyOf(template, ...args)).toBe(key);
  });

  it.each([
    ['seat:{1}', ['only one']],
    ['seat:{0.id.deep}', [undefined]],
    ['seat:{0.id.deep}', [{ id: null }]],
    ['seat:{0}', ['']],
    ['seat:{0}', [{}]],
    ['seat:{0}', [['a']]],
    ['seat:{0}', [Number.POSITIVE_INFINITY]],
    ['seat:{0}', [Symbol('s')]],
    ['seat:{0.__proto__}', [{}]],
    ['seat:{0.constructor.prototype}', ['a']],
    ['seat:{0.toString}', [{}]],
    ['seat:{0.customer}', [order]],
  ])('never make a key of %s with %p, and name the method', (template, args) => {
    expect(() => keyOf(template, ...args)).toThrow(/^Seats\.book: .*The method was not run\.$/);
  });
});
