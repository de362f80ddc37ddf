import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from '../docs/consumer-project.ts';

/** The build for `require` is asked for by its path, because Node.js takes the other one. */
const SCRIPT = `
import { createRequire } from 'node:module';
import type { Locks } from 'nestjs-fenced-lock/core';
const require = createRequire(import.meta.url);
const load = (name: string, folder = name): Promise<any> =>
  process.env.BUILD === 'cjs'
    ? require('../node_modules/nestjs-fenced-lock/dist/cjs/' + folder + '/index.js')
    : import('nestjs-fenced-lock/' + name);

const { createLocks } = await load('core', 'locks');
const { createMemoryNodes } = await load('testing');
const { sqliteFence } = await load('fencing');
const { postgresNode } = await load('postgres');
const locks: Locks = await createLocks({ nodes: createMemoryNodes(3) });
const value: number = await locks.withLock('a', ({ token }) => token.value);
await locks.close();
console.log(value > 0, typeof sqliteFence, typeof postgresNode);
if (process.env.AND) await import(process.env.AND);
`;

afterAll(removeProjects);

it('gives locks to a project in which Nest, rxjs and reflect-metadata are not installed', async () => {
  const project = await ConsumerProject.write({ 'script.ts': SCRIPT });
  const absent = ['@nestjs', 'rxjs', 'reflect-metadata'].map((name) => join('node_modules', name));
  for (const path of ['entries.ts', 'ambient.d.ts', ...absent])
    rmSync(join(project.folder, path), { recursive: true });
  // Where nothing else is said, the compiler looks into the declarations of packages, too.
  expect(await project.compile('--skipLibCheck', 'false')).toBe('');
  for (const BUILD of ['esm', 'cjs'])
    await expect(project.run('script.ts', { BUILD })).resolves.toBe('true function function\n');
  const withNest = project.run('script.ts', { AND: 'nestjs-fenced-lock' });
  await expect(withNest).rejects.toThrow("Cannot find package '@nestjs/");
});
