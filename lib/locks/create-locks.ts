import { checkOptions, having } from '../core/options/option-names.ts';
import type { LockLogger } from './event-log.ts';
import { createNodes, LOCK_SERVICE_OPTIONS, LockHost } from './lock-host.ts';
import { LockService } from './lock-service.ts';
import type { LockServiceOptions } from './locks-options.ts';

/** The options of {@link createLocks}: those of `RedlockModule.forRoot`, without what only an application of Nest has. */
export interface LocksOptions extends LockServiceOptions {
  /** Takes what a Nest application has in its log. @default stderr, because another program may read the output of a script */
  readonly logger?: LockLogger;
}

const OPTIONS = {
  ...LOCK_SERVICE_OPTIONS,
  logger: having<LockLogger>('warn', 'give an object with log(), warn() and error()'),
};

const say = (message: string): void => console.error(message);
const STDERR: LockLogger = { log: say, warn: say, error: say };

/** What {@link createLocks} gives: the methods of `LockService`, and an end. */
export class Locks extends LockService implements AsyncDisposable {
  /**
   * Gives no new locks, waits up to `shutdownTimeout` for sections that hold one, releases the rest, and closes its own
   * connections. Never rejects. A process that ends without it leaves the locks that it holds until their ttl is over.
   */
  close(): Promise<void> {
    return this.host.shutDown();
  }

  /** Like {@link close}: for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Locks without Nest, for scripts, functions and other frameworks: those of `RedlockModule`, with the same checks, tokens and rules.
 *
 * It resolves when the servers were examined and give locks, within `startupTimeout`: the first call finds all as later ones do. A
 * process needs it once. Its connections do not keep the process alive, and calls that wait for an answer do.
 *
 * @throws RedlockConfigError for wrong options, and when locks over these servers would not be safe
 * @throws QuorumUnavailableError when too few servers are there; nothing stays open
 *
 * @example
 * ```ts
 * await using locks = await createLocks({ nodes: ['redis://localhost:6379'] });
 * await locks.withLock('report:all', async (lock) => {
 *   await work(lock.signal);
 * });
 * ```
 */
export async function createLocks(options: LocksOptions): Promise<Locks> {
  const checked = checkOptions('createLocks', OPTIONS, options);
  const nodes = await createNodes(options.nodes, checked);
  const host = new LockHost(options, checked, checked.logger ?? STDERR, nodes);
  await host.start();
  await host.checkFence();
  return new Locks(host);
}
