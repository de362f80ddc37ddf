import { readFileSync } from 'node:fs';
import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { systemEnvironment } from '../../lib/core/system-environment.ts';

afterEach(() => {
  jest.restoreAllMocks();
});

describe('the identities of holders', () => {
  it('identities of holders are 126 random bits each, never repeated, with every letter in every place', () => {
    const holders = Array.from({ length: 20_000 }, () => systemEnvironment.random.holder());
    expect(new Set(holders.map((holder) => holder.slice(3))).size).toBe(holders.length);
    for (let place = 3; place < 24; place += 1) {
      const counts = new Map<string, number>();
      for (const holder of holders) {
        const letter = holder[place]!;
        counts.set(letter, (counts.get(letter) ?? 0) + 1);
      }
      expect(counts.size).toBe(64);
      // 312.5 are expected; 150 is more than nine standard deviations below.
      expect(Math.min(...counts.values())).toBeGreaterThan(150);
      expect([...counts.keys()].join('')).toMatch(/^[A-Za-z0-9_-]+$/);
    }
    expect(new Set(holders.map(({ length }) => length))).toEqual(new Set([24]));
  });

  it('identities of holders begin alike in one process, and differently in another one', async () => {
    const holders = Array.from({ length: 1_000 }, () => systemEnvironment.random.holder());
    const copy = '../../lib/core/system-environment.ts?copy';
    const other = (await import(copy)) as { systemEnvironment: typeof systemEnvironment };
    holders.push(other.systemEnvironment.random.holder());
    const marks = holders.map((holder) => holder.slice(0, 3));
    expect(new Set(marks.slice(0, -1)).size).toBe(1);
    expect(marks.at(-1)).not.toBe(marks[0]);
  });

  it('identities of holders depend on nothing that can be guessed: neither Math.random nor the clocks', () => {
    jest.spyOn(Math, 'random').mockReturnValue(0.5);
    jest.spyOn(Date, 'now').mockReturnValue(0);
    jest.spyOn(performance, 'now').mockReturnValue(0);
    const holders = Array.from({ length: 1_000 }, () => systemEnvironment.random.holder());
    expect(new Set(holders).size).toBe(1_000);
  });

  it('identities of holders come from node:crypto, in the only place that makes random values', () => {
    const source = readFileSync('lib/core/system-environment.ts', 'utf8');
    expect(source).toContain("import { randomFillSync } from 'node:crypto';");
    const maker = source.slice(source.indexOf('function holder()'));
    expect(maker.slice(0, maker.indexOf('\n}'))).toContain('randomFillSync(pool)');
  });
});
