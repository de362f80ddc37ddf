import { describe, expect, it } from '@jest/globals';
import { compileKeyTemplate } from '../../lib/nest/made-keys.ts';

const keyOf = (template: string, ...args: unknown[]) =>
  compileKeyTemplate(template, 'Seats.book')(args);

describe('key templates', () => {
  it.each([
    ['report', [], 'report'],
    ['seat:{0}', ['12A'], 'seat:12A'],
    ['{1}:{0}:{1}', ['a', 7], '7:a:7'],
    ['order:{0.customer.id}', [{ customer: { id: 3n } }], 'order:3'],
    ['item:{0.lines.1.sku}', [{ lines: [{}, { sku: 'x' }] }], 'item:x'],
    ['flag:{0}', [false], 'flag:false'],
    ['zero:{0}', [0], 'zero:0'],
  ])('%s of %j is %s', (template, args, key) => {
    expect(keyOf(template, ...args)).toBe(key);
  });

  it('reads properties that a class computes', () => {
    class Order {
      get id(): string {
        return '42';
      }
    }
    expect(keyOf('order:{0.id}', new Order())).toBe('order:42');
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
    ['seat:{0.constructor}', [{}]],
    ['seat:{0.constructor.prototype}', ['a']],
    ['seat:{0.toString}', [{}]],
  ])('never makes a key of %s with %p', (template, args) => {
    expect(() => keyOf(template, ...args)).toThrow(/^Seats\.book: .*The method was not run\.$/);
  });

  it('name the method where a getter throws, and keep what it threw', () => {
    const cause = new TypeError('not loaded');
    const order = {
      get id(): string {
        throw cause;
      },
    };
    expect(() => keyOf('order:{0.id}', order)).toThrow(
      expect.objectContaining({
        code: 'FENCED_USAGE',
        message:
          "Seats.book: {0.id} of the key 'order:{0.id}' threw TypeError: not loaded. The method was not run.",
        cause,
      }),
    );
  });
});
