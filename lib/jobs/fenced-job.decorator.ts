import { FencedUsageError } from '../core/errors.ts';
import { Fence } from '../fencing/fence.ts';
import {
  copyAppearance,
  fencedDefinition,
  injectHidden,
  methodName,
} from '../nest/fenced/fenced-metadata.ts';
import { takeTokenParameters } from '../nest/fenced/lock-parameters.ts';
import { jobToken } from './job-token.ts';

/** A method whose first argument is a job. */
type JobMethod = (job: any, ...args: any[]) => Promise<any>;

/** Hidden property that receives the fence. Nest prints its description when there is none. */
const FENCE_PROPERTY = Symbol(
  '@FencedJob: provide { provide: Fence, useValue: postgresFence(pool) }, or give the fence to RedlockModule.forRoot',
);

/**
 * Brings the token of a job to the fence before the method runs, and gives it to the parameter under `@FencingToken()`. The first
 * argument of the method is the job ({@link jobToken} says of which queues), as in `process` of a BullMQ `WorkerHost`.
 *
 * A run that a newer one has replaced rejects with the StaleTokenError, before the work or at its next write, and so does a job whose
 * count was set back: it is never taken as done without having run. Let the error out of the method. Queues that look at who ends
 * a job take it as a failure of the old run only; where the old run returns instead, graphile-worker and NATS (after its `ack`)
 * remove the job from under the newer one.
 *
 * The fence is the provider `Fence` of the application. `RedlockModule` is not needed; with `@Fenced` above it, the method holds a
 * lock as well.
 *
 * @param queue the name of the queue; only a message of RabbitMQ needs it
 *
 * @example
 * ```ts
 * @FencedJob()
 * async process(job: Job<{ report: string }>, _lock?: string, @FencingToken() token = fencingToken()) {
 *   const total = await this.pricing.quote(job.data.report);
 *   await this.fence.transaction(token, (tx) => tx.query('UPDATE report SET total = $1', [total]));
 * }
 * ```
 *
 * The decorated method rejects with
 * - `StaleTokenError` when a newer run of the job has reached the fence, or its count was set back,
 * - `FencedUsageError` when the first argument is no job that is counted, or Nest didn't build the instance,
 * - its own errors, unchanged.
 *
 * @throws FencedUsageError at decoration when `@Fenced` stands below it
 */
export function FencedJob(
  queue?: string,
): <Method extends JobMethod>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void {
  return (target, propertyKey, descriptor: PropertyDescriptor) => {
    const where = methodName(target, propertyKey);
    if (fencedDefinition(target, propertyKey))
      throw new FencedUsageError(
        `${where}: put @Fenced above @FencedJob(). Below it, it would replace the token of the job by that of the lock.`,
      );
    const original = descriptor.value as JobMethod;
    const tokenParameters = takeTokenParameters(target, propertyKey);
    injectHidden(target, FENCE_PROPERTY, Fence);
    const wrapper = async function (
      this: { readonly [FENCE_PROPERTY]?: Fence } | undefined,
      ...args: [object, ...unknown[]]
    ): Promise<unknown> {
      const fence = this?.[FENCE_PROPERTY];
      if (!fence)
        throw new FencedUsageError(
          `${where} was called without its \`this\`, or on an instance that Nest did not build. The method was not run.`,
        );
      const token = jobToken(args[0], queue);
      for (const index of tokenParameters) args[index] = token;
      await fence.claim(token);
      return original.apply(this, args);
    };
    copyAppearance(original, wrapper);
    descriptor.value = wrapper;
  };
}
