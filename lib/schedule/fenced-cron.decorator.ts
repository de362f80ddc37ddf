import { FencedUsageError, RedlockConfigError } from '../core/errors.ts';
import type { Duration } from '../core/options/duration.ts';
import { checkOptions, choice, duration, kindOf } from '../core/options/option-names.ts';
import { Fenced } from '../nest/fenced/fenced.decorator.ts';
import { locateError } from '../nest/fenced/fenced.interceptor.ts';
import {
  copyAppearance,
  fencedDefinition,
  injectHidden,
  methodName,
  runnerOf,
  type FencedDefinition,
} from '../nest/fenced/fenced-metadata.ts';
import { beginsWithApplication } from '../nest/fenced/start-check.ts';
import type { LockHost } from '../locks/lock-host.ts';
import { calledBy } from '../core/holding/reentrancy.ts';
import { REDLOCK_HOST } from '../nest/redlock.constants.ts';
import { CronRun, timeByHand } from './cron-run.ts';
import { CronTimes } from './cron-times.ts';
import { ledgerOf, schedule, stopJobs, type JobDefinition } from './scheduled-job.ts';

/** The options of `@FencedCron`. */
export interface FencedCronOptions {
  /** The name of the job in the ledger, in its lock (`cron:` and the name) and in events: the same in all processes, and of one method. */
  readonly name: string;
  /** The time zone of the expression, such as `'Europe/Berlin'`. @default that of the process */
  readonly timeZone?: string;
  /**
   * What becomes of runs that nobody had a process for, or whose process died: the latest one is run, all are, in their order, or
   * none. Needs the ledger. @default 'run'
   */
  readonly missed?: 'run' | 'all' | 'skip';
  /** How late a run may begin. @default '1h' */
  readonly catchUp?: Duration;
}

type CronMethod = (run: any, ...args: any[]) => Promise<any>;

/** Hidden property that receives the host. Nest prints its description when the module is missing. */
const HOST_PROPERTY = Symbol(
  '@FencedCron: import RedlockModule.forRoot({ nodes }) from nestjs-fenced-lock',
);
/** The jobs of the methods of one class. */
const JOBS = Symbol('nestjs-fenced-lock/cron-jobs');

interface Instance {
  readonly [HOST_PROPERTY]?: LockHost;
  [JOBS]?: Map<string | symbol, JobDefinition>;
  onApplicationBootstrap?: () => unknown;
  onModuleDestroy?: () => unknown;
}

const OPTIONS = {
  name: (value: unknown, option: string): string => {
    if (typeof value === 'string' && /^[^{}]+$/.test(value)) return value;
    throw new RedlockConfigError(option, undefined, 'give a text without braces', kindOf(value));
  },
  timeZone: (value: unknown) => value as string,
  missed: choice('run', 'all', 'skip'),
  catchUp: duration(1),
};

/**
 * Runs a method at the times of a cron expression, once in the whole fleet. It needs `RedlockModule` and the package `cron`, and no
 * `ScheduleModule`.
 *
 * A run belongs to its scheduled time, whenever and wherever a timer fires. Where the module has a fence in an SQL database, a
 * ledger there (`cronDdl`) has each run: it is written before the work begins, and again at its end, in transactions of the fence. So a
 * host whose clock is late finds it and skips, a run whose process died is begun again, three times in all, and one for which
 * nobody had a process is made up for. Without a fence there is the lock alone: it is kept for half of the interval, but for `maxTtl` at
 * most, past the timers of other hosts.
 *
 * The method is called with its {@link CronRun}; parameters under `@FencingToken()` and `@LockSignal()` are filled in. Called by
 * hand, it runs now, unless the job is running. Two runs of a job never overlap.
 *
 * When the clock is set forward, what falls into the hour that is left out runs at the end of it. When it is set back, what comes twice
 * runs the first time. An expression for every hour goes on with the hours that pass.
 *
 * @param expression of five fields, or six with seconds, as `cron` and `@nestjs/schedule` read it
 *
 * @example
 * ```ts
 * @FencedCron('0 3 * * *', { name: 'nightly', timeZone: 'Europe/Berlin' })
 * async nightly(run: CronRun<PoolClient>) {
 *   const total = await this.pricing.quote(run.scheduled);
 *   await run.commit((tx) => tx.query('INSERT INTO report VALUES ($1, $2)', [run.scheduled, total]));
 * }
 * ```
 * @throws FencedUsageError at decoration on what is no method of instances, or is under `@Fenced`; at the start for a name that two
 * methods have
 * @throws RedlockConfigError at decoration for a wrong expression or option
 */
