import type { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';
import type { RedlockHost } from '../host/redlock-host.ts';
import { locateError } from './fenced.interceptor.ts';
import { fencedDefinition, methodName } from './fenced-metadata.ts';
import { lockParametersOf } from './lock-parameters.ts';

/**
 * Looks at all classes of the application before any of their methods runs. Warns of a method without `@Fenced` that overrides
 * one under it.
 *
 * @throws FencedUsageError when the module was imported twice, a parameter under `@FencingToken()` or `@LockSignal()` would keep what a caller passes, or
 * a method claims at a fence that the module was not given
 * @throws RedlockConfigError when the options of a method don't fit those of the module
 */
export function checkApplication(modules: ModulesContainer, host: RedlockHost): void {
  refuseSecondModule(modules, host.addresses);
  const unfilled: string[] = [];
  const unstopped: string[] = [];
  const unclaimed: string[] = [];
  for (const prototype of prototypesOf(modules)) {
    for (const key of Reflect.ownKeys(prototype)) {
      const definition = fencedDefinition(prototype, key);
      if (definition === undefined) {
        const { tokenParameters, signalParameters } = lockParametersOf(prototype, key);
        if (tokenParameters.length > 0) unfilled.push(methodName(prototype, key));
        if (signalParameters.length > 0) unstopped.push(methodName(prototype, key));
        warnOfOverride(prototype, key, host);
        continue;
      }
      if (definition.claim && !host.hasFence) unclaimed.push(methodName(prototype, key));
      try {
        host.checkOptions(definition.lockOptions);
      } catch (error) {
        locateError(error, definition.where);
        throw error;
      }
    }
  }
  const fix =
    'without @Fenced. Decorators are not inherited: put @Fenced on this very method, or take the parameter decorator away.';
  refuse(unfilled, `@FencingToken() ${fix}`);
  refuse(unstopped, `@LockSignal() ${fix}`);
  refuse(
    unclaimed,
    '@Fenced with claim: true needs a fence to claim at. Give it to the module: RedlockModule.forRoot({ nodes, fence: postgresFence(pool) }), from nestjs-fenced-lock/fencing.',
  );
}

/** The nodes of the application's module, at its container, where every copy of this package finds them. */
const APPLICATION_NODES = Symbol.for('nestjs-fenced-lock/application-nodes');

/** Two lock services in one application let two holders of one key in: each asks its own nodes only, and joins its own locks only. */
function refuseSecondModule(modules: ModulesContainer, addresses: readonly string[]): void {
  const container = modules as { [APPLICATION_NODES]?: readonly string[] };
  const first = (container[APPLICATION_NODES] ??= addresses);
  if (first === addresses) return;
  const importers = importersOf(modules);
  const where = importers.length === 0 ? '' : ` It is imported by ${importers.join(' and ')}.`;
  throw new FencedUsageError(
    `RedlockModule is in this application twice: with the nodes ${first.join(', ')}, and with the nodes ${addresses.join(', ')}.${where} Call forRoot (or forRootAsync) once; where several modules import it, keep what it returned in a constant and import that.`,
  );
}

/** The classes whose `@Module` imports it. Not the imports that Nest has noted: a global module is in all of them. */
function importersOf(modules: ModulesContainer): string[] {
  const isOurs = (imported?: { module?: { name?: string }; name?: string }): boolean =>
    (imported?.module ?? imported)?.name === 'RedlockModule';
  return [...modules.values()]
    .filter(({ metatype }) => Reflect.getMetadata('imports', metatype)?.some(isOurs))
    .map(({ name }) => name);
}

function refuse(methods: readonly string[], why: string): void {
  if (methods.length > 0) throw new FencedUsageError(`${methods.join(', ')}: ${why}`);
}

function warnOfOverride(prototype: object, key: string | symbol, { logger }: RedlockHost): void {
  const [, ...parents] = lineOf(prototype);
  const overridden = parents.find((parent) => fencedDefinition(parent, key) !== undefined);
  if (overridden === undefined) return;
  logger.warn(
    `${methodName(prototype, key)} overrides ${methodName(overridden, key)}, which is under @Fenced, without being under it: it runs unlocked, except for what it does in super.${String(key)}(). Decorators are not inherited: put @Fenced on it as well, and nested: 'join' on the one that it calls by super.`,
  );
}

/** The prototypes of all classes that Nest builds, and of their parents. */
function prototypesOf(modules: ModulesContainer): Set<object> {
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
