import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { followQuickStart } from './follow-quick-start.ts';

const runner = resolve('test/package/vitest/node_modules/vitest/vitest.mjs');

followQuickStart('Nest 12, whose projects are ES modules with Vitest', {
  format: 'module',
  packages: [],
  runTests: (cwd, env) =>
    promisify(execFile)(
      process.execPath,
      [runner, 'run', '--globals', '--exclude', '{dist,node_modules}/**'],
      { cwd, env },
    ),
});
