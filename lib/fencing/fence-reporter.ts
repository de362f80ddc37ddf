import { isRedlockError, type StaleTokenError } from '../core/errors.ts';
import type { FenceEvent, FenceEventListener, FenceOptions, StaleContext } from './fence.ts';
import type { FenceClaim, FenceToken } from './fence-claim.ts';

/** Tells the user's listeners what a fence did, so that no fault of a listener changes what the caller gets. */
export class FenceReporter {
  private readonly observers = new Set<{ readonly listener: FenceEventListener }>();

  constructor(private readonly options: FenceOptions) {}

  /** Also tells `listener`, until the returned function is called. */
  observe(listener: FenceEventListener): () => void {
    const observer = { listener };
    this.observers.add(observer);
    return () => void this.observers.delete(observer);
  }

  admitted(claims: readonly FenceClaim[], operation: StaleContext['operation']): void {
    this.emit({ type: 'admitted', ...subject(claims), operation });
  }

  retried(claims: readonly FenceClaim[], attempt: number, error: unknown): void {
    this.emit({ type: 'retried', ...subject(claims), attempt, error });
  }

  async stale(
    error: StaleTokenError,
    token: FenceToken,
    claims: readonly FenceClaim[],
    operation: StaleContext['operation'],
  ): Promise<void> {
    this.emit({ type: 'stale', ...subject(claims), operation, error });
    try {
      await this.options.onStale?.(error, { operation, token });
    } catch (failure) {
      if (!this.options.onEvent && this.observers.size === 0)
        process.emitWarning(
          `onStale failed for a refused write: ${String(failure)}`,
          'FenceWarning',
        );
      this.emit({ type: 'compensation-failed', ...subject(claims), error: failure });
    }
  }

  private emit(event: FenceEvent): void {
    const { onEvent } = this.options;
    const listeners = [...this.observers].map(({ listener }) => listener);
    for (const listener of onEvent ? [onEvent, ...listeners] : listeners) {
      try {
        listener(event);
      } catch {
        // A listener's fault is not the caller's.
      }
    }
  }
}

/** Whether the error is a refusal by a fence, also one from another copy of this package. */
export function isStaleTokenError(error: unknown): error is StaleTokenError {
  return isRedlockError(error) && error.code === 'STALE_TOKEN';
}

function subject(claims: readonly FenceClaim[]): { keys: readonly string[]; token: string } {
  return { keys: claims.map((claim) => claim.key), token: claims[0]?.token ?? '' };
}
