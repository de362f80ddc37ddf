import { isObservable } from 'rxjs';
import { FencedUsageError } from '../../core/errors.ts';

/** @throws FencedUsageError when `result` goes on working after the lock has been released. */
export function refuseStream(result: unknown, where: string): void {
  if (!isObservable(result) && !isAsyncIterable(result)) return;
  throw new FencedUsageError(
    `${where} returned ${isObservable(result) ? 'an Observable' : 'an async iterable'}: it would do its work after the lock was released. Return a promise of the result, for example with lastValueFrom; streaming support is planned as @FencedStream. The lock has been released.`,
  );
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}
