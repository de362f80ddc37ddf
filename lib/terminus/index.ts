/**
 * The health indicator of locks for `@nestjs/terminus`, which this entry point needs.
 *
 * @module nestjs-fenced-lock/terminus
 */
import { Inject, Injectable } from '@nestjs/common';
import { HealthIndicatorService, type HealthIndicatorResult } from '@nestjs/terminus';
import { LockService } from '../locks/lock-service.ts';

/** How long it waits for a connection that is being made again: shorter than the probes of platforms wait. */
const PATIENCE_MS = 500;

/**
 * Says to `@nestjs/terminus` whether locks can be had. A provider of the module that has the health controller.
 *
 * @example
 * ```ts
 * @Get('ready')
 * @HealthCheck()
 * ready() {
 *   return this.health.check([() => this.lockHealth.isHealthy('redlock')]);
 * }
 * ```
 */
@Injectable()
class LockHealthIndicator {
  constructor(
    @Inject(HealthIndicatorService) private readonly indicators: HealthIndicatorService,
    @Inject(LockService) private readonly locks: LockService,
  ) {}

  /**
   * Up as long as {@link LockService.ready} says so, with `degraded: true` where not all servers give locks: one further failure may then
   * be one too many. `notVoting` has the reasons by the addresses of nodes. Asks no server; takes at most half a second.
   */
  async isHealthy<const Key extends string>(key: Key): Promise<HealthIndicatorResult<Key>> {
    const isReady = await this.locks.ready(PATIENCE_MS);
    const { degraded, votesMissing, nodes } = this.locks.status();
    const reasons = nodes.flatMap(({ address, reason }) => (reason ? [[address, reason]] : []));
    const notVoting = Object.fromEntries(reasons) as Record<string, string>;
    const indicator = this.indicators.check(key);
    return isReady
      ? indicator.up({ degraded, notVoting })
      : indicator.down({ votesMissing, notVoting });
  }
}

export { LockHealthIndicator };
