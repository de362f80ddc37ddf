import { Scope, type FactoryProvider } from '@nestjs/common';
import { INQUIRER } from '@nestjs/core';
import { FencedUsageError } from '../core/errors.ts';
import { copiesOf } from '../core/package-copies.ts';
import type { Fence } from '../fencing/fence.ts';
import type { RedlockHost } from './host/redlock-host.ts';
import { REDLOCK_HOST } from './redlock.constants.ts';

const NO_FENCE =
  'but RedlockModule was given none: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing.';

function refuse(): never {
  throw new FencedUsageError(`A fence is used, ${NO_FENCE} Nothing was written.`);
}

const reject = async (): Promise<never> => refuse();

/** Stands where a fence was asked for and none was given: nothing is written. */
export const MISSING_FENCE: Fence = {
  transaction: reject,
  // At once: a synchronous transaction would not wait for a rejection.
  advance: refuse,
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

/**
 * In the place of {@link fenceProviders} where the module has no fence. Nest makes what is transient only for those who ask for it,
 * so the others start without one.
 */
export function missingFenceProviders(): FactoryProvider[] {
  return copiesOf('Fence').map((fence) => ({
    provide: fence,
    scope: Scope.TRANSIENT,
    useFactory: (asking?: object | null) => {
      // In a provider that is made for each request, Nest takes no error for an answer.
      if (asking && optionalDependencies(asking.constructor).includes(fence)) return undefined;
      throw new FencedUsageError(
        `${asking?.constructor?.name || 'A provider'} asks for Fence, ${NO_FENCE}`,
      );
    },
    inject: [{ token: INQUIRER, optional: true }],
  }));
}

/** What a class asks for under `@Optional()`, by the metadata of Nest's decorators. */
function optionalDependencies(type: Function): unknown[] {
  const read = <Entry>(key: string): Entry[] =>
    (Reflect.getMetadata(key, type) as Entry[] | undefined) ?? [];
  const parameters = [...read<unknown>('design:paramtypes')];
  for (const { index, param } of read<{ index: number; param: unknown }>('self:paramtypes'))
    parameters[index] = param;
  const names = read<string>('optional:properties_metadata');
  const properties = read<{ key: string; type: unknown }>('self:properties_metadata');
  return [
    ...read<number>('optional:paramtypes').map((index) => parameters[index]),
    ...properties.filter(({ key }) => names.includes(key)).map((property) => property.type),
  ];
}
