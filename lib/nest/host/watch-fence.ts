import type { Logger } from '@nestjs/common';
import { quoteKeys } from '../../core/errors.ts';
import type { LockEvent } from '../../core/events.ts';
import type { ModuleFence } from '../module-fence.ts';

/**
 * Hears the refusals of the fence, whoever used it, until the returned function is called. A compensation (`onStale`) that
 * failed is an error in the log: what it should have undone still stands.
 */
export function watchFence(
  fence: ModuleFence | undefined,
  logger: Pick<Logger, 'error'>,
  tell: (event: LockEvent) => void,
): () => void {
  const unwatch = fence?.observe?.((event) => {
    if (event.type === 'stale') tell({ type: 'stale', keys: event.keys, error: event.error });
    if (event.type === 'compensation-failed') {
      logger.error(
        `onStale failed after token ${event.token} for ${quoteKeys(event.keys)} was refused, so what this holder did elsewhere still stands: ${String(event.error)}`,
      );
    }
  });
  return unwatch ?? (() => undefined);
}
