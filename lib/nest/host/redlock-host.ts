import { Logger, type BeforeApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import type { LockEventListener } from '../../core/events.ts';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { durationMs } from '../../core/options/duration.ts';
import type { WithLockOptions } from '../../core/options/options.ts';
import { resolveAcquire, resolveKeyPrefix } from '../../core/options/resolve-options.ts';
import { Redlock } from '../../core/redlock.ts';
import type { FencedApplication } from '../fenced/boot-checks.ts';
import {
  partOptions,
  type RedlockHostOptions,
  type RedlockModuleOptions,
} from '../redlock-module-options.ts';
import { eventListener, watchFence } from './event-log.ts';
import { createNodes } from './node-inputs.ts';
import { startRedlock } from './startup.ts';

const DEFAULT_STARTUP_TIMEOUT = '10s';

/** Owns the application's {@link Redlock} from its first use to the shutdown. */
export class RedlockHost implements OnModuleInit, BeforeApplicationShutdown, FencedApplication {
  readonly logger = new Logger('RedlockModule');
  readonly #redlock: Redlock;
  readonly #nodes: readonly LockNode[];
  readonly #options: RedlockHostOptions;
  readonly #onEvent: LockEventListener;
  readonly #startupTimeoutMs: number;
  readonly #shutdownTimeoutMs: number;
  #unwatchFence: (() => void) | undefined;
  #opened = false;

  /** Connects to nothing. @throws RedlockConfigError */
  constructor(options: RedlockModuleOptions) {
    const { algorithm, host } = partOptions(options);
    this.#options = host;
    this.#onEvent = eventListener(this.logger, algorithm.onEvent);
    this.#nodes = createNodes(host.nodes, resolveKeyPrefix(algorithm.keyPrefix));
    this.#redlock = new Redlock(this.#nodes, { ...algorithm, onEvent: this.#onEvent });
    const { ttlMs } = this.#redlock.options.acquire;
    const { startupTimeout = DEFAULT_STARTUP_TIMEOUT, shutdownTimeout = ttlMs } = host;
    this.#startupTimeoutMs = durationMs('startupTimeout', startupTimeout, 1);
    this.#shutdownTimeoutMs = durationMs('shutdownTimeout', shutdownTimeout);
  }

  /** Connected at the first use, which may come before Nest's init hooks, or never (a module compiled for a unit test). */
  get redlock(): Redlock {
    if (!this.#opened) {
      this.#opened = true;
      this.#redlock.open();
      this.#unwatchFence = watchFence(this.#options.fence, this.logger, this.#onEvent);
    }
    return this.#redlock;
  }

  get addresses(): readonly string[] {
    return this.#nodes.map(({ address }) => address);
  }

  get hasFence(): boolean {
    return this.#options.fence !== undefined;
  }

  checkOptions(options: WithLockOptions): unknown {
    return resolveAcquire(this.#redlock.options, options);
  }

  async onModuleInit(): Promise<void> {
    try {
      await startRedlock({
        redlock: this.redlock,
        nodes: this.#nodes,
        strict: this.#options.strict,
        timeoutMs: this.#startupTimeoutMs,
        logger: this.logger,
      });
    } catch (error) {
      // An application that does not start must not be kept alive by these connections.
      await this.#close();
      throw error;
    }
  }

  /** Before the HTTP server stops: held sections may still answer their requests. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#redlock.drain(this.#shutdownTimeoutMs);
    await this.#close();
  }

  async #close(): Promise<void> {
    this.#unwatchFence?.();
    await this.#redlock.close();
  }
}
