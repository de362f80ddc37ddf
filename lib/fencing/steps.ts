/** The steps of a piece of work. They yield what they wait for, as an async function awaits it. */
export type Steps<Result> = Generator<unknown, Result, any>;

/**
 * Runs the steps. What is yielded and is no promise is given back at once, where an `await` would let other code run first. On SQLite
 * all answers are there at once: a synchronous transaction may wait for none, and what other code sent in between would belong to it.
 *
 * @returns a promise if one of the steps had to be waited for
 */
export function runSteps<Result>(
  steps: Steps<Result>,
  first = steps.next(),
): Promise<Result> | Result {
  let step = first;
  while (step.done !== true && !isThenable(step.value)) step = steps.next(step.value);
  if (step.done === true) return step.value;
  return Promise.resolve(step.value).then(
    (known) => runSteps(steps, steps.next(known)),
    (error) => runSteps(steps, steps.throw(error)),
  );
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}
