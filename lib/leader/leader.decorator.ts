import { FencedUsageError } from '../core/errors.ts';
import { normalizeKeys } from '../core/options/lock-keys.ts';
import { injectHidden } from '../nest/fenced/fenced-metadata.ts';
import { beginsWithApplication } from '../nest/fenced/start-check.ts';
import type { LockHost } from '../locks/lock-host.ts';
import { REDLOCK_HOST } from '../nest/redlock.constants.ts';
import { Leadership, type Candidate } from './leadership.ts';

/** The hidden property that receives the host, and then has the leadership. Nest prints its description when the module is missing. */
const LEADERSHIP = Symbol(
  '@Leader: import RedlockModule.forRoot({ nodes }) from nestjs-fenced-lock',
);

interface Instance extends Candidate {
  [LEADERSHIP]?: LockHost | Leadership;
  onApplicationBootstrap?: (this: Instance) => unknown;
  onModuleDestroy?: (this: Instance) => unknown;
}

/**
 * Makes a provider stand for election once the application has started. Of all processes with this class one is elected, and leads
 * until it ends, is cut off from the servers, or does not run for a `ttl`; then another one is elected. In a shutdown it steps down at
 * once, so that the next one leads as soon as its work has ended.
 *
 * Its lock is `leader:` and the name, and has no end of its own: `maxHold` and `minHold` of the module don't count.
 *
 * @param name of what is led, the same in all processes, and of one class in an application
 *
 * @example
 * ```ts
 * @Leader('scheduler')
 * @Injectable()
 * export class Scheduler {
 *   private timer?: NodeJS.Timeout;
 *
 *   onElected(lock: Lock) {
 *     this.timer = setInterval(() => work(lock.token), 1_000);
 *   }
 *
 *   onDeposed() {
 *     clearInterval(this.timer);
 *   }
 * }
 * ```
 *
 * @throws FencedUsageError at decoration for a name that is no key, or a class without `onElected`; at the start for a second
 * instance of this name, and for one that Nest did not build
 */
export function Leader(name: string): (target: new (...args: any[]) => Candidate) => void {
  const [key = ''] = normalizeKeys(name && `leader:${name}`);
  return ({ prototype, name: className }) => {
    if (typeof prototype.onElected !== 'function' || LEADERSHIP in prototype)
      throw new FencedUsageError(
        `${className} is under @Leader: it must have a method onElected(lock, signal), and no other @Leader.`,
      );
    injectHidden(prototype, LEADERSHIP, REDLOCK_HOST);
    beginsWithApplication(prototype, `${className}.onElected`);
    const hooks: Instance = prototype;
    const { onApplicationBootstrap, onModuleDestroy } = hooks;
    hooks.onApplicationBootstrap = async function (this: Instance) {
      await onApplicationBootstrap?.call(this);
      const host = this[LEADERSHIP] as LockHost | undefined;
      if (!host)
        throw new FencedUsageError(
          `${className} is under @Leader, and Nest did not build this instance. Register the class itself as a provider.`,
        );
      this[LEADERSHIP] = new Leadership(host, this, key, className);
    };
    // The work that ends may still need the connections of other modules.
    hooks.onModuleDestroy = async function (this: Instance) {
      if (this[LEADERSHIP] instanceof Leadership) await this[LEADERSHIP].end();
      await onModuleDestroy?.call(this);
    };
  };
}

/**
 * Whether this instance of a class under `@Leader` leads now: false also right after a blocked event loop, before its signal aborts.
 *
 * @example
 * ```ts
 * function report(scheduler: Candidate) {
 *   if (isLeader(scheduler)) logger.log('this process leads');
 * }
 * ```
 */
export function isLeader(instance: Candidate): boolean {
  const leadership = (instance as Instance)[LEADERSHIP];
  return leadership instanceof Leadership && leadership.isLeader;
}
