import type { Duration } from '../../core/options/duration.ts';
import { callback, checkOptions, choice, flag } from '../../core/options/option-names.ts';
import type { WithLockOptions } from '../../core/options/options.ts';
import { OF_WITH_LOCK } from '../../core/options/resolve-options.ts';
import { calledBy, type FencedKey } from '../made-keys.ts';
import type { FencedDefinition } from './fenced-metadata.ts';

/** Options of one method under `@Fenced`; what is absent comes from the module. */
export interface FencedOptions {
  /** @default the module's ttl */
  readonly ttl?: Duration;
  /**
   * How long a call waits for another holder; 0 = one try. With less than a node timeout it may take one node timeout all the same.
   * @default the module's wait; 0 with `onBusy: 'skip'`
   */
  readonly wait?: Duration;
  /**
   * Gives the caller's own signal, from the arguments of the call: when it aborts, the wait ends, and the call rejects with the
   * reason of the signal. A method that runs already is not interrupted. @default none
   *
   * @example `signal: (_id, signal) => signal`, with a parameter under `@ClientSignal()`
   */
  readonly signal?: (...args: any[]) => AbortSignal | undefined;
  /** Extend the lock while the method runs. @default the module's extend */
  readonly extend?: boolean;
  /** Keep the lock at least this long, also when the method ends sooner: for cron on hosts whose clocks differ. @default the module's minHold */
  readonly minHold?: Duration;
  /**
   * When another holder has it after `wait`: `'throw'` a `LockBusyError`, or `'skip'` the call, which resolves to undefined
   * (the method must return a promise that admits undefined). Skips only this lock: errors from inside the method are kept.
   * @default 'throw'
   */
  readonly onBusy?: 'throw' | 'skip';
  /** When the method finished although the lock was lost meanwhile: reject with `LockLostError`, or return the result. @default 'reject' */
  readonly onLost?: 'reject' | 'ignore';
  /**
   * Answer when the release was handed to the nodes (`'sent'`), or when a quorum confirmed it (`'confirmed'`: a round trip later).
   * After `'sent'` another process may find the key held for a round trip, and with `onBusy: 'skip'` would skip its call.
   * @default 'sent'; 'confirmed' with `onBusy: 'skip'`
   */
  readonly release?: 'sent' | 'confirmed';
  /**
   * When a call comes from inside work that holds these keys already: run inside that lock, with its token. Otherwise such a call
   * is a `FencedUsageError`, because it may be other work that a queue shared by callers started there.
   */
  readonly nested?: 'join';
  /**
   * Bring the token to the module's fence before the first statement of the method, for methods that read before (or outside)
   * their writing transaction. A stale token rejects with `StaleTokenError`, without running the method. The writing transaction
   * must check the token all the same (`fence.transaction`, `fence.advance`).
   * @default false
   */
  readonly claim?: boolean;
  /**
   * Run although `isInTransaction` says that a transaction is open: only for methods that open an independent transaction
   * of their own (REQUIRES_NEW). @default false
   */
  readonly allowInTransaction?: boolean;
}

const FENCED_OPTIONS = {
  ...OF_WITH_LOCK.table,
  signal: callback,
  onBusy: choice('throw', 'skip'),
  claim: flag,
  allowInTransaction: flag,
};

type ResolvedName = 'lockOptions' | 'skipWhenBusy' | 'claim' | 'allowInTransaction' | 'signalOf';

/**
 * What the options of a decorator come to, without those of the module.
 *
 * @throws RedlockConfigError
 */
export function resolveFencedOptions(
  options: FencedOptions,
  where: string,
): Pick<FencedDefinition, ResolvedName> {
  const checked = checkOptions('@Fenced', FENCED_OPTIONS, options);
  const { onBusy, claim = false, allowInTransaction = false, signal: signalOf, ...lock } = checked;
  const skipWhenBusy = onBusy === 'skip';
  const lockOptions: WithLockOptions = skipWhenBusy
    ? { wait: 0, release: 'confirmed', ...lock }
    : lock;
  Object.freeze(calledBy(where, lockOptions));
  return { lockOptions, skipWhenBusy, claim, allowInTransaction, signalOf };
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
