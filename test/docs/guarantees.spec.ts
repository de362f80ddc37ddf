import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { SCHEDULES as FAILOVERS } from '../../campaign/failovers/plan.ts';
import { CONTROLS } from '../../campaign/faults/controls.ts';
import { SCHEDULES } from '../../campaign/faults/schedules/index.ts';
import { MUTANTS } from '../simulation/mutants/mutants.ts';

const [guarantees, trackRecord] = ['guarantees', 'track-record'].map((name) =>
  readFileSync(`docs/internals/${name}.md`, 'utf8'),
) as [string, string];
const page = guarantees + trackRecord;

/** `path`: "name", of the list items. */
const namedTests = [...page.matchAll(/^- `((?:test|campaign)\/[^`]+)`: "(.+)"$/gm)].map(
  ([, file, name]) => [file!, name!] as const,
);
const paths = [
  ...new Set([...page.matchAll(/\b(?:test|campaign)\/[\w./-]+\.ts\b/g)].map(([path]) => path)),
];
const mutants = [...page.matchAll(/^(?:- mutants:|\|.*\bmutant) (?:[^\n]|\n {2})*/gm)].flatMap(
  ([items]) => [...items.matchAll(/`([a-z]+(?:-[a-z]+)+)`/g)].map(([, name]) => name!),
);

/** The text of a file with every string as it reads, whichever quotes it has. */
function textOf(file: string): string {
  return readFileSync(file, 'utf8').replaceAll("\\'", "'");
}

describe('docs/internals/guarantees.md', () => {
  it('names no file that is not there', () => {
    expect(paths.filter((path) => !existsSync(path))).toEqual([]);
  });

  it.each(namedTests)('names a test of %s: %s', (file, name) => {
    const text = textOf(file);
    const starts = [`'${name}`, `"${name}`, `\`${name}`];
    expect(starts.filter((start) => text.includes(start))).not.toEqual([]);
  });

  it('names no mutant that is not there', () => {
    const names = MUTANTS.map(({ name }) => name);
    expect(mutants.filter((name) => !names.includes(name))).toEqual([]);
  });

  it('names no schedule, no failovers and no control that is not there', () => {
    const listed = (what: string, item: RegExp): string[] =>
      [...page.matchAll(new RegExp(`^- ${what}: ((?:.|\\n {2})+)$`, 'gm'))].flatMap(([, items]) =>
        [...items!.matchAll(item)].map(([, name]) => name!),
      );
    const schedules = listed('(?:schedules|the exception, measured)', /"([^"]+)"/g);
    const failovers = listed('failovers', /"([^"]+)"/g);
    const controls = listed('controls', /`([^`]+)`/g);
    const has = (list: readonly { readonly name: string }[]) => (name: string) =>
      list.some((each) => each.name === name);
    expect(schedules.filter((name) => !has(SCHEDULES)(name))).toEqual([]);
    expect(failovers.filter((name) => !has(FAILOVERS)(name))).toEqual([]);
    expect(controls.filter((name) => !has(CONTROLS)(name))).toEqual([]);
  });

  it('names every variant that the model knows as a flag of the model', () => {
    const model = ['fenced-lock', 'counters']
      .map((name) => textOf(`docs/internals/spec/${name}.pml`))
      .join('\n');
    const flags = [...page.matchAll(/`([A-Z]+(?:_[A-Z]+)+)`/g)].map(([, flag]) => flag!);
    expect(
      flags.filter(
        (flag) => !model.includes(`#ifdef ${flag}\n`) && !model.includes(`#ifndef ${flag}\n`),
      ),
    ).toEqual([]);
  });

  it('has a section for every promise of its table, in its words', () => {
    const [, table = ''] = page.split('## The promises');
    const promises = [...table.split('\n## ')[0]!.matchAll(/^\| \*\*(.+?)\*\*/gm)].map(
      ([, text]) => text!,
    );
    expect(promises.length).toBeGreaterThan(5);
    const headings = [...page.matchAll(/^## G\d+\. (.+)$/gm)].map(([, text]) => text!);
    expect(headings).toEqual(promises);
  });
});