export function FencedCron(
  expression: string,
  options: FencedCronOptions,
): <Method extends CronMethod>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void {
  return (target: Instance, propertyKey, descriptor: PropertyDescriptor) => {
    const where = methodName(target, propertyKey);
    try {
      const {
        name,
        timeZone,
        missed = 'run',
        catchUp: catchUpMs = 3_600_000,
      } = checkOptions('@FencedCron', OPTIONS, options);
      const times = new CronTimes(expression, timeZone);
      const job = { name: name ?? OPTIONS.name(name, 'name'), where, times, missed, catchUpMs };
      const original = descriptor?.value;
      // For its checks, and for the parameters that a lock fills in.
      Fenced(`cron:${job.name}`, { onBusy: 'skip' })(target, propertyKey, descriptor);
      descriptor.value = inRuns(
        job,
        original,
        descriptor.value,
        fencedDefinition(target, propertyKey)!,
      );
      copyAppearance(original, descriptor.value);
      startWith(target, propertyKey, job);
    } catch (error) {
      locateError(error, where);
      throw error;
    }
  };
}

/** @param locked the method as `@Fenced` has it, which says why a call can't be run */
function inRuns(
  job: JobDefinition,
  original: (...args: unknown[]) => Promise<unknown>,
  locked: (...args: unknown[]) => Promise<unknown>,
  definition: FencedDefinition,
) {
  return function (this: Instance | undefined, ...args: unknown[]): Promise<unknown> {
    const host = this?.[HOST_PROPERTY];
    const runner = runnerOf(this);
    if (!host || !runner) return locked.apply(this, args);
    const { name, where } = job;
    if (!(args[0] instanceof CronRun))
      args[0] = new CronRun(name, timeByHand(Date.now()), {
        host,
        ledger: ledgerOf(host),
        where,
        isByHand: true,
      });
    const run = args[0] as CronRun;
    const lockOptions = calledBy(definition.caller, {
      ...definition.lockOptions,
      ...run.lockOptions,
    });
    const work = async () => {
      const lock = host.redlock.current();
      // A test has replaced what takes locks.
      if (!lock) return original.apply(this, args);
      if (!(await run.begin(lock))) return undefined;
      let result;
      try {
        result = await original.apply(this, args);
      } catch (error) {
        await run.end({ error });
        throw error;
      }
      await run.end();
      return result;
    };
    return runner.run({ ...definition, lockOptions }, args, work);
  };
}

/** Starts the jobs of a class when Nest starts the application, and stops them when it shuts down, around the hooks of the class. */
function startWith(target: Instance, propertyKey: string | symbol, job: JobDefinition): void {
  if (Object.hasOwn(target, JOBS)) return void target[JOBS]?.set(propertyKey, job);
  Object.defineProperty(target, JOBS, { value: new Map([[propertyKey, job]]) });
  injectHidden(target, HOST_PROPERTY, REDLOCK_HOST);
  beginsWithApplication(target, `The job '${job.name}' of ${job.where}`);
  const { onApplicationBootstrap, onModuleDestroy } = target;
  target.onApplicationBootstrap = async function (this: Instance) {
    await onApplicationBootstrap?.call(this);
    const host = this[HOST_PROPERTY];
    if (!host)
      throw new FencedUsageError(
        `${job.where} is under @FencedCron, and Nest did not build this instance. Register the class itself as a provider.`,
      );
    for (const [key, definition] of jobsOf(this))
      schedule(host, this.constructor, definition, (run) => (this as any)[key](run));
  };
  target.onModuleDestroy = async function (this: Instance) {
    if (this[HOST_PROPERTY]) stopJobs(this[HOST_PROPERTY]);
    await onModuleDestroy?.call(this);
  };
}

/** The jobs of its class and of those that this extends. A method that overrides one is no job, unless it says so itself. */
function jobsOf(instance: object): Map<string | symbol, JobDefinition> {
  const jobs = new Map<string | symbol, JobDefinition>();
  const seen = new Set<string | symbol>();
  for (let each = Object.getPrototypeOf(instance); each; each = Object.getPrototypeOf(each)) {
    const own: Map<string | symbol, JobDefinition> = Object.hasOwn(each, JOBS)
      ? each[JOBS]
      : new Map();
    for (const [key, job] of own) if (!seen.has(key)) jobs.set(key, job);
    for (const key of Reflect.ownKeys(each)) seen.add(key);
  }
  return jobs;
}
