import type { FactoryProvider } from '@nestjs/common';
import { FencedUsageError } from '../core/errors.ts';
import { copiesOf } from '../core/package-copies.ts';
import type { Fence } from '../fencing/fence.ts';
import type { RedlockHost } from './host/redlock-host.ts';
import { REDLOCK_HOST } from './redlock.constants.ts';

function refuse(): never {
  throw new FencedUsageError(
    'A fence is used, but RedlockModule was given none: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing. Nothing was written.',
  );
}

const reject = async (): Promise<never> => refuse();

/** Stands where a fence was asked for and none was given: nothing is written. */
export const MISSING_FENCE: Fence = {
  transaction: reject,
  advance: reject,
  claim: reject,
  prune: reject,
  check: reject,
  ddl: refuse,
  observe: refuse,
};

/** The fence of the module for constructors that ask for `Fence`: the class of this copy of the package, or of another. */
export function fenceProviders(): FactoryProvider[] {
  return copiesOf('Fence').map((fence) => ({
    provide: fence,
    useFactory: (host: RedlockHost) => host.fence,
    inject: [REDLOCK_HOST],
  }));
}
