import 'reflect-metadata';
import { getQueueToken } from '@nestjs/bullmq';
import { Logger, type INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { describe, expect, it } from '@jest/globals';
import type { Queue } from 'bullmq';
import { eventually } from '../../test/support/eventually.ts';
import { useRedisServers } from '../../test/support/redis-servers/use-redis-servers.ts';

const apps: INestApplicationContext[] = [];
useRedisServers(1, { own: true }, ([server]) => {
  Logger.overrideLogger(false);
  process.env['REDIS_NODES'] = process.env['QUEUE_URL'] = server!.url;
  return () => Promise.all(apps.map((app) => app.close()));
});

describe('two processes of the example sample/jobs', () => {
  it('lose no job when one of them shuts down', async () => {
    const { started, AppModule } = await import('../../sample/jobs/main.ts');
    apps.push(await started, await NestFactory.createApplicationContext(AppModule));
    const queue: Queue = apps[1]!.get(getQueueToken('imports'));
    const jobs = Array.from({ length: 300 }, (_, index) => ({
      name: 'import',
      data: { customer: `customer ${index % 30}`, file: `file ${index}` },
    }));
    await queue.addBulk(jobs);
    await eventually(async () => expect(await queue.getCompletedCount()).toBeGreaterThan(20));
    await apps[0]!.close();
    await eventually(async () => {
      const [done, failed] = [await queue.getCompletedCount(), await queue.getFailedCount()];
      expect(done + failed).toBe(jobs.length);
    });
    expect(await queue.getFailedCount()).toBe(0);
  });
});
