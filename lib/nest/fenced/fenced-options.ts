import { durationMs, type Duration } from '../../core/options/duration.ts';
import { RedlockConfigError } from '../../core/errors.ts';
import type { WithLockOptions } from '../../core/options/options.ts';

/** Options of one method under `@Fenced`; what is absent comes from the module. */
export interface FencedOptions {
  /** @default the module's ttl */
  readonly ttl?: Duration;
  /** How long a call waits for another holder; 0 = one try. @default the module's wait; 0 with `onBusy: 'skip'` */
  readonly wait?: Duration;
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

const NAMES: ReadonlySet<string> = new Set<keyof FencedOptions>([
  'ttl',
  'wait',
  'extend',
  'minHold',
  'onBusy',
  'onLost',
  'claim',
  'allowInTransaction',
]);

/** @throws RedlockConfigError when the decorator is evaluated, not at the first call */
export function validateFencedOptions(options: FencedOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (!NAMES.has(name))
      throw new RedlockConfigError(name, value, `@Fenced knows ${[...NAMES].join(', ')}`);
  }
  if (options.ttl !== undefined) durationMs('ttl', options.ttl, 1);
  if (options.wait !== undefined) durationMs('wait', options.wait);
  if (options.minHold !== undefined) durationMs('minHold', options.minHold);
  oneOf('extend', options.extend, [true, false]);
  oneOf('onBusy', options.onBusy, ['throw', 'skip']);
  oneOf('onLost', options.onLost, ['reject', 'ignore']);
  oneOf('claim', options.claim, [true, false]);
  oneOf('allowInTransaction', options.allowInTransaction, [true, false]);
}

/** The part of the options that the lock itself understands; absent ones stay absent. */
export function lockOptionsOf(options: FencedOptions): WithLockOptions {
  const { ttl, wait, extend, minHold, onLost, onBusy } = options;
  const given = { ttl, wait: wait ?? (onBusy === 'skip' ? 0 : undefined), extend, minHold, onLost };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function oneOf(option: string, value: unknown, allowed: readonly unknown[]): void {
  if (value === undefined || allowed.includes(value)) return;
  throw new RedlockConfigError(
    option,
    value,
    `use ${allowed.map((each) => JSON.stringify(each)).join(' or ')}`,
  );
}
