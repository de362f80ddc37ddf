import { Logger, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { durationMs } from '../../core/options/duration.ts';
import type { LockEvent } from '../../core/events.ts';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { REDLOCK_DEFAULTS, type RedlockOptions } from '../../core/options/options.ts';
import { Redlock } from '../../core/redlock.ts';
import { logLockEvent } from './lock-event-log.ts';
import { createNodes } from './node-inputs.ts';
import type { RedlockModuleOptions } from '../redlock-module-options.ts';
import { startRedlock } from './startup.ts';
import { watchFence } from './watch-fence.ts';

const DEFAULT_STARTUP_TIMEOUT = '10s';

/** Owns the application's {@link Redlock} from its first use to the shutdown. */
export class RedlockHost implements OnModuleInit, BeforeApplicationShutdown {
  readonly #redlock: Redlock;
  readonly #nodes: readonly LockNode[];
  readonly #options: RedlockModuleOptions;
  readonly #logger = new Logger('RedlockModule');
  readonly #startupTimeoutMs: number;
  readonly #shutdownTimeoutMs: number;
  readonly #unwatchFence: () => void;
  #opened = false;

  /** @throws RedlockConfigError */
  constructor(options: RedlockModuleOptions) {
    const ttl = options.ttl ?? REDLOCK_DEFAULTS.ttl;
    this.#options = options;
    this.#startupTimeoutMs = durationMs(
      'startupTimeout',
      options.startupTimeout ?? DEFAULT_STARTUP_TIMEOUT,
      1,
    );
    this.#shutdownTimeoutMs = durationMs('shutdownTimeout', options.shutdownTimeout ?? ttl);
    this.#nodes = createNodes(options.nodes, options.keyPrefix);
    const onEvent = (event: LockEvent) => {
      logLockEvent(this.#logger, event);
      options.onEvent?.(event);
    };
    this.#redlock = new Redlock(this.#nodes, { ...algorithmOptions(options), onEvent });
    this.#unwatchFence = watchFence(options.fence, this.#logger, onEvent);
  }

  /** Connected at the first use, which may come before Nest's init hooks, or never (a module compiled for a unit test). */
  get redlock(): Redlock {
    if (!this.#opened) {
      this.#opened = true;
      this.#redlock.open();
    }
    return this.#redlock;
  }

  async onModuleInit(): Promise<void> {
    try {
      await startRedlock({
        redlock: this.redlock,
        nodes: this.#nodes,
        options: this.#options,
        timeoutMs: this.#startupTimeoutMs,
        logger: this.#logger,
      });
    } catch (error) {
      // An application that does not start must not be kept alive by our connections.
      this.#unwatchFence();
      await this.#redlock.close();
      throw error;
    }
  }

  /** Before the HTTP server stops: held sections may still answer their requests. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#redlock.drain(this.#shutdownTimeoutMs);
    this.#unwatchFence();
    await this.#redlock.close();
  }
}

/** Without what only this layer understands. */
function algorithmOptions(options: RedlockModuleOptions): RedlockOptions {
  const {
    nodes: _nodes,
    strict: _strict,
    startupTimeout: _startupTimeout,
    shutdownTimeout: _shutdownTimeout,
    isInTransaction: _isInTransaction,
    fence: _fence,
    ...algorithm
  } = options;
  return algorithm;
}
