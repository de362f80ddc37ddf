import { listOf, quoteKeys } from '../core/errors.ts';
import type { Caller, Configuration, LockEvent, LockEventListener } from '../core/events.ts';
import { inSeconds } from '../core/options/duration.ts';
import type { ModuleFence } from './locks-options.ts';

/** Takes what somebody on call should know of: a Nest logger, `console`, or one of your own. */
export interface LockLogger {
  /** Ordinary news: servers that joined, a wait that is over. */
  log(message: string): void;
  /** A risk, or something that failed and is tried again. */
  warn(message: string): void;
  /** What keeps callers from their locks, or needs a person. */
  error(message: string): void;
}

/** Logs the first error that code of the user has thrown from the option `name`: what follows would fill the log. */
export function firstFailure(logger: Pick<LockLogger, 'error'>, name: string) {
  let hasFailed = false;
  return (error: unknown): void => {
    if (hasFailed) return;
    hasFailed = true;
    const detail = error instanceof Error ? error.stack : String(error);
    logger.error(
      `${name} failed. Locks are not affected, and later failures of it are not logged. Fix what this option was given: ${detail}`,
    );
  };
}

/**
 * The one listener of a service: logs what somebody on call should know of, and hands every event to the user's
 * `onEvent`. When that throws or rejects, the first error is logged, and nothing else changes.
 */
export function eventListener(
  logger: LockLogger,
  onEvent: LockEventListener | undefined,
  telemetry?: { onEvent(event: LockEvent): void },
): LockEventListener {
  const failed = firstFailure(logger, 'onEvent');
  const listener = (event: LockEvent): void => {
    const warning = warningOf(event);
    const where = 'where' in event && event.where !== undefined ? `${event.where}: ` : '';
    if (warning !== undefined) logger.warn(where + warning);
    if (event.type === 'quorum-lost')
      logger.error(
        `No quorum of servers answers: nobody gets a lock until one does, and held locks may be lost. ${listOf(event.causes)}.`,
      );
    if (event.type === 'quorum-back')
      logger.log(
        `A quorum of servers answers again, after ${inSeconds(event.downMs)}. Calls that got no lock meanwhile: ${event.refusedCalls}.`,
      );
    if (event.type === 'elected')
      logger.log(
        `${where}this process leads, with token ${event.token} of ${quoteKeys(event.keys)}.`,
      );
    if (event.type === 'deposed')
      logger.log(
        `${where}this process does not lead any more, after ${inSeconds(event.heldMs)} with token ${event.token} of ${quoteKeys(event.keys)}.`,
      );
    if (event.type === 'node-joined') {
      const waitMs = Math.ceil(event.quarantineMs);
      const why = event.isMoved
        ? 'another server answers at this address now'
        : 'it is new, or was restarted or promoted';
      const guard = `: ${why}, and gives locks in ${waitMs} ms (restart guard)`;
      logger.log(`Server ${event.address} joined${waitMs > 0 ? guard : ''}.`);
    }
    telemetry?.onEvent(event);
    try {
      // A listener may be an async function all the same.
      const outcome: unknown = onEvent?.(event);
      if (outcome !== undefined) Promise.resolve(outcome).catch(failed);
    } catch (error) {
      failed(error);
    }
  };
  return Object.assign(listener, {
    skipsOrdinary: telemetry === undefined && (onEvent?.skipsOrdinary ?? onEvent === undefined),
  });
}

/**
 * Receives the refusals of the fence, by all its users, until the returned function is called. A compensation (`onStale`) that
 * failed is an error in the log: what it should have undone still stands. `caller` is the method in whose section that happens.
 */
export function watchFence(
  fence: ModuleFence,
  logger: Pick<LockLogger, 'error'>,
  listener: LockEventListener,
  caller: () => Caller | undefined,
): (() => void) | undefined {
  return fence.observe?.((event) => {
    if (event.type === 'stale')
      listener({ type: 'stale', keys: event.keys, ...caller(), error: event.error });
    if (event.type === 'compensation-failed') {
      logger.error(
        `onStale failed after token ${event.token} for ${quoteKeys(event.keys)} was rejected, so what this holder did elsewhere still stands. Undo it by hand: ${String(event.error)}`,
      );
    }
  });
}

function shownNodes({ nodes, quorum }: Configuration): string {
  return `${nodes.join(', ')} with quorum ${quorum}`;
}

/** Nothing for contention and ordinary life. */
function warningOf(event: LockEvent): string | undefined {
  switch (event.type) {
    case 'lost':
      // The ordinary end of a call with `onBusy: 'replace'`.
      return event.error.reason === 'replaced' ? undefined : event.error.message;
    case 'stale':
      return event.error.message;
    case 'held-long':
      return `Lock ${quoteKeys(event.keys)} (token ${event.token}) has been held for ${inSeconds(event.heldMs)}, and is still renewed. If its work should have ended by now, find out why it hangs. The option 'maxHold' ends such a lock.`;
    case 'permits-differ':
      return `Key ${quoteKeys(event.keys)} has ${event.permits} permits here, and in the last ten minutes somebody locked it with more, or without permits. Such holders do not count as one of the ${event.permits}. Give all calls for this key the same number; while a deploy lowers it, this is no fault.`;
    case 'release-incomplete':
      return `The release of lock ${quoteKeys(event.keys)} (token ${event.token}) was not confirmed by a quorum. It is tried again, and the lock expires after its ttl at the latest.`;
    case 'slow-quorum':
      return `A round trip to a quorum of servers took ${Math.round(event.roundTripMs)} ms, more than a tenth of the ttl (${event.ttlMs} ms): locks may be lost. Look at the latency of the network and the servers, or raise 'ttl'.`;
    case 'node-left':
      return `Server ${event.address} left: ${event.message.replace(/\.$/, '')}.${event.hasQuorum ? ' Locks still work, because a quorum is connected.' : ''}`;
    case 'configurations-differ':
      return `In the last 24 hours, a process connected with the nodes ${shownNodes(event.other)}, and this one has ${shownNodes(event.own)} (${event.address} knows both). If that process still runs, one lock can have two holders. Give all processes the same nodes and quorum, under the same names; see "Changing the set of nodes" in docs/operations.md.`;
    case 'node-joined':
      return event.upMs === undefined
        ? undefined
        : `Node ${event.address} leads to another server than before, which has been up for ${inSeconds(event.upMs)}: two processes could hold one lock, each on another server. Locks that the other one granted are lost. Give each server as a node of its own, by an address that leads to no other; see "One Redis or three" in docs/hosting.md.`;
    case 'node-failing':
      return `Server ${event.address} gives no locks: ${event.reason}`;
    case 'run-missed': {
      const { length } = event.times;
      const runs = length === 1 ? 'a run' : `${length} runs, the last one`;
      const end = "is older than 'catchUp', or has died three times, and is skipped";
      const next = event.isRun ? 'begins now' : end;
      return `The job '${event.name}' has missed ${runs} of ${event.times.at(-1)}: no process was there, or it died. The run of ${event.scheduled} ${next}.`;
    }
    case 'release-delayed':
      return `Lock ${quoteKeys(event.keys)} is still kept by ${event.sections} nested ${event.sections === 1 ? 'call' : 'calls'} that joined it, ${Math.round(event.sinceMs)} ms after its outer work ended. Probably a promise was not awaited: await it in the outer work, or start work that outlives the outer work after that has ended.`;
    default:
      return undefined;
  }
}
