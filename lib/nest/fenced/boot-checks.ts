import type { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';
import type { RedlockHost } from '../redlock-host.ts';
import { argumentsOf } from '../made-keys.ts';
import { REDLOCK_HOST, TEST_LINES } from '../redlock.constants.ts';
import { fencedDefinition, methodName, type FencedDefinition } from './fenced-metadata.ts';
import { FencedInterceptor, locateError } from './fenced.interceptor.ts';
import { lockParametersOf } from './lock-parameters.ts';

/**
 * Looks at all classes of the application before any of their methods runs. Warns of a method without `@Fenced` that overrides
 * one under it, and of a key that takes an argument which no caller passes.
 *
 * @throws FencedUsageError when the module was imported twice, a parameter under `@FencingToken()` or `@LockSignal()` would keep what a caller passes, or
 * a method claims at a fence that the module was not given
 * @throws RedlockConfigError when the options of a method don't fit those of the module
 */
export function checkApplication(modules: ModulesContainer, host: RedlockHost): void {
  refuseSecondModule(modules, host.addresses);
  // The second module is refused when it is made, with the nodes of both: methods may fit that one only.
  if ([...modules.values()].filter(({ providers }) => providers.has(REDLOCK_HOST)).length > 1)
    return;
  refuseReplacedInterceptor(modules);
  for (const prototype of prototypesOf(modules)) {
    for (const key of Reflect.ownKeys(prototype)) {
      const definition = fencedDefinition(prototype, key);
      if (definition === undefined) checkUnlocked(prototype, key, host);
      else {
        checkLocked(definition, host);
        checkKey(definition, Reflect.getOwnMetadata('design:paramtypes', prototype, key), host);
      }
    }
  }
}

function checkLocked({ where, lockOptions }: FencedDefinition, host: RedlockHost): void {
  if (lockOptions.claim && !host.fence)
    throw new FencedUsageError(
      `${where}: @Fenced with claim: true needs a fence to claim at: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }).`,
    );
  try {
    host.checkOptions(lockOptions);
  } catch (error) {
    locateError(error, where);
    throw error;
  }
}

/**
 * @param types of its parameters, where the compiler has kept them: the length of a function leaves out those with a default. Rest
 * parameters are one type, so this is a warning, which a key function ends.
 */
function checkKey(definition: FencedDefinition, types: unknown, { logger }: RedlockHost): void {
  const { where, caller, tokenParameters, signalParameters } = definition;
  const filledIn = [...tokenParameters, ...signalParameters];
  const isMissing = (each: number) =>
    filledIn.includes(each) || (Array.isArray(types) && each >= types.length);
  const missing = argumentsOf(caller.template ?? '').find(isMissing);
  if (missing !== undefined)
    logger.warn(
      `${where}: callers pass no {${missing}}, which the key '${caller.template}' needs, so calls will throw. {0} is the first parameter. For rest parameters, give a function as the key.`,
    );
}

/** `overrideInterceptor` replaces what a controller is bound to, and no method under `@Fenced` is. */
function refuseReplacedInterceptor(modules: ModulesContainer): void {
  const bound = [...modules.values()].flatMap(
    (each) => each.injectables.get(FencedInterceptor) ?? [],
  );
  if (bound.some(({ metatype }) => metatype !== FencedInterceptor))
    throw new FencedUsageError(
      `overrideInterceptor(FencedInterceptor) changes nothing. ${TEST_LINES}`,
    );
}

function checkUnlocked(prototype: object, key: string | symbol, { logger }: RedlockHost): void {
  const name = methodName(prototype, key);
  const { tokenParameters, signalParameters } = lockParametersOf(prototype, key);
  if (tokenParameters.length + signalParameters.length > 0)
    throw new FencedUsageError(
      `${name}: ${tokenParameters.length > 0 ? '@FencingToken()' : '@LockSignal()'} without @Fenced. Decorators are not inherited: put @Fenced on this very method.`,
    );
  const [, ...parents] = lineOf(prototype);
  const overridden = parents.find((parent) => fencedDefinition(parent, key) !== undefined);
  if (overridden === undefined) return;
  logger.warn(
    `${name} overrides ${methodName(overridden, key)}, which has @Fenced, but has none itself: it runs without a lock, except for what it does in super.${String(key)}(). Decorators are not inherited: put @Fenced on it as well, and nested: 'join' on the method that it overrides.`,
  );
}

/** The nodes of the application's module, at its container, where every copy of this package finds them. */
const APPLICATION_NODES = Symbol.for('nestjs-fenced-lock/application-nodes');

/** Two lock services in one application let two holders of one key in: each asks its own nodes only, and joins its own locks only. */
function refuseSecondModule(modules: ModulesContainer, addresses: readonly string[]): void {
  const container = modules as { [APPLICATION_NODES]?: readonly string[] };
  const first = (container[APPLICATION_NODES] ??= addresses);
  if (first === addresses) return;
  throw new FencedUsageError(
    `RedlockModule is in this application twice: with the nodes ${first.join(', ')}, and with the nodes ${addresses.join(', ')}. Call forRoot (or forRootAsync) once; where several modules import it, keep what it returned in a constant and import that.`,
  );
}

/** The prototypes of all classes that Nest builds, and of their parents. */
export function prototypesOf(modules: Pick<ModulesContainer, 'values'>): Set<object> {
  const wrappers = [...modules.values()].flatMap(({ providers, controllers, injectables }) =>
    [providers, controllers, injectables].flatMap((each) => [...each.values()]),
  );
  return new Set(
    wrappers.flatMap(({ metatype }) =>
      typeof metatype === 'function' ? lineOf(metatype.prototype) : [],
    ),
  );
}

/** A prototype and its parents. */
function lineOf(prototype: unknown): object[] {
  if (typeof prototype !== 'object' || prototype === null || prototype === Object.prototype)
    return [];
  return [prototype, ...lineOf(Object.getPrototypeOf(prototype))];
}
