import { Inject, type InjectionToken } from '@nestjs/common';
import { FencedUsageError } from '../../core/errors.ts';
import type { Caller } from '../../core/events.ts';
import { FENCED_RUNNER, RUNNER_PROPERTY } from '../redlock.constants.ts';
import type { KeysOfCall } from '../made-keys.ts';
import type { SectionOptions } from '../../locks/section.ts';
import type { LockParameters } from './lock-parameters.ts';

/** Everything that `@Fenced` on one method means. */
export interface FencedDefinition extends LockParameters {
  /** `Class.method`, for messages. */
  readonly where: string;
  /** Names it, and its key template, in events. */
  readonly caller: Caller;
  readonly keysOf: KeysOfCall;
  /** Frozen, and the same object for every call: what it comes to under the module's options is worked out once. */
  readonly lockOptions: SectionOptions;
  readonly skipWhenBusy: boolean;
  readonly allowInTransaction: boolean;
  /** The caller's own signal, from the arguments of a call; undefined where the decorator has none. */
  readonly signalOf: ((...args: any[]) => AbortSignal | undefined) | undefined;
}

/** Runs the methods under `@Fenced`. */
export interface FencedRunner {
  run(
    definition: FencedDefinition,
    args: unknown[],
    body: () => unknown,
    instance?: object,
  ): Promise<unknown>;
}

const FENCED = Symbol('nestjs-fenced-lock/fenced');

/** `Class.method`, for messages; a standard decorator is given an object with the name. */
export function methodName(
  target: object,
  propertyKey: string | symbol | { readonly name: string },
): string {
  if (typeof propertyKey === 'object') return propertyKey.name;
  const owner = typeof target === 'function' ? target : target.constructor;
  return `${owner.name || 'anonymous class'}.${String(propertyKey)}`;
}

/**
 * Remembers that the method is under `@Fenced`.
 * @throws FencedUsageError when it already was
 */
export function markFenced(
  target: object,
  propertyKey: string | symbol,
  definition: FencedDefinition,
): void {
  if (fencedDefinition(target, propertyKey) !== undefined) {
    throw new FencedUsageError(
      `${definition.where} is under @Fenced twice, or under @FencedCron as well. Give one @Fenced all keys: @Fenced(['a:{0}', 'b:{1}']). A job takes further locks inside, with withLock.`,
    );
  }
  Reflect.defineMetadata(FENCED, definition, target, propertyKey);
}

/** Reads the definition of this very method, not of one that it overrides; undefined without `@Fenced`. */
export function fencedDefinition(
  target: object,
  propertyKey: string | symbol,
): FencedDefinition | undefined {
  return Reflect.getOwnMetadata(FENCED, target, propertyKey) as FencedDefinition | undefined;
}

/**
 * Makes `wrapper` look like `original` to everything that inspects handlers: name, length, own properties, and the
 * metadata that decorators below `@Fenced` have set. Those above set theirs on the wrapper themselves.
 */
export function copyAppearance(original: object, wrapper: object): void {
  for (const property of Reflect.ownKeys(original)) {
    const descriptor = Object.getOwnPropertyDescriptor(original, property);
    const isFixed = Object.getOwnPropertyDescriptor(wrapper, property)?.configurable === false;
    if (descriptor && !isFixed) Object.defineProperty(wrapper, property, descriptor);
  }
  for (const key of Reflect.getOwnMetadataKeys(original)) {
    Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, original), wrapper);
  }
}

/**
 * Makes Nest hand a provider of the application to every instance of a class, so that an application without it fails
 * at boot. It is a hidden property of the instance: a Proxy around that hands it on, nothing of the user's is overwritten, and
 * nothing shows up in logs or comparisons.
 *
 * @param property Nest prints its description where there is no such provider
 */
export function injectHidden(target: object, property: symbol, provider: InjectionToken): void {
  if (Object.hasOwn(target, property)) return;
  const injected = new WeakMap<object, unknown>();
  Object.defineProperty(target, property, {
    configurable: true,
    enumerable: false,
    get(this: object) {
      return injected.get(this);
    },
    set(this: object, value: unknown) {
      const hidden = { value, writable: true, configurable: true };
      // A frozen instance takes none.
      if (!Reflect.defineProperty(this, property, hidden)) injected.set(this, value);
    },
  });
  Inject(provider)(target, property);
}

/** Makes Nest hand the application's runner to every instance of a class. */
export function injectRunner(target: object): void {
  injectHidden(target, RUNNER_PROPERTY, FENCED_RUNNER);
}

/** Finds nothing while the constructor runs, nor ever when Nest did not build the instance. */
export function runnerOf(instance: object | undefined): FencedRunner | undefined {
  return (instance as { [RUNNER_PROPERTY]?: FencedRunner } | undefined)?.[RUNNER_PROPERTY];
}
