import { execFile } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from '@jest/globals';
import { ConsumerProject, removeProjects } from '../docs/consumer-project.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';

const PROGRAM = `
import { NestFactory } from '@nestjs/core';
import { Module } from '@nestjs/common';
import { LockService, RedlockModule } from 'nestjs-fenced-lock';
import type { NodeInput } from 'nestjs-fenced-lock';
import { createClient } from 'redis';

async function lockOn(node: NodeInput): Promise<string> {
  @Module({ imports: [RedlockModule.forRoot({ nodes: [node], restartGuard: false })] })
  class AppModule {}
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false, abortOnError: false });
  const result = await app.get(LockService).withLock('a', () => 'locked');
  await app.close();
  return result;
}

const url = process.env['URL_OF_REDIS']!;
void lockOn(createClient({ url }))
  .then((result) => console.log(result))
  .then(() => lockOn(url))
  .catch((error: Error) => console.log(error.message));
`;

const servers = useRedisServers(1);
afterAll(removeProjects);

describe.each(['module', 'commonjs'] as const)(
  'a project of type "%s" without ioredis',
  (format) => {
    it('locks over node-redis, and is told what a URL needs', async () => {
      const project = await ConsumerProject.write({ 'main.ts': PROGRAM }, format);
      expect(await project.compile()).toBe('');
      rmSync(join(project.folder, 'node_modules/ioredis'));
      const printed = await project.run('main.ts', { URL_OF_REDIS: servers[0]!.url });
      expect(printed.trim().split('\n')).toEqual([
        'locked',
        "Option 'nodes[0]' can't be this without the package ioredis: install it (npm install ioredis), or give a client of node-redis 5 or newer.",
      ]);
    });
  },
);

it('has a command line that says so, too, and how it is used', async () => {
  const { folder } = await ConsumerProject.write({});
  rmSync(join(folder, 'node_modules/ioredis'));
  const program = join(folder, 'node_modules/nestjs-fenced-lock/dist/esm/cli/main.js');
  const run = (...args: string[]) => promisify(execFile)(process.execPath, [program, ...args]);
  expect((await run('--help')).stdout).toContain('nestjs-fenced-lock COMMAND');
  const listing = run('ls', '--node', servers[0]!.url);
  await expect(listing).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('npm install ioredis'),
  });
});
