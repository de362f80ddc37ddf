import type { ModulesContainer } from '@nestjs/core';

/** The prototypes of all providers and controllers, and of their parents. */
export function prototypesOf(modules: ModulesContainer): Set<object> {
  const prototypes = new Set<object>();
  for (const { providers, controllers } of modules.values()) {
    for (const { metatype } of [...providers.values(), ...controllers.values()]) {
      let prototype: unknown = typeof metatype === 'function' ? metatype.prototype : null;
      while (
        typeof prototype === 'object' &&
        prototype !== null &&
        prototype !== Object.prototype
      ) {
        prototypes.add(prototype);
        prototype = Object.getPrototypeOf(prototype);
      }
    }
  }
  return prototypes;
}
