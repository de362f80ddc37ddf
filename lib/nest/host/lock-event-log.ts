import type { Logger } from '@nestjs/common';
import { quoteKeys } from '../../core/errors.ts';
import type { LockEvent } from '../../core/events.ts';

/** Logs the events somebody on call should know of. Contention and ordinary life are silent; `onEvent` hears everything. */
export function logLockEvent(logger: Logger, event: LockEvent): void {
  switch (event.type) {
    case 'lost':
    case 'stale':
      logger.warn(event.error.message);
      return;
    case 'release-incomplete':
      logger.warn(
        `Release of lock ${quoteKeys(event.keys)} (token ${event.token}) was not confirmed by a quorum; it is repeated, and ends with its TTL at the latest.`,
      );
      return;
    case 'slow-quorum':
      logger.warn(
        `A round trip to a quorum of nodes took ${Math.round(event.roundTripMs)} ms, more than a tenth of the TTL (${event.ttlMs} ms): locks may be lost. Look at network and server latency, or raise 'ttl'.`,
      );
      return;
    case 'node-left':
      logger.warn(`Node ${event.address} left: ${event.message}`);
      return;
    case 'node-joined':
      logger.log(`Node ${event.address} joined${waiting(event.quarantineMs)}.`);
      return;
  }
}

function waiting(quarantineMs: number): string {
  return quarantineMs > 0
    ? `; it was restarted or is new, and votes in ${Math.ceil(quarantineMs)} ms (restart guard)`
    : '';
}
