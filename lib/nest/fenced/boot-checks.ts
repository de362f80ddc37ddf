import type { LoggerService } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import { FencedUsageError } from '../../core/errors.ts';
import type { WithLockOptions } from '../../core/options/options.ts';
import { locateError } from './fenced.interceptor.ts';
import { fencedDefinition, type FencedDefinition } from './fenced-metadata.ts';
import { tokenParametersOf } from './fencing-token.decorator.ts';

/** What the application's module has for the methods under `@Fenced`. */
export interface FencedApplication {
  /** Of its nodes. */
  readonly addresses: readonly string[];
  readonly hasFence: boolean;
  /** @throws RedlockConfigError when the options of a method don't fit those of the module */
  checkOptions(options: WithLockOptions): unknown;
  readonly logger: Pick<LoggerService, 'warn'>;
}

/**
 * Looks at all classes of the application before any of their methods runs. Warns of a method without `@Fenced` that overrides
 * one under it.
 *
 * @throws FencedUsageError when the module was imported twice, a `@FencingToken()` parameter would keep what a caller passes, or
 * a method claims at a fence that the module was not given
 * @throws RedlockConfigError when the options of a method don't fit those of the module
 */
export function checkApplication(modules: ModulesContainer, application: FencedApplication): void {
  refuseSecondModule(modules, application.addresses);
  const unfilled: string[] = [];
  const unclaimed: string[] = [];
  for (const prototype of prototypesOf(modules)) {
    for (const key of Reflect.ownKeys(prototype)) {
      const definition = fencedDefinition(prototype, key);
      if (definition === undefined) {
        if (tokenParametersOf(prototype, key).length > 0) unfilled.push(nameOf(prototype, key));
        warnOfOverride(prototype, key, application);
      } else {
        if (definition.claim && !application.hasFence) unclaimed.push(nameOf(prototype, key));
        checkOptions(definition, application);
      }
    }
  }
  refuse(
    unfilled,
    '@FencingToken() without @Fenced. Decorators are not inherited: put @Fenced on this very method, or take the parameter decorator away.',
  );
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
  const first = container[APPLICATION_NODES];
  if (first === undefined) {
    container[APPLICATION_NODES] = addresses;
    return;
  }
  throw new FencedUsageError(
    `RedlockModule is in this application twice: with the nodes ${first.join(', ')}, and with the nodes ${addresses.join(', ')}. Call forRoot (or forRootAsync) once; where several modules import it, keep what it returned in a constant and import that.`,
  );
}

function nameOf(prototype: object, key: string | symbol): string {
  return `${prototype.constructor.name}.${String(key)}`;
}

function refuse(methods: readonly string[], why: string): void {
  if (methods.length > 0) throw new FencedUsageError(`${methods.join(', ')}: ${why}`);
}

function checkOptions(definition: FencedDefinition, application: FencedApplication): void {
  try {
    application.checkOptions(definition.lockOptions);
  } catch (error) {
    locateError(error, definition.where);
    throw error;
  }
}

function warnOfOverride(
  prototype: object,
  key: string | symbol,
  { logger }: FencedApplication,
): void {
  const overridden = parentsOf(prototype).map((parent) => fencedDefinition(parent, key));
  const definition = overridden.find((each) => each !== undefined);
  if (definition === undefined) return;
  logger.warn(
    `${nameOf(prototype, key)} overrides ${definition.where}, which is under @Fenced, without being under it: it runs unlocked, except for what it does in super.${String(key)}(). Decorators are not inherited: put @Fenced on it as well; the lock is then taken once.`,
  );
}

/** The prototypes of all classes that Nest builds, and of their parents. */
function prototypesOf(modules: ModulesContainer): Set<object> {
  const prototypes = new Set<object>();
  for (const { providers, controllers, injectables } of modules.values()) {
    for (const { metatype } of [providers, controllers, injectables].flatMap((each) => [
      ...each.values(),
    ])) {
      const prototype: unknown = typeof metatype === 'function' ? metatype.prototype : null;
      if (typeof prototype !== 'object' || prototype === null) continue;
      for (const each of [prototype, ...parentsOf(prototype)]) prototypes.add(each);
    }
  }
  return prototypes;
}

function parentsOf(prototype: object): object[] {
  const parent: unknown = Object.getPrototypeOf(prototype);
  if (typeof parent !== 'object' || parent === null || parent === Object.prototype) return [];
  return [parent, ...parentsOf(parent)];
}
