import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { mergeHistory } from './run-facts.ts';
import { granted, mark, stalled } from './written-events.ts';

describe('merged files', () => {
  it('stand in order of time, equal moments in order of the files', () => {
    const [a1, a2] = [granted('a', 1), granted('a', 5)];
    const [b1, b2] = [granted('b', 1), granted('b', 3)];
    expect(mergeHistory([[a1, a2], [b1, b2], []])).toEqual([a1, b1, b2, a2]);
  });

  it('have a stall where it was written down: at its end', () => {
    const [before, stall, after] = [granted('a', 9), stalled('process-a', 2, 10), granted('a', 11)];
    const fault = mark(5, { mark: 'note', text: 'frozen' });
    expect(mergeHistory([[before, stall, after], [fault]])).toEqual([fault, before, stall, after]);
  });

  it('keep the order of each file, whatever the times say, and are in order when each file is', () => {
    const anyFile = fc.array(fc.nat({ max: 30 }), { maxLength: 12 });
    fc.assert(
      fc.property(fc.array(anyFile, { maxLength: 4 }), (files) => {
        const written = files.map((times, file) =>
          times.map((at, index) => granted(`${file}`, at, { token: index })),
        );
        const merged = mergeHistory(written);
        for (const [file, events] of written.entries()) {
          expect(merged.filter((event) => 'holder' in event && event.holder === `${file}`)).toEqual(
            events,
          );
        }
        expect(merged).toHaveLength(files.flat().length);
        const sorted = written.map((events) => events.sort((a, b) => a.at - b.at));
        const times = mergeHistory(sorted).map((event) => 'at' in event && event.at);
        expect(times).toEqual(files.flat().sort((a, b) => a - b));
      }),
    );
  });
});
