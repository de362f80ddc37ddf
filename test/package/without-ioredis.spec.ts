import { rmSync } from 'node:fs';
import { join } from 'node:path';
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
        "Option 'nodes[0]' can't be this without the package ioredis: install it (npm install ioredis), or give a client of node-redis.",
      ]);
    });
  },
);
