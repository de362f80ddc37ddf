import { describe, expect, it } from '@jest/globals';
import { emitDeclarations } from './architecture/declarations.ts';
import {
  importDirection,
  injectedTimeAndChance,
  installedPackagesOnly,
  namedExportsOnly,
  noCycles,
  roomsInAStack,
  smallClasses,
  smallFolders,
  tellingNames,
} from './architecture/rules.ts';
import { readSources } from './architecture/source-file.ts';

describe('the library', () => {
  const files = readSources('lib');

  it.each([
    ['has layers that import in one direction', importDirection],
    ['has rooms of the core and of the fences in strict stacks', roomsInAStack],
    ['takes time and chance in the core from its environment', injectedTimeAndChance],
    ['exports nothing as default', namedExportsOnly],
    ['has names of files that say what is in them', tellingNames],
    ['has no modules that load each other', noCycles],
    ['has at most twelve files in a folder', smallFolders],
    ['has at most twelve fields in a class', smallClasses],
  ])('%s', (_, rule) => {
    expect(files.length).toBeGreaterThan(50);
    expect(rule(files)).toEqual([]);
  });

  it('emits declarations that name no package which a user may lack', async () => {
    const declarations = await emitDeclarations();
    expect(declarations.map(({ path }) => path)).toContain('core/lock.d.ts');
    expect(installedPackagesOnly(declarations)).toEqual([]);
  }, 60_000);
});
