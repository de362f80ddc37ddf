/** What is needed of the class `TransactionHost` of `@nestjs-cls/transactional`. */
export interface ClsTransactionHosts {
  /** The host of one connection. */
  getInstance(connectionName?: string): { isTransactionActive(): boolean };
}

/**
 * The option `isInTransaction` for applications with `@Transactional` of `@nestjs-cls/transactional`:
 * `RedlockModule.forRoot({ nodes, isInTransaction: inClsTransaction(TransactionHost) })`.
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
