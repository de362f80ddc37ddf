import type { ConfigurableModuleAsyncOptions } from '@nestjs/common';
import type { LockServiceOptions } from '../locks/locks-options.ts';

/** The options of `RedlockModule.forRoot`: those of the locks, and those of the application. */
export interface RedlockModuleOptions extends LockServiceOptions {
  /**
   * Registers `LockExceptionFilter` for the whole application: a busy lock is answered with 409, an outage and a shutdown with 503.
   * Filters of the application are asked before it. @default true
   */
  readonly httpErrors?: boolean;
  /**
   * Whether the current async context is inside an open database transaction. When it is, a method under `@Fenced`
   * throws: the lock would be released before the commit, and the next holder would read old data. See
   * {@link inClsTransaction}. @default no check
   */
  readonly isInTransaction?: () => boolean;
}

/** A class that makes the options; for `useClass` and `useExisting`. */
export interface RedlockOptionsFactory {
  /** Called once, when the module starts. */
  createRedlockOptions(): RedlockModuleOptions | Promise<RedlockModuleOptions>;
}

/** The options of `RedlockModule.forRootAsync`: one of `useFactory` (with `inject`), `useClass` and `useExisting`. */
export type RedlockModuleAsyncOptions = ConfigurableModuleAsyncOptions<
  RedlockModuleOptions,
  'createRedlockOptions'
> & {
  /** @default true */
  readonly isGlobal?: boolean;
};

/** The part of the class `TransactionHost` of `@nestjs-cls/transactional` that the module uses. */
export interface ClsTransactionHosts {
  /** The host of one connection. */
  getInstance(connectionName?: string): { isTransactionActive(): boolean };
}

/**
 * The option `isInTransaction` for applications with `@Transactional` of `@nestjs-cls/transactional`.
 *
 * @example
 * ```ts
 * RedlockModule.forRoot({ nodes, isInTransaction: inClsTransaction(TransactionHost) });
 * ```
 * @param transactionHost the class `TransactionHost`, imported by you: this package doesn't depend on it
 * @param connectionNames the named connections that hold what the locks protect; default: the one without a name
 * @returns a function that throws when the plugin is not registered under one of these names
 */
export function inClsTransaction(
  transactionHost: ClsTransactionHosts,
  ...connectionNames: readonly string[]
): () => boolean {
  const connections: readonly (string | undefined)[] =
    connectionNames.length === 0 ? [undefined] : connectionNames;
  return () => connections.some((name) => transactionHost.getInstance(name).isTransactionActive());
}
