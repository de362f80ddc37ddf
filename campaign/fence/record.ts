import type { StaleTokenError } from '../../lib/core/errors.ts';
import { isStaleTokenError, type FenceOptions } from '../../lib/fencing/index.ts';
import { judge, type CommittedWrite, type Violations } from './commit-order.ts';
import type { Holder } from './holders.ts';

/** The time after a crash in which calls fail with whatever their driver says of lost connections. */
const CRASH_ECHO_MS = 8_000;

export const MAX_AGE_MS = 86_400_000;
/** The clocks are those of one machine. */
const SKEW_MS = 100;

/** Must be zero. */
export interface Verdict extends Violations {
  /** The writes that succeeded for their callers, and which the database does not have. */
  readonly missing: number;
  /** The refusals of holders although no newer one had come. */
  readonly wronglyRefused: number;
  /** The refusals without, or with more than, one call of `onStale` and one event. */
  readonly unreported: number;
  /** Errors other than refusals and lost connections. */
  readonly unexpected: number;
}

/** The account of what happened at one store. */
export class Record {
  refused = 0;
  crashes = 0;
  pruned = 0;
  readonly acknowledged = new Set<string>();
  readonly unexpected: unknown[] = [];
  readonly wronglyRefused: unknown[] = [];
  #compensated = 0;
  #staleEvents = 0;
  #crashedAtMs = Number.NEGATIVE_INFINITY;
  readonly #issued = new Map<string, Set<string>>();

  /** The options of every fence of the store. */
  readonly options: FenceOptions = {
    maxAge: MAX_AGE_MS,
    onStale: () => void (this.#compensated += 1),
    onEvent: ({ type }) => void (this.#staleEvents += Number(type === 'stale')),
  };

  issued({ resource, token, holder }: Holder): void {
    const known = this.#issued.get(resource) ?? new Set();
    this.#issued.set(resource, known.add(`${token.value};${holder}`));
  }

  crashed(): void {
    this.crashes += 1;
    this.#crashedAtMs = performance.now();
  }

  /** Counts how the work of a holder, or a prune, failed. */
  failed(error: unknown): void {
    if (isStaleTokenError(error)) {
      this.refused += 1;
      if (!this.#isRight(error)) this.wronglyRefused.push(error);
      return;
    }
    if (performance.now() - this.#crashedAtMs > CRASH_ECHO_MS) this.unexpected.push(error);
  }

  /** A newer holder was there: a number that was issued and is higher, the same one of another holder; or it was too old. */
  #isRight({ key, token, currentToken = '0', currentHolder = '' }: StaleTokenError): boolean {
    const [own, current] = [BigInt(token), BigInt(currentToken)];
    if (currentHolder === '')
      return own < current && current <= BigInt(Date.now() + SKEW_MS - MAX_AGE_MS) * 1_000n;
    const isIssued = this.#issued.get(key)?.has(`${current};${currentHolder}`) === true;
    return isIssued && current >= own;
  }

  judge(history: readonly CommittedWrite[]): Verdict {
    const there = new Set(history.map(({ writer }) => writer));
    const reports = [this.#compensated, this.#staleEvents];
    return {
      ...judge(history),
      missing: [...this.acknowledged].filter((writer) => !there.has(writer)).length,
      wronglyRefused: this.wronglyRefused.length,
      unreported: Math.max(...reports.map((count) => Math.abs(count - this.refused))),
      unexpected: this.unexpected.length,
    };
  }
}
