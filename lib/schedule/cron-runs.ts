import { Inject, Injectable } from '@nestjs/common';
import type { Fence } from '../fencing/fence.ts';
import type { LockHost } from '../locks/lock-host.ts';
import { REDLOCK_HOST } from '../nest/redlock.constants.ts';
import { RunLedger, type RunRecord } from './run-ledger.ts';

const LISTED = 100;

/**
 * The runs of jobs under `@FencedCron`, as the ledger has them; those of the last 90 days. Register it as a provider.
 *
 * @example
 * ```ts
 * @Controller('jobs')
 * export class JobController {
 *   constructor(private readonly runs: CronRuns) {}
 *
 *   @Get('nightly')
 *   async nightly() {
 *     return { last: await this.runs.last('nightly') };
 *   }
 * }
 * ```
 */
@Injectable()
export class CronRuns {
  constructor(@Inject(REDLOCK_HOST) private readonly host: LockHost) {}

  /** The run of the latest scheduled time; undefined where there is none. @throws RedlockConfigError without a ledger */
  async last(name: string): Promise<RunRecord | undefined> {
    const [record] = await this.ledger.list(name, 1);
    return record;
  }

  /** Up to 100 runs, the latest first. @throws RedlockConfigError without a ledger */
  async list(name: string): Promise<readonly RunRecord[]> {
    return this.ledger.list(name, LISTED);
  }

  private get ledger(): RunLedger {
    return new RunLedger('CronRuns', this.host.fence);
  }
}

/**
 * The CREATE TABLE of the ledger beside the table of `fence`, for a migration.
 *
 * @param fence that of the module; for a `postgresNode`, its `fence`
 * @throws RedlockConfigError when it is no fence in an SQL database
 */
export function cronDdl(fence: Pick<Fence, 'claim'> | undefined): string {
  return new RunLedger('cronDdl', fence).ddl;
}
