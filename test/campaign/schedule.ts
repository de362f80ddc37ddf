import type { RedlockOptions } from '../../lib/core/options/options.ts';
import type { RedisServerOptions } from '../support/redis-servers/redis-server.ts';
import type { CampaignEvent } from './campaign-event.ts';
import type { RunLimits, RunMeasures } from './judge/verdict.ts';
import type { Stage } from './stage.ts';
import type { Load } from './worker/worker-settings.ts';

/** What happens, in time. */
export type Script = (stage: Stage) => Promise<void>;

/** One kind of trouble, as a script in time, and what has to hold in it. */
export interface Schedule {
  readonly name: string;
  readonly what: string;
  readonly play: Script;
  /** Whether it belongs to the selection for every change. */
  readonly quick?: true;
  /** No other run beside it, because it keeps the cores busy by itself. */
  readonly alone?: true;
  /** How many processes. @default 4 */
  readonly workers?: number;
  readonly servers?: RedisServerOptions;
  readonly load?: Partial<Load>;
  readonly options?: Pick<RedlockOptions, 'nodeTimeout'>;
  /** Where it promises more or less than the others. */
  readonly limits?: Partial<RunLimits>;
  /** How long after the end locks may still be on the servers. @default 1.3 ttl */
  readonly settleMs?: number;
  /** Why the run proves nothing, where the fault had no effect. */
  readonly withoutEffect?: (evidence: Evidence) => string | undefined;
  /** What of its own promises was broken. */
  readonly broken?: (evidence: Evidence) => string | undefined;
}

/** What a run showed. */
export interface Evidence {
  readonly measures: RunMeasures;
  readonly history: readonly CampaignEvent[];
}
