import type { LockEventListener } from '../core/events.ts';
import type { LockNode } from '../core/nodes/lock-node.ts';
import { quoteKeys, RedlockConfigError } from '../core/errors.ts';
import { inSeconds } from '../core/options/duration.ts';
import {
  callback,
  duration,
  flag,
  having,
  kindOf,
  type OptionValues,
} from '../core/options/option-names.ts';
import { resolveAcquire, SERVICE_OPTIONS } from '../core/options/resolve-options.ts';
import { Redlock } from '../core/redlock.ts';
import type { ClientSourceOptions } from '../redis/client/client-source.ts';
import { createNode } from '../redis/create-node.ts';
import { eventListener, watchFence, type LockLogger } from './event-log.ts';
import {
  fenceOfNodes,
  type LockServiceOptions,
  type ModuleFence,
  type NodeInput,
} from './locks-options.ts';
import { FenceClaims, OF_SECTION, type SectionOptions } from './section.ts';
import { checkModuleFence, startRedlock, watchTimers, type StartSettings } from './startup.ts';
import { SafeTelemetry, type LockTelemetry } from './telemetry.ts';

/** A test finds them in docs/options.md. */
export const LOCK_SERVICE_OPTIONS = {
  nodes: (value: unknown) => value,
  ...SERVICE_OPTIONS,
  credentials: callback,
  strict: flag,
  startupTimeout: duration(1),
  waitForVotes: flag,
  shutdownTimeout: duration(),
  fence: having<ModuleFence>('claim', 'give one such as postgresFence(pool)'),
  telemetry: having<LockTelemetry>('begin', 'give openTelemetry() of nestjs-fenced-lock/telemetry'),
};

/** Owns a {@link Redlock} from its first use to the shutdown. */
export class LockHost {
  readonly addresses: readonly string[];
  /** Undefined where none was given. */
  readonly fence: ModuleFence | undefined;
  readonly claims = new FenceClaims(this);
  readonly telemetry: SafeTelemetry | undefined;
  readonly #redlock: Redlock;
  readonly #nodes: readonly LockNode[];
  readonly onEvent: LockEventListener;
  readonly #start: StartSettings;
  readonly shutdownTimeoutMs: number;
  /** Ends what watches it; undefined before its first use. */
  #watches: readonly ((() => void) | undefined)[] | undefined;

  /**
   * Connects to nothing.
   *
   * @param options with their values as given, of which `checked` are those that were checked
   * @param nodes of {@link createNodes}
   * @throws RedlockConfigError
   */
  constructor(
    options: LockServiceOptions,
    checked: OptionValues<typeof LOCK_SERVICE_OPTIONS>,
    readonly logger: LockLogger,
    nodes: readonly LockNode[],
  ) {
    // The nodes that a test puts in place of these leave the fence as it is.
    this.fence = checked.fence ?? fenceOfNodes(options.nodes);
    this.telemetry = checked.telemetry && new SafeTelemetry(checked.telemetry, logger);
    this.onEvent = eventListener(logger, checked.onEvent, this.telemetry);
    this.#nodes = nodes;
    this.addresses = this.#nodes.map(({ address }) => address);
    this.#redlock = new Redlock(this.#nodes, { ...options, onEvent: this.onEvent });
    this.#start = {
      strict: checked.strict ?? false,
      timeoutMs: checked.startupTimeout ?? 10_000,
      waitForVotes: checked.waitForVotes ?? true,
    };
    this.shutdownTimeoutMs = checked.shutdownTimeout ?? this.#redlock.options.acquire.ttlMs;
  }

  /** It is connected at the first use, which may come before the start, or never (a module compiled for a unit test). */
  get redlock(): Redlock {
    if (this.#watches === undefined) {
      const { fence, telemetry, logger } = this;
      const redlock = this.#redlock;
      this.#watches = [
        fence && watchFence(fence, logger, this.onEvent, () => redlock.caller),
        telemetry?.observe(() => redlock.status()),
      ];
      // When the start fails in between, nobody closes it; calls keep the process alive by themselves.
      this.holdProcess(false);
      redlock.open();
    }
    return this.#redlock;
  }

  get isClaimedByGrant(): boolean {
    // The tokens of another source come after the grant.
    const isOfQuorum = this.#redlock.options.tokenSource === undefined;
    return isOfQuorum && this.fence !== undefined && this.fence === fenceOfNodes(this.#nodes);
  }

  /** @throws RedlockConfigError when the options of a call don't fit these */
  checkOptions(options: SectionOptions): unknown {
    return resolveAcquire(this.#redlock.options, options, OF_SECTION);
  }

  /** Says whether connections that nobody waits for keep the process alive. */
  holdProcess(isHeld: boolean): void {
    for (const node of this.#nodes) node.holdProcess?.(isHeld);
  }

  start(): Promise<void> {
    return this.#starting(() => startRedlock(this.redlock, this.#nodes, this.#start, this.logger));
  }

  async checkFence(): Promise<void> {
    const { fence, redlock, logger } = this;
    if (fence)
      await this.#starting(() => checkModuleFence(fence, redlock, this.#start.timeoutMs, logger));
  }

  /** What does not start must not be kept alive by these connections. */
  async #starting(step: () => Promise<void>): Promise<void> {
    let isOver = false;
    void watchTimers(() => isOver, this.logger);
    try {
      await step();
    } catch (error) {
      await this.#close();
      throw error;
    } finally {
      isOver = true;
    }
  }

  async shutDown(): Promise<void> {
    const { held } = this.#redlock.held();
    const heldKeys = held.flatMap(({ keys, sections }) => (sections > 0 ? keys : []));
    if (heldKeys.length > 0 && this.shutdownTimeoutMs > 0)
      this.logger.log(
        `The shutdown waits up to ${inSeconds(this.shutdownTimeoutMs)} for work that holds the ${heldKeys.length === 1 ? 'lock' : 'locks'} ${quoteKeys(heldKeys)}.`,
      );
    await this.#redlock.drain(this.shutdownTimeoutMs);
    await this.#close();
  }

  async #close(): Promise<void> {
    for (const end of this.#watches ?? []) end?.();
    await this.#redlock.close();
  }
}

/**
 * The nodes of a service.
 *
 * @throws RedlockConfigError when an input is none, needs a client library that is missing, or a server is listed twice: it would have two
 *   votes
 */
export async function createNodes(
  inputs: readonly NodeInput[],
  { keyPrefix, credentials }: ClientSourceOptions,
): Promise<LockNode[]> {
  // The value is not shown: what stands where an array should be may be a URL with a password.
  if (!Array.isArray(inputs) || inputs.length === 0) {
    const fix = "give a non-empty array of Redis servers, for example ['redis://localhost:6379']";
    throw new RedlockConfigError('nodes', undefined, fix, kindOf(inputs));
  }
  const making = inputs.map(async (input: NodeInput, index) =>
    isLockNode(input)
      ? (input.forService?.() ?? input)
      : createNode(input, { keyPrefix, credentials, option: `nodes[${index}]` }),
  );
  const nodes = await Promise.all(making);
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
