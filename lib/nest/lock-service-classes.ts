import type { Provider, Type } from '@nestjs/common';

const REGISTRY = Symbol.for('nestjs-fenced-lock/lock-service-classes');

/** Every copy of the `LockService` class that this process has loaded, in a place all copies of the package share. */
function lockServiceClasses(): Set<Type> {
  const shared = globalThis as { [REGISTRY]?: Set<Type> };
  return (shared[REGISTRY] ??= new Set());
}

export function registerLockServiceClass(lockService: Type): void {
  lockServiceClasses().add(lockService);
}

/**
 * Providers that answer with the one service of the application when it is asked for by the class of another copy of this
 * package: an ES module application with a CommonJS feature module loads two.
 */
export function lockServiceAliases(lockService: Type): Exclude<Provider, Type>[] {
  return [...lockServiceClasses()]
    .filter((other) => other !== lockService)
    .map((other) => ({ provide: other, useExisting: lockService }));
}
