import 'reflect-metadata';
import { Controller, Get, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { afterEach, expect, it } from '@jest/globals';
import { RedlockModule } from '../../lib/index.ts';
import { LockHealthIndicator } from '../../lib/terminus/index.ts';
import { eventually } from '../support/eventually.ts';
import { useRedisServers } from '../support/redis-servers/use-redis-servers.ts';
import { closeAll, closeLater, silentLogger } from './support/applications.ts';

@Controller('health')
class HealthController {
  constructor(
    private readonly health: HealthCheckService,
    private readonly locks: LockHealthIndicator,
  ) {}

  @Get('ready')
  @HealthCheck()
  ready() {
    return this.health.check([() => this.locks.isHealthy('redlock')]);
  }
}

const servers = useRedisServers(3);

async function startApplication(): Promise<string> {
  @Module({
    imports: [
      TerminusModule.forRoot({ logger: false }),
      RedlockModule.forRoot({ nodes: servers.map(({ url }) => url), restartGuard: false }),
    ],
    controllers: [HealthController],
    providers: [LockHealthIndicator],
  })
  class AppModule {}
  const app = closeLater(await NestFactory.create(AppModule, { logger: silentLogger }));
  await app.listen(0, '127.0.0.1');
  return `${await app.getUrl()}/health/ready`;
}

afterEach(closeAll);

it('the health check of an application is well, degraded, or down, as its servers are', async () => {
  const url = await startApplication();
  const becomes = (status: number, redlock: object) =>
    eventually(async () => {
      const response = await fetch(url);
      const { details } = (await response.json()) as { details: { redlock: object } };
      expect([response.status, details.redlock]).toEqual([status, redlock]);
    });
  const [first, second] = servers.map(({ host, port }) => `${host}:${port}`) as [string, string];
  const why = expect.any(String);
  await becomes(200, { status: 'up', degraded: false, notVoting: {} });
  await servers[0]!.kill();
  await becomes(200, { status: 'up', degraded: true, notVoting: { [first]: why } });
  await servers[1]!.kill();
  await becomes(503, {
    status: 'down',
    votesMissing: 1,
    notVoting: { [first]: why, [second]: why },
  });
  for (const server of servers.slice(0, 2)) await server.restart();
  await becomes(200, { status: 'up', degraded: false, notVoting: {} });
});
