import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { blocksOf, PAGES } from './pages.ts';

/** Commands with a program of this repository, and the program. */
const COMMANDS = [
  ['npm run bench', 'bench/main.ts'],
  ['npm run faults', 'test/campaign/main.ts'],
  ['npm run simulate', 'test/simulation/simulate.ts'],
  ['npm run test:versions', 'test/versions/main.ts'],
  ['npm start', 'sample/src/main.ts'],
] as const;

async function helpOf(program: string): Promise<string> {
  const words = ['--import', './test/support/typescript-loader.mjs', program, '--help'];
  return (await promisify(execFile)(process.execPath, words, { timeout: 20_000 })).stdout;
}

const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly name: string;
  readonly scripts: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
};

/** Every command in the blocks of the pages, without its comment. */
const COMMANDS_OF_PAGES = PAGES.flatMap(blocksOf)
  .filter(({ language }) => language === 'sh')
  .flatMap(({ code }) => code.split('\n'))
  .flatMap((line) =>
    line
      .replace(/ +# .*/, '')
      .trim()
      .split(' && '),
  )
  .filter((command) => command !== '');

/** This package, its peers, and what a program of the pages imports. */
const isInstallable = (name: string): boolean =>
  name === manifest.name ||
  name in manifest.peerDependencies ||
  PAGES.flatMap(blocksOf).some(({ code }) => code.includes(`from '${name}'`));

describe('the commands of the pages', () => {
  const ofNpm = COMMANDS_OF_PAGES.filter((command) => command.startsWith('npm '));

  it('are scripts of package.json, or install this package, its peers, and what the pages import', () => {
    const unknown = ofNpm.filter((command) => {
      const [, verb, ...words] = command.split(' ');
      if (verb === 'install') return words.some((name) => !isInstallable(name));
      const script = verb === 'run' ? words[0]! : verb!;
      return verb !== 'ci' && manifest.scripts[script] === undefined;
    });
    expect(unknown).toEqual([]);
    expect(ofNpm.length).toBeGreaterThan(20);
  });

  it('have options that their help names', async () => {
    const helps: Record<string, string> = {
      'npm run spec': readFileSync('docs/internals/spec/check.sh', 'utf8'),
    };
    for (const [command, program] of COMMANDS) helps[command] = await helpOf(program);
    const unknown = ofNpm.filter((command) => {
      const [name, options] = command.split(' -- ');
      const words = options?.match(/--[\w-]+/g) ?? [];
      return words.some((word) => !helps[name!]?.includes(word));
    });
    expect(unknown).toEqual([]);
  });

  it('are otherwise those of a model that `npm run spec` checks, and of a file of this repository', () => {
    const others = COMMANDS_OF_PAGES.filter((command) => !ofNpm.includes(command));
    const model = '-DEXTEND -DRESET_WITHOUT_FLOOR_CHECK';
    expect([...new Set(others)]).toEqual([
      'docker run --rm -d -p 6379:6379 redis',
      'docker compose up -d',
      'apt-get install spin gcc',
      `spin -a ${model} docs/internals/spec/fenced-lock.pml`,
      'gcc -O2 -DSAFETY -DREACH -o pan pan.c',
      './pan -E -i -m1000',
      `spin -t -p -g ${model} docs/internals/spec/fenced-lock.pml`,
    ]);
    expect(readFileSync('docs/internals/spec/check.sh', 'utf8')).toContain(
      `fenced-lock ${model}\n`,
    );
    expect(
      ['docker-compose.yml', 'docs/internals/spec/fenced-lock.pml'].filter(existsSync),
    ).toHaveLength(2);
  });
});
