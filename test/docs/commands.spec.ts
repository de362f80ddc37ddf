import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { blocksOf, PAGES } from './pages.ts';

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};

/** Commands in the blocks of the pages, without their comments. */
const COMMANDS = PAGES.flatMap(blocksOf)
  .filter(({ language }) => language === 'sh')
  .flatMap(({ code }) => code.split('\n'))
  .flatMap((line) =>
    line
      .replace(/ +# .*/, '')
      .trim()
      .split(' && '),
  )
  .filter((command) => command !== '');

/** Holds for this package, its peers, and what a program of the pages imports, also for its types. */
const isInstallable = (name: string): boolean =>
  name === manifest.name ||
  name in manifest.peerDependencies ||
  PAGES.flatMap(blocksOf).some(({ code }) =>
    code.includes(`from '${name.replace('@types/', '')}'`),
  );

describe('the commands of the pages', () => {
  it('are scripts of package.json, or install this package, its peers, and what the pages import', () => {
    const unknown = COMMANDS.filter((command) => {
      const [tool, verb, ...words] = command.split(' ');
      if (tool !== 'npm' || verb === 'ci') return false;
      if (verb === 'install') return words.some((name) => !isInstallable(name));
      return manifest.scripts[verb === 'run' ? words[0]! : verb!] === undefined;
    });
    expect(unknown).toEqual([]);
    expect(COMMANDS.length).toBeGreaterThan(20);
  });

  it('name files of this repository', () => {
    const files = COMMANDS.flatMap((command) => command.match(/\bdocs\/\S+/g) ?? []);
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
  });
});
