import { isRedlockError, type StaleTokenError } from '../core/errors.ts';
import { noteAdmission } from '../core/fencing-token.ts';
import { callback } from '../core/options/option-names.ts';
import type {
  FenceEvent,
  FenceEventListener,
  FenceOptions,
  FenceToken,
  StaleContext,
} from './fence.ts';
import type { FenceClaim } from './fence-claim.ts';

/** A stale token, and what it was brought for. */
export interface Refusal {
  readonly error: StaleTokenError;
  readonly token: FenceToken | undefined;
  readonly claims: readonly FenceClaim[];
}

/** Reports to the user's listeners what a fence did, so that no fault of a listener changes what the caller gets. */
export class FenceReporter {
  private readonly observers = new Set<FenceEventListener>();
  private readonly onStale: FenceOptions['onStale'];

  constructor({ onStale, onEvent }: FenceOptions) {
    this.onStale = onStale;
    if (onEvent !== undefined) this.observe(onEvent);
  }

  /** Reports to `listener`, too, until the returned function is called. */
  observe(listener: FenceEventListener): () => void {
    callback(listener, 'listener');
    // A listener may be given twice: each call has an observer of its own.
    const observer: FenceEventListener = (event) => listener(event);
    this.observers.add(observer);
    return () => void this.observers.delete(observer);
  }

  /**
   * Runs one use of the fence, and reports whether the token was admitted or refused.
   * @param token that of `claims`
   * @param hidden the refusal that an error of `work` hides, when there is one
   */
  async reporting<Result>(
    token: FenceToken | undefined,
    claims: readonly FenceClaim[],
    operation: StaleContext['operation'],
    work: () => Promise<Result>,
    hidden: { readonly refusal?: Refusal } = {},
  ): Promise<Result> {
    try {
      const result = await work();
      noteAdmission(token!, true);
      this.emit({ type: 'admitted', ...subject(claims), operation });
      return result;
    } catch (error) {
      const refusal = isRefusal(claims, error) ? { error, token, claims } : hidden.refusal;
      if (!refusal) throw error;
      const about = subject(refusal.claims);
      noteAdmission(refusal.token!, false);
      this.emit({ type: 'stale', ...about, operation, error: refusal.error });
      try {
        await this.onStale?.(refusal.error, { operation, token: refusal.token as FenceToken });
      } catch (failure) {
        if (this.observers.size === 0)
          process.emitWarning(
            `onStale failed for a rejected write: ${String(failure)}`,
            'FenceWarning',
          );
        this.emit({ type: 'compensation-failed', ...about, error: failure });
      }
      throw error;
    }
  }

  retried(claims: readonly FenceClaim[], attempt: number, error: unknown): void {
    this.emit({ type: 'retried', ...subject(claims), attempt, error });
  }

  private emit(event: FenceEvent): void {
    // An observer that is added meanwhile receives later events only.
    const observers = [...this.observers];
    for (const observer of observers) {
      try {
        const outcome: unknown = observer(event);
        if (outcome !== undefined) Promise.resolve(outcome).catch(() => undefined);
      } catch {
        // A listener's fault, an asynchronous one too, is not the caller's.
      }
    }
  }
}

/**
 * Whether a fence rejected a token with this error; it may come from another copy of this package.
 *
 * @example
 * ```ts
 * try {
 *   await fence.transaction(token, work);
 * } catch (error) {
 *   if (isStaleTokenError(error)) await payments.refund(payment);
 *   throw error;
 * }
 * ```
 */
export function isStaleTokenError(error: unknown): error is StaleTokenError {
  return isRedlockError(error) && error.code === 'STALE_TOKEN';
}

/** Whether the error is the refusal of these claims, and not that of another holder who used a fence inside the work. */
function isRefusal(claims: readonly FenceClaim[], error: unknown): error is StaleTokenError {
  if (!isStaleTokenError(error)) return false;
  const { currentToken, currentHolder } = error;
  const claim = claims.find(({ key, token }) => key === error.key && token === error.token);
  return claim !== undefined && !(currentToken === claim.token && currentHolder === claim.holder);
}

function subject(claims: readonly FenceClaim[]): { keys: readonly string[]; token: string } {
  return { keys: claims.map((claim) => claim.key), token: claims[0]?.token ?? '' };
}
