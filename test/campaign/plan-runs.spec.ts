import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { parseSync } from '@swc/core';
import { CONTROLS } from './controls.ts';
import { planRuns } from './plan-runs.ts';
import { SCHEDULES } from './schedules/index.ts';

const all = { quick: false, only: undefined, firstSeed: 7, seeds: 1, controls: true };

describe('the plan of a fault campaign', () => {
  it('has every schedule once for each seed, and every control once', () => {
    const runs = planRuns({ ...all, seeds: 2 });
    const ordinary = runs.filter(({ control }) => control === undefined);
    expect(ordinary).toHaveLength(2 * SCHEDULES.length);
    expect(new Set(ordinary.map(({ seed }) => seed))).toEqual(new Set([7, 8]));
    expect(runs.length - ordinary.length).toBe(CONTROLS.length);
  });

  it('has a selection for every change, with controls among it', () => {
    const runs = planRuns({ ...all, quick: true });
    expect(runs.length).toBeGreaterThan(10);
    expect(runs.length).toBeLessThan(SCHEDULES.length);
    expect(runs.some(({ control }) => control !== undefined)).toBe(true);
  });

  it('can be narrowed by name, also to nothing', () => {
    const names = planRuns({ ...all, only: 'majority frozen' }).map(
      ({ schedule }) => schedule.name,
    );
    expect(names).toEqual(['majority frozen']);
    expect(planRuns({ ...all, only: 'no such thing' })).toEqual([]);
  });

  it('names every schedule and every control once', () => {
    for (const list of [SCHEDULES, CONTROLS]) {
      const names = list.map(({ name }) => name);
      expect(names).toEqual([...new Set(names)]);
    }
  });

  it.each(CONTROLS.map((control) => [control.name, control] as const))(
    'control %s changes code that is there, exactly once, and leaves code',
    (_name, { edits }) => {
      const texts = new Map(edits.map(({ file }) => [file, readFileSync(file, 'utf8')]));
      for (const { file, find, replace } of edits) {
        const parts = texts.get(file)!.split(find);
        expect([file, parts.length - 1]).toEqual([file, 1]);
        texts.set(file, parts.join(replace));
      }
      for (const text of texts.values()) {
        expect(() => parseSync(text, { syntax: 'typescript', decorators: true })).not.toThrow();
      }
    },
  );
});
