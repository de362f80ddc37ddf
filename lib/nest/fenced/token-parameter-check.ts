import type { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';
import { prototypesOf } from './application-prototypes.ts';
import { isFenced } from './fenced-metadata.ts';
import { methodsWithTokenParameter } from './fencing-token.decorator.ts';

/**
 * Finds methods of the application's classes that have a `@FencingToken()` parameter and no `@Fenced`: nobody would fill
 * the parameter, and a caller could pass any token.
 *
 * @throws FencedUsageError naming them
 */
export function refuseUnfilledTokenParameters(modules: ModulesContainer): void {
  const found = new Set<string>();
  for (const prototype of prototypesOf(modules)) {
    for (const method of methodsWithTokenParameter(prototype)) {
      if (!isFenced(prototype, method))
        found.add(`${prototype.constructor.name}.${String(method)}`);
    }
  }
  if (found.size === 0) return;
  throw new FencedUsageError(
    `${[...found].join(', ')}: @FencingToken() without @Fenced. Decorators are not inherited: put @Fenced on this very method, or take the parameter decorator away.`,
  );
}
