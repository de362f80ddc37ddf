import type { Provider, Type } from '@nestjs/common';
import { FencedUsageError } from '../core/errors.ts';
import { copiesOf } from '../core/package-copies.ts';
import type { Fence } from '../fencing/fence.ts';
import type { RedlockModuleOptions } from './redlock-module-options.ts';
import { MODULE_FENCE, REDLOCK_MODULE_OPTIONS } from './redlock.constants.ts';

function refuse(): never {
  throw new FencedUsageError(
    'A fence is used, but RedlockModule was given none: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing. Nothing was written.',
  );
}

const reject = async (): Promise<never> => refuse();

/** Stands where a fence was asked for and none was given: nothing is written. */
const MISSING_FENCE: Fence = {
  transaction: reject,
  advance: reject,
  claim: reject,
  ddl: refuse,
  observe: refuse,
};

/** The fence of the application, for everything inside this package. */
export const moduleFenceProvider: Provider = {
  provide: MODULE_FENCE,
  useFactory: (options: RedlockModuleOptions) => options.fence ?? MISSING_FENCE,
  inject: [REDLOCK_MODULE_OPTIONS],
};

/** The same, for constructors that ask for `Fence`: the class of this copy of the package, or of another. */
export function fenceAliases(): Exclude<Provider, Type>[] {
  return copiesOf('Fence').map((fence) => ({ provide: fence, useExisting: MODULE_FENCE }));
}
