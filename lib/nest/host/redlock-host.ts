import {
  Logger,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnModuleInit,
} from '@nestjs/common';
import type { LockEventListener } from '../../core/events.ts';
import type { LockNode } from '../../core/nodes/lock-node.ts';
import { quoteKeys, RedlockConfigError } from '../../core/errors.ts';
import { inSeconds } from '../../core/options/duration.ts';
import {
  callback,
  checkOptions,
  duration,
  flag,
  having,
  kindOf,
} from '../../core/options/option-names.ts';
import { REDLOCK_DEFAULTS } from '../../core/options/options.ts';
import { resolveAcquire, SERVICE_OPTIONS } from '../../core/options/resolve-options.ts';
import { Redlock } from '../../core/redlock.ts';
import type { ModuleFence, NodeInput, RedlockModuleOptions } from '../redlock-module-options.ts';
import { FenceClaims, OF_SECTION, type SectionOptions } from '../section.ts';
import { eventListener, watchFence } from './event-log.ts';
import { checkModuleFence, startRedlock, type StartSettings } from './startup.ts';
import { RedisLockNode } from '../../redis/redis-lock-node.ts';

/** A test finds them in docs/options.md. */
export const MODULE_OPTIONS = {
  nodes: (value: unknown) => value,
  ...SERVICE_OPTIONS,
  strict: flag,
  startupTimeout: duration(1),
  waitForVotes: flag,
  shutdownTimeout: duration(),
  httpErrors: flag,
  isInTransaction: callback,
  fence: having<ModuleFence>('claim', 'give one such as postgresFence(pool)'),
};

/** Owns the application's {@link Redlock} from its first use to the shutdown. */
export class RedlockHost
  implements OnModuleInit, OnApplicationBootstrap, BeforeApplicationShutdown
{
  readonly logger = new Logger('RedlockModule');
  readonly addresses: readonly string[];
  /** Undefined where the module was given none. */
  readonly fence: ModuleFence | undefined;
  readonly claims = new FenceClaims(this);
  readonly isInTransaction: (() => boolean) | undefined;
  readonly #redlock: Redlock;
  readonly #nodes: readonly LockNode[];
  readonly #onEvent: LockEventListener;
  readonly #start: StartSettings;
  readonly #shutdownTimeoutMs: number;
  #unwatchFence: (() => void) | undefined;
  #opened = false;

  /** Connects to nothing. @throws RedlockConfigError */
  constructor(options: RedlockModuleOptions, nodes: readonly NodeInput[]) {
    const given = checkOptions('RedlockModule', MODULE_OPTIONS, options);
    this.fence = given.fence;
    this.isInTransaction = given.isInTransaction;
    this.#onEvent = eventListener(this.logger, given.onEvent);
    this.#nodes = createNodes(nodes, given.keyPrefix ?? REDLOCK_DEFAULTS.keyPrefix);
    this.addresses = this.#nodes.map(({ address }) => address);
    this.#redlock = new Redlock(this.#nodes, { ...options, onEvent: this.#onEvent });
    this.#start = {
      strict: given.strict ?? false,
      timeoutMs: given.startupTimeout ?? 10_000,
      waitForVotes: given.waitForVotes ?? true,
    };
    this.#shutdownTimeoutMs = given.shutdownTimeout ?? this.#redlock.options.acquire.ttlMs;
  }

  /** Connected at the first use, which may come before Nest's init hooks, or never (a module compiled for a unit test). */
  get redlock(): Redlock {
    if (!this.#opened) {
      this.#opened = true;
      // When the start fails in between, nobody closes it; calls keep the process alive by themselves.
      for (const node of this.#nodes) node.holdProcess?.(false);
      this.#redlock.open();
      if (this.fence) this.#unwatchFence = watchFence(this.fence, this.logger, this.#onEvent);
    }
    return this.#redlock;
  }

  /** @throws RedlockConfigError when the options of a method don't fit those of the module */
  checkOptions(options: SectionOptions): unknown {
    return resolveAcquire(this.#redlock.options, options, OF_SECTION);
  }

  onModuleInit(): Promise<void> {
    return this.#starting(() => startRedlock(this.redlock, this.#nodes, this.#start, this.logger));
  }

  /** Later than the hooks that connect to the database, or migrate it. */
  async onApplicationBootstrap(): Promise<void> {
    const { fence, redlock, logger } = this;
    if (fence)
      await this.#starting(() => checkModuleFence(fence, redlock, this.#start.timeoutMs, logger));
    for (const node of this.#nodes) node.holdProcess?.(true);
  }

  /** An application that does not start must not be kept alive by these connections. */
  async #starting(step: () => Promise<void>): Promise<void> {
    try {
      await step();
    } catch (error) {
      await this.#close();
      throw error;
    }
  }

  /** Runs before the HTTP server stops: held sections may still answer their requests. */
  async beforeApplicationShutdown(): Promise<void> {
    const { heldKeys } = this.#redlock;
    if (heldKeys.length > 0 && this.#shutdownTimeoutMs > 0)
      this.logger.log(
        `The shutdown waits up to ${inSeconds(this.#shutdownTimeoutMs)} for work that holds the ${heldKeys.length === 1 ? 'lock' : 'locks'} ${quoteKeys(heldKeys)}.`,
      );
    await this.#redlock.drain(this.#shutdownTimeoutMs);
    await this.#close();
  }

  async #close(): Promise<void> {
    this.#unwatchFence?.();
    await this.#redlock.close();
  }
}

/** @throws RedlockConfigError when an input is none of these, or a server is listed twice: it would have two votes */
function createNodes(inputs: readonly NodeInput[], keyPrefix: string): LockNode[] {
  // Value is not shown: what stands where an array should be may be a URL with a password.
  if (!Array.isArray(inputs) || inputs.length === 0) {
    const fix = "give a non-empty array of Redis servers, for example ['redis://localhost:6379']";
    throw new RedlockConfigError('nodes', undefined, fix, kindOf(inputs));
  }
  const nodes = inputs.map((input: NodeInput, index) =>
    isLockNode(input)
      ? (input.forService?.() ?? input)
      : new RedisLockNode(input, { keyPrefix, option: `nodes[${index}]` }),
  );
  const servers = nodes.map(({ address }) => address.toLowerCase());
  const again = nodes[servers.findIndex((server, index) => servers.indexOf(server) < index)];
  if (again !== undefined) {
    throw new RedlockConfigError(
      'nodes',
      again.address,
      'it is listed twice, and databases of one server are one server: list each independent server once',
    );
  }
  return nodes;
}

function isLockNode(input: NodeInput): input is LockNode {
  return typeof (input as Partial<LockNode> | undefined)?.examine === 'function';
}
