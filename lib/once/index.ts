/**
 * Work that is done once: later calls with the same key get the answer of the first one, which is stored in the same fenced transaction.
 *
 * @module nestjs-fenced-lock/once
 */
export { IdempotencyInterceptor, Idempotent } from './idempotency.interceptor.ts';
export type { IdempotentOptions } from './idempotency.interceptor.ts';
export { OnceTransaction, onceTransaction } from './once-transaction.ts';
export { onceDdl } from './once-table.ts';
export { Once } from './once.decorator.ts';
export type { OnceMethodOptions } from './once.decorator.ts';
export { OnceService } from './once.service.ts';
export type { OnceOptions, OnceWork } from './once.service.ts';
