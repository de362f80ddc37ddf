export type { Duration } from './core/duration.ts';
export {
  FencedUsageError,
  isRedlockError,
  LockBusyError,
  LockLostError,
  QuorumUnavailableError,
  RedlockClosedError,
  RedlockConfigError,
  RedlockError,
  StaleTokenError,
} from './core/errors.ts';
export type {
  LockLossReason,
  NodeCause,
  NodeFailureReason,
  RedlockErrorCode,
} from './core/errors.ts';
export {
  FENCING_TOKEN_HEADER,
  fencingTokenHeader,
  parseFencingTokenHeader,
} from './core/fencing-token-header.ts';
export type { HeaderToken, ReceivedFencingToken } from './core/fencing-token-header.ts';
export type { LockEvent, LockEventListener } from './core/events.ts';
export type { LockInspection, NodeInspection } from './core/inspection.ts';
export type { Lock } from './core/lock.ts';
export { REDLOCK_DEFAULTS } from './core/options.ts';
export type {
  AcquireOptions,
  RedlockOptions,
  RetryOptions,
  WithLockOptions,
} from './core/options.ts';
export type { TokenRequest, TokenSource } from './core/token-source.ts';
export { inClsTransaction } from './nest/cls-transaction.ts';
export type { ClsTransactionHosts } from './nest/cls-transaction.ts';
export { FencedInterceptor } from './nest/fenced.interceptor.ts';
export { Fenced } from './nest/fenced.decorator.ts';
export type { FencedKey, FencedKeyFunction } from './nest/fenced-key.ts';
export type { FencedOptions } from './nest/fenced-options.ts';
export type { FencedDecorator, PromiseMethod } from './nest/fenced-typing.ts';
export { FencingToken } from './nest/fencing-token.decorator.ts';
export { FencingTokenHeader } from './nest/fencing-token-header.decorator.ts';
export type { ResourceOfRequest } from './nest/fencing-token-header.decorator.ts';
export { LockService } from './nest/lock.service.ts';
export type { ModuleFence } from './nest/module-fence.ts';
export type { NodeInput } from './nest/node-inputs.ts';
export type {
  RedlockModuleAsyncOptions,
  RedlockModuleOptions,
  RedlockOptionsFactory,
} from './nest/redlock-module-options.ts';
export { RedlockModule } from './nest/redlock.module.ts';
export { StaleTokenFilter } from './nest/stale-token.filter.ts';
