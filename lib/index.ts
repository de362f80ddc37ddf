/**
 * `RedlockModule`, `@Fenced` and what belongs to them: locks and their tokens in a Nest application.
 *
 * @module nestjs-fenced-lock
 */
export type { Duration } from './core/options/duration.ts';
export {
  FencedUsageError,
  isRedlockError,
  LockBusyError,
  LockLostError,
  QuorumUnavailableError,
  RedlockClosedError,
  RedlockConfigError,
  RedlockError,
  OnceConflictError,
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
} from './fencing/fencing-token-header.ts';
export type { HeaderToken, ReceivedFencingToken } from './fencing/fencing-token-header.ts';
export type { LockEvent, LockEventListener } from './core/events.ts';
export type { LockInspection, NodeInspection } from './core/nodes/inspect.ts';
export type { LockList, RevokedLock } from './core/nodes/operate.ts';
export type { ProcessIdentity } from './core/process-identity.ts';
export type { LockStatus, NodeState, NodeStatus } from './core/nodes/status.ts';
export type { Lock, OwnLock, OwnLocks, WaitingCall } from './core/lock.ts';
export { REDLOCK_DEFAULTS } from './core/options/options.ts';
export type {
  AcquireOptions,
  RedlockOptions,
  RetryOptions,
  WithLockOptions,
} from './core/options/options.ts';
export type { TokenRequest, TokenSource } from './core/fencing-token.ts';
export { inClsTransaction } from './nest/redlock-module-options.ts';
export type { ClsTransactionHosts } from './nest/redlock-module-options.ts';
export { FencedInterceptor } from './nest/fenced/fenced.interceptor.ts';
export { Fenced } from './nest/fenced/fenced.decorator.ts';
export type { FencedKey, FencedKeyFunction } from './nest/made-keys.ts';
export type {
  FencedDecorator,
  FencedOptions,
  PromiseMethod,
} from './nest/fenced/fenced-options.ts';
export {
  fencingToken,
  FencingToken,
  LockSignal,
  lockSignal,
} from './nest/fenced/lock-parameters.ts';
export type {
  FencingTokenHeaderOptions,
  ResourceOfRequest,
} from './nest/transport/request-parameters.ts';
export { LockService } from './locks/lock-service.ts';
export type { SectionOptions } from './locks/section.ts';
export type { ModuleFence, NodeInput } from './locks/locks-options.ts';
export type {
  RedlockModuleAsyncOptions,
  RedlockModuleOptions,
  RedlockOptionsFactory,
} from './nest/redlock-module-options.ts';
export type { CallTrace, LockTelemetry } from './locks/telemetry.ts';
export { RedlockModule } from './nest/redlock.module.ts';
export { ClientSignal, FencingTokenHeader } from './nest/transport/request-parameters.ts';
export { LockExceptionFilter } from './nest/transport/lock-exception.filter.ts';
export type { LockExceptionAnswer } from './nest/transport/lock-exception.filter.ts';
export { REDLOCK_NODES } from './nest/redlock.constants.ts';
