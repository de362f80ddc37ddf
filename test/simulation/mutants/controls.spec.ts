import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { parseSync } from '@swc/core';
import { CONTROLS } from '../../../campaign/faults/controls.ts';
import { MUTANTS } from './mutants.ts';

it.each([...CONTROLS, ...MUTANTS])(
  '$name changes code that is there, exactly once',
  ({ edits }) => {
    const texts = new Map(edits.map(({ file }) => [file, readFileSync(file, 'utf8')]));
    for (const { file, find, replace } of edits) {
      const parts = texts.get(file)!.split(find);
      expect([file, parts.length - 1]).toEqual([file, 1]);
      texts.set(file, parts.join(replace));
    }
    for (const text of texts.values())
      expect(() => parseSync(text, { syntax: 'typescript', decorators: true })).not.toThrow();
  },
);
