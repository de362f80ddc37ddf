import type { Caller } from '../../core/events.ts';
import { callback, checkOptions, choice, flag } from '../../core/options/option-names.ts';
import { calledBy } from '../../core/holding/reentrancy.ts';
import { type FencedKey } from '../made-keys.ts';
import { OF_SECTION, type SectionOptions } from '../../locks/section.ts';
import type { FencedDefinition } from './fenced-metadata.ts';

/** Options of one method under `@Fenced`: those of `LockService.withLock`, where what is absent comes from the module, and these. */
export interface FencedOptions extends Omit<SectionOptions, 'signal' | 'onBusy'> {
  /**
   * Gives the caller's own signal, from the arguments of the call: when it aborts, the wait ends, and the call rejects with the
   * reason of the signal. A method that runs already is not interrupted. @default none
   *
   * @example `signal: (_id, signal) => signal`, with a parameter under `@ClientSignal()`
   */
  readonly signal?: (...args: any[]) => AbortSignal | undefined;
  /**
   * When another holder has it after `wait`: `'throw'` a `LockBusyError`, or `'skip'` the call, which resolves to undefined
   * (the method must return a promise that allows undefined). A call that comes during the shutdown is skipped as well. Skips only
   * this lock: errors from inside the method are kept.
   * With `'skip'` the defaults are `wait: 0` and `release: 'confirmed'`: after `'sent'` another process would skip its call, too.
   * Or `'replace'` that holder, at once: the newest call wins. Or `'attach'` to the call of this process that runs or waits for the
   * lock (see `onBusy` of `LockService.withLock` for both). @default 'throw'
   */
  readonly onBusy?: 'throw' | 'skip' | 'replace' | 'attach';
  /**
   * Run although `isInTransaction` says that a transaction is open: only for methods that open an independent transaction
   * of their own (REQUIRES_NEW). @default false
   */
  readonly allowInTransaction?: boolean;
}

const FENCED_OPTIONS = {
  ...OF_SECTION.table,
  signal: callback,
  onBusy: choice('throw', 'skip', 'replace', 'attach'),
  allowInTransaction: flag,
};

type ResolvedName = 'lockOptions' | 'skipWhenBusy' | 'allowInTransaction' | 'signalOf';

/**
 * Options that those of a decorator come to, without those of the module.
 *
 * @throws RedlockConfigError
 */
export function resolveFencedOptions(
  options: FencedOptions,
  caller: Caller,
): Pick<FencedDefinition, ResolvedName> {
  const checked = checkOptions('@Fenced', FENCED_OPTIONS, options);
  const { onBusy, allowInTransaction = false, signal: signalOf, ...lock } = checked;
  const skipWhenBusy = onBusy === 'skip';
  const ofLock = onBusy === 'replace' || onBusy === 'attach';
  const lockOptions: SectionOptions = {
    ...(skipWhenBusy && ({ wait: 0, release: 'confirmed' } as const)),
    ...lock,
    ...(ofLock && { onBusy }),
  };
  Object.freeze(calledBy(caller, lockOptions));
  return { lockOptions, skipWhenBusy, allowInTransaction, signalOf };
}

/** Methods that can be locked until they settle: not synchronous ones, streams or generators. */
export type PromiseMethod = (...args: any[]) => Promise<any>;

/** `unknown` when the key fits the method, else a type whose name is the message that the compiler shows. */
type KeyFits<Key extends FencedKey, Method extends PromiseMethod> = Key extends (
  ...args: never[]
) => unknown
  ? Key extends (...args: Parameters<Method>) => unknown
    ? unknown
    : {
        'The parameters of the key function must be the first parameters of the method, and have their types written: (id: string) => ...': never;
      }
  : unknown;

type ResultFits<Options extends FencedOptions, Method extends PromiseMethod> = Options extends {
  readonly onBusy: 'skip';
}
  ? undefined extends Awaited<ReturnType<Method>>
    ? unknown
    : {
        "onBusy: 'skip' resolves undefined: the method must return Promise<T | undefined> or Promise<void>": never;
      }
  : unknown;

/** The decorator that `Fenced` returns: it only accepts methods that its key and options can work for. */
export type FencedDecorator<Key extends FencedKey, Options extends FencedOptions> = <
  Method extends PromiseMethod,
>(
  target: object,
  propertyKey: string | symbol,
  descriptor: TypedPropertyDescriptor<Method> & KeyFits<Key, Method> & ResultFits<Options, Method>,
) => void;
