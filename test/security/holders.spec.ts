import { describe, expect, it } from '@jest/globals';
import { Redlock } from '../../lib/core/redlock.ts';
import { systemEnvironment } from '../../lib/core/system-environment.ts';
import { createMemoryNodes } from '../../lib/testing/index.ts';

const { random } = systemEnvironment;

describe('the identities of holders', () => {
  it('identities of holders have 96 random bits each, never repeated, with every letter in every place', () => {
    const holders = Array.from({ length: 20_000 }, () => random.holder('service1'));
    expect(new Set(holders.map((holder) => holder.slice(8))).size).toBe(holders.length);
    for (let place = 8; place < 24; place += 1) {
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

  it('identities of holders tell two services of one process apart', async () => {
    const nodes = createMemoryNodes(1);
    const others = createMemoryNodes(nodes.map(({ server }) => server));
    const [one, other] = [new Redlock(nodes), new Redlock(others)];
    for (const service of [one, other]) service.open();
    const marks: string[] = [];
    for (const service of [one, one, other])
      await service.withLock('a', ({ token }) => void marks.push(token.holder.slice(0, 8)));
    expect([marks[0] === marks[1], marks[0] === marks[2]]).toEqual([true, false]);
    await Promise.all([one.close(), other.close()]);
  });
});
