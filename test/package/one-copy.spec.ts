import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from '../docs/consumer-project.ts';

const BOTH = `
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
for (const entry of ['', '/fencing', '/testing']) {
  const imported = await import('nestjs-fenced-lock' + entry);
  const required = require('nestjs-fenced-lock' + entry);
  const names = Object.keys(imported);
  console.log(names.length > 5 && names.every((name) => imported[name] === required[name]));
}
`;

const UNDER_JEST = `
import { expect, it } from '@jest/globals';
import { LockService, RedlockModule } from 'nestjs-fenced-lock';
import { createMemoryNodes } from 'nestjs-fenced-lock/testing';
import { Test } from '@nestjs/testing';

it('locks', async () => {
  const redlock = RedlockModule.forRoot({ nodes: createMemoryNodes(3) });
  const module = await Test.createTestingModule({ imports: [redlock] }).compile();
  await module.init();
  expect(await module.get(LockService).withLock('a', () => 'locked')).toBe('locked');
  await module.close();
});
`;

afterAll(removeProjects);

// The two builds are for jest: it loads no ES module by `require`, and Nest 12 is one, while Nest 11 is CommonJS.
it('is one copy for import and require in a process, and loads in a test of jest', async () => {
  const files = { 'both.ts': BOTH, 'lock.spec.ts': UNDER_JEST };
  const project = await ConsumerProject.write(files);
  expect(await project.compile()).toBe('');
  expect((await project.run('both.ts')).trim().split('\n')).toEqual(['true', 'true', 'true']);
  const jest = resolve('node_modules/jest/bin/jest.js');
  const args = ['--experimental-vm-modules', jest, '--rootDir', join(project.folder, 'dist')];
  const { stderr } = await promisify(execFile)(process.execPath, args, { cwd: project.folder });
  expect(stderr).toContain('1 passed, 1 total');
});
