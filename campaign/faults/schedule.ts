import type { RedlockOptions } from '../../lib/core/options/options.ts';
import type { RedisServerOptions } from '../../test/support/redis-servers/redis-server.ts';
import type { CampaignEvent } from './campaign-event.ts';
import type { RunLimits, RunMeasures } from './judge/verdict.ts';
import type { Stage } from './stage.ts';
import type { Load } from './worker/worker-settings.ts';

/** A script of what happens, in time. */
export type Script = (stage: Stage) => Promise<void>;

/** A kind of trouble, as a script in time, and what has to hold in it. */
export interface Schedule {
  readonly name: string;
  readonly what: string;
  readonly play: Script;
  /** Whether it belongs to the selection for every change. */
  readonly quick?: true;
  /** Whether votes must leave when they are asked for. node-redis writes them a turn of the event loop later. */
  readonly needsWritesAtOnce?: true;
  /** Forbids other runs beside it, because it keeps the cores busy by itself. */
  readonly alone?: true;
  /** The number of processes. @default 4 */
  readonly workers?: number;
  readonly servers?: RedisServerOptions;
  readonly load?: Partial<Load>;
  readonly options?: Pick<RedlockOptions, 'nodeTimeout'>;
  /** Limits where it promises more or less than the others. */
  readonly limits?: Partial<RunLimits>;
  /** The time after the end for which locks may still be on the servers. @default 1.3 ttl */
  readonly settleMs?: number;
  /** Reason why the run proves nothing, where the fault had no effect. */
  readonly withoutEffect?: (evidence: Evidence) => string | undefined;
  /** A promise of its own that was broken. */
  readonly broken?: (evidence: Evidence) => string | undefined;
}

/** The evidence that a run gave. */
export interface Evidence {
  readonly measures: RunMeasures;
  readonly history: readonly CampaignEvent[];
}
