import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { followQuickStart } from './follow-quick-start.ts';

const runner = resolve('node_modules/jest/bin/jest.js');

followQuickStart('Nest 11, whose projects are CommonJS with Jest', {
  format: 'commonjs',
  packages: ['test/nest11/node_modules'],
  runTests: (cwd, env) =>
    promisify(execFile)(process.execPath, [runner, '--rootDir', join(cwd, 'dist')], { cwd, env }),
});
