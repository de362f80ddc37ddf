import type { Provider, Type } from '@nestjs/common';
import { FencedUsageError } from '../core/errors.ts';
import { copiesOf } from '../core/package-copies.ts';
import type { FenceEventListener } from '../fencing/fence.ts';
import { Fence } from '../fencing/fence.ts';
import type { FencingToken } from '../core/fencing-token.ts';
import type { RedlockModuleOptions } from './redlock-module-options.ts';
import { MODULE_FENCE, REDLOCK_MODULE_OPTIONS } from './redlock.constants.ts';

/** What the module needs of a fence. All fences of `nestjs-fenced-lock/fencing` have it; a fence of your own may be one, too. */
export interface ModuleFence {
  /**
   * Makes the resource remember the token, durably, before it resolves.
   * @throws StaleTokenError when the resource has seen a newer one
   */
  claim(token: FencingToken): Promise<void>;
  /** Calls `listener` for all that happens at the fence, until the returned function is called. Without it refusals are not counted. */
  observe?(listener: FenceEventListener): () => void;
}

/** Stands where a fence was asked for and none was given: nothing is written. */
class MissingFence extends Fence {
  transaction(): Promise<never> {
    return Promise.reject(missing());
  }
  advance(): Promise<never> {
    return Promise.reject(missing());
  }
  claim(): Promise<never> {
    return Promise.reject(missing());
  }
  ddl(): never {
    throw missing();
  }
  observe(): never {
    throw missing();
  }
}

function missing(): FencedUsageError {
  return new FencedUsageError(
    'A fence is used, but RedlockModule was given none: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing. Nothing was written.',
  );
}

/** The fence of the application, for everything inside this package. */
export const moduleFenceProvider: Provider = {
  provide: MODULE_FENCE,
  useFactory: (options: RedlockModuleOptions) => options.fence ?? new MissingFence(),
  inject: [REDLOCK_MODULE_OPTIONS],
};

/** The same, for constructors that ask for `Fence`: the class of this copy of the package, or of another. */
export function fenceAliases(): Exclude<Provider, Type>[] {
  return copiesOf('Fence').map((fence) => ({ provide: fence, useExisting: MODULE_FENCE }));
}
