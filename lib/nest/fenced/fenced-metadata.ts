import type { WithLockOptions } from '../../core/options/options.ts';
import type { KeysOfCall } from './fenced-key.ts';

/** What `@Fenced` on one method means. Read across copies of the package: only add to it. */
export interface FencedDefinition {
  /** `Class.method`, for messages. */
  readonly where: string;
  readonly keysOf: KeysOfCall;
  readonly lockOptions: WithLockOptions;
  readonly skipWhenBusy: boolean;
  readonly allowInTransaction: boolean;
  /** Whether the token goes to the fence before the body. */
  readonly claim: boolean;
  /** Indices of the parameters that receive the token. */
  readonly tokenParameters: readonly number[];
}

const FENCED = Symbol.for('nestjs-fenced-lock/fenced');
const CLAIMING_METHODS = Symbol.for('nestjs-fenced-lock/claiming-methods');

/** Remembers that the method is under `@Fenced`; false when it already was. */
export function markFenced(target: object, propertyKey: string | symbol): boolean {
  if (isFenced(target, propertyKey)) return false;
  Reflect.defineMetadata(FENCED, true, target, propertyKey);
  return true;
}

/** Whether this very method, not one it overrides, is under `@Fenced`. */
export function isFenced(target: object, propertyKey: string | symbol): boolean {
  return Reflect.hasOwnMetadata(FENCED, target, propertyKey);
}

/** Remembers that the method needs a fence to claim at. */
export function markClaiming(target: object, propertyKey: string | symbol): void {
  const methods = [...claimingMethodsOf(target), propertyKey];
  Reflect.defineMetadata(CLAIMING_METHODS, methods, target);
}

/** Methods of this very prototype that claim before their body. */
export function claimingMethodsOf(target: object): readonly (string | symbol)[] {
  return (
    (Reflect.getOwnMetadata(CLAIMING_METHODS, target) as (string | symbol)[] | undefined) ?? []
  );
}

/**
 * Makes `wrapper` look like `original` to everything that inspects handlers: name, length, own properties, and the
 * metadata that decorators below ours have set. Those above set theirs on the wrapper themselves.
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
