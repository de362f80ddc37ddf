import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';

const run = promisify(execFile);

describe('an application that loads the package as ES module and as CommonJS', () => {
  let build: string;

  beforeAll(async () => {
    // Inside of node_modules, so that the build finds the peer dependencies.
    const cache = join(process.cwd(), 'node_modules/.cache');
    await mkdir(cache, { recursive: true });
    build = await mkdtemp(join(cache, 'nestjs-fenced-lock-two-copies-'));
    await Promise.all([compile('tsconfig.build.json', 'esm'), compile('tsconfig.cjs.json', 'cjs')]);
    await writeFile(join(build, 'esm/package.json'), '{"type":"module"}');
    await writeFile(join(build, 'cjs/package.json'), '{"type":"commonjs"}');
  });
  afterAll(() => rm(build, { recursive: true, force: true }));

  // Types are checked elsewhere.
  const compile = (project: string, format: string) =>
    run(
      process.execPath,
      `node_modules/typescript/bin/tsc -p ${project} --noCheck --declaration false --outDir`
        .split(' ')
        .concat(join(build, format)),
    );

  it('has one lock service and one fence under both classes, and locks methods that either copy decorated', async () => {
    const { stdout } = await run(process.execPath, ['test/nest/support/two-copies.mjs', build]);
    expect(JSON.parse(stdout)).toEqual({
      isTwoCopies: true,
      isOneService: true,
      isOneFence: true,
      call: { keys: ['feature'], isRealToken: true, isClaimed: true },
      isErrorRecognised: true,
    });
  });
});
