import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';

/** Commands with a program of this repository, and the program. */
const COMMANDS = [
  ['npm run bench', 'bench/main.ts'],
  ['npm run faults', 'test/campaign/main.ts'],
  ['npm run simulate', 'test/simulation/simulate.ts'],
  ['npm start', 'sample/src/main.ts'],
] as const;

interface Outcome {
  readonly code?: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(program: string, ...words: string[]): Promise<Outcome> {
  const loader = ['--import', './test/support/typescript-loader.mjs'];
  const options = { timeout: 20_000 };
  return promisify(execFile)(process.execPath, [...loader, program, ...words], options).catch(
    (error: Outcome) => error,
  );
}

describe.each(COMMANDS)('%s', (command, program) => {
  it('prints its usage for --help', async () => {
    const { code, stdout, stderr } = await run(program, '--help');
    expect([code, stderr]).toEqual([undefined, '']);
    expect(stdout).toMatch(new RegExp(`^Usage: ${command}`));
    expect(stdout).toContain('--help');
  });

  it('refuses an option that it does not know in one line, without a stack', async () => {
    const { code, stdout, stderr } = await run(program, '--nonsense');
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/^.*nonsense.*\n$/);
  });
});

describe('package.json', () => {
  it('has a script for every command', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      scripts: Record<string, string>;
    };
    const programs = COMMANDS.map(([command]) => command.split(' ').at(-1)!);
    expect(programs.filter((name) => scripts[name] === undefined)).toEqual([]);
  });
});
