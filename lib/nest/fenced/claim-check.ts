import type { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';
import { prototypesOf } from './application-prototypes.ts';
import { claimingMethodsOf } from './fenced-metadata.ts';

/**
 * For an application without a fence: finds methods under `@Fenced(key, { claim: true })`, which could never run.
 *
 * @throws FencedUsageError naming them
 */
export function refuseClaimsWithoutFence(modules: ModulesContainer): void {
  const found = [...prototypesOf(modules)].flatMap((prototype) =>
    claimingMethodsOf(prototype).map((method) => `${prototype.constructor.name}.${String(method)}`),
  );
  if (found.length === 0) return;
  throw new FencedUsageError(
    `${found.join(', ')}: @Fenced with claim: true needs a fence to claim at. Give it to the module: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing.`,
  );
}
