import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { copiesOf, registerCopy } from '../../lib/core/package-copies.ts';

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

  it('locks methods of a copy that is loaded after forRoot, whose classes Nest does not know then', async () => {
    const { stdout } = await run(process.execPath, ['test/nest/support/late-copy.mjs', build]);
    expect(JSON.parse(stdout)).toEqual({
      isLocked: true,
      service: expect.stringMatching(/^Nest can't resolve .* argument LockService at index \[0\]/),
      ofFence: expect.stringMatching(/^Nest can't resolve .* argument Fence at index \[0\]/),
      loadedFirst: 'started',
    });
  });
});

it('a copy that hot reload has replaced is forgotten when nothing else uses it', async () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const before = copiesOf('LockService').length;
  class InUse {}
  registerCopy('LockService', InUse);
  for (let copy = 0; copy < 50; copy += 1) registerCopy('LockService', class Replaced {});
  for (let pass = 0; pass < 10 && copiesOf('LockService').length > before + 1; pass += 1) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    collect();
  }
  expect(copiesOf('LockService')).toHaveLength(before + 1);
  expect(copiesOf('LockService')).toContain(InUse);
});
