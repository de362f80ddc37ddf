import {
  Inject,
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { defer, lastValueFrom, type Observable } from 'rxjs';
import { FencedUsageError, isRedlockError, quoteKeys } from '../../core/errors.ts';
import type { FencingToken } from '../../core/fencing-token.ts';
import type { Lock } from '../../core/lock.ts';
import { claimToken } from './claim-token.ts';
import { fencedDefinitionOf } from './fenced-call.ts';
import type { FencedDefinition } from './fenced-metadata.ts';
import { LockService } from '../lock.service.ts';
import type { ModuleFence } from '../module-fence.ts';
import { IS_IN_TRANSACTION, MODULE_FENCE } from '../redlock.constants.ts';

/**
 * Takes the lock of a call, runs it, releases. The methods under `@Fenced` call it by themselves; it need not be bound.
 * Bound by hand (`@UseInterceptors`) it passes every call through, because the method locks already.
 */
@Injectable()
export class FencedInterceptor implements NestInterceptor {
  /** Tokens that are at the fence already: nested methods join the lock, and need not claim again. */
  private readonly claimed = new WeakSet<FencingToken>();

  constructor(
    @Inject(LockService) private readonly locks: Pick<LockService, 'withLock' | 'holds'>,
    @Inject(IS_IN_TRANSACTION) private readonly isInTransaction: () => boolean,
    @Inject(MODULE_FENCE) private readonly fence: ModuleFence,
  ) {}

  intercept(context: ExecutionContext, next: CallHandler): Observable<unknown> {
    const definition = fencedDefinitionOf(context);
    if (definition === undefined) return next.handle();
    return defer(() => this.runLocked(definition, context.getArgs(), next));
  }

  private async runLocked(
    definition: FencedDefinition,
    args: unknown[],
    next: CallHandler,
  ): Promise<unknown> {
    // What a caller passed there is forged: not even the key function may see it.
    writeToken(definition, args, undefined);
    const keys = definition.keysOf(args);
    this.refuseInTransaction(definition, keys);
    let isRunning = false;
    const work = async (lock: Lock) => {
      isRunning = true;
      if (definition.claim) await this.claim(lock);
      writeToken(definition, args, lock.token);
      return lastValueFrom(next.handle(), { defaultValue: undefined });
    };
    try {
      return await this.locks.withLock(keys, work, definition.lockOptions);
    } catch (error) {
      // A busy lock inside the method is the method's own error: half of its work may be done.
      if (definition.skipWhenBusy && !isRunning && isBusy(error)) return undefined;
      throw error;
    }
  }

  private async claim(lock: Lock): Promise<void> {
    if (this.claimed.has(lock.token)) return;
    await claimToken(this.fence, lock);
    this.claimed.add(lock.token);
  }

  private refuseInTransaction(definition: FencedDefinition, keys: readonly string[]): void {
    if (definition.allowInTransaction || !this.isInTransaction()) return;
    // A lock held around the transaction is only joined, and outlives the commit.
    if (this.locks.holds(keys)) return;
    throw new FencedUsageError(
      `${definition.where}: @Fenced was called inside an open transaction. The lock ${quoteKeys(keys)} would be released before the commit, and the next holder would read old data. Call it outside of the transaction (put @Fenced above @Transactional, on the method that begins it), or set allowInTransaction: true if the method opens an independent transaction (REQUIRES_NEW).`,
      keys,
    );
  }
}

function writeToken(definition: FencedDefinition, args: unknown[], token: unknown): void {
  for (const index of definition.tokenParameters) args[index] = token;
}

function isBusy(error: unknown): boolean {
  return isRedlockError(error) && error.code === 'LOCK_BUSY';
}
