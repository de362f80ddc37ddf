import { Inject, type NestInterceptor } from '@nestjs/common';
import { FENCED_RUNNER, RUNNER_PROPERTY } from '../redlock.constants.ts';

/** An instance as Nest sees it: the hidden property receives the runner when Nest builds the instance. */
interface Wired {
  [RUNNER_PROPERTY]?: NestInterceptor;
}

/**
 * Makes Nest hand the application's runner to every instance of a class, so that an application without the module fails
 * at boot. The instances get no property of their own: nothing of the user's can be overwritten, and nothing shows up in
 * logs or comparisons.
 */
export function injectRunner(target: object): void {
  if (Object.hasOwn(target, RUNNER_PROPERTY)) return;
  const runners = new WeakMap<object, NestInterceptor>();
  Object.defineProperty(target, RUNNER_PROPERTY, {
    configurable: true,
    enumerable: false,
    get(this: object) {
      return runners.get(this);
    },
    set(this: object, runner: NestInterceptor) {
      runners.set(this, runner);
    },
  });
  Inject(FENCED_RUNNER)(target, RUNNER_PROPERTY);
}

/** Undefined while the constructor runs, and for ever when somebody else than Nest built the instance. */
export function runnerOf(instance: object | undefined): NestInterceptor | undefined {
  return (instance as Wired | undefined)?.[RUNNER_PROPERTY];
}
