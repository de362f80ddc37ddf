import type { FencingToken } from '../core/fencing-token.ts';
import type { LockNode } from '../core/nodes/lock-node.ts';
import type { Duration } from '../core/options/duration.ts';
import type { RedlockOptions } from '../core/options/options.ts';
import type { FenceEventListener, FenceFinding } from '../fencing/fence.ts';
import type { RedisNodeInput } from '../redis/client/client-source.ts';
import type { CredentialsSource } from '../redis/credentials.ts';
import type { LockTelemetry } from './telemetry.ts';

/**
 * An independent server: a URL (`'redis://host:6379'`, `'rediss://user:password@host'`), ioredis options (with `sentinels` and
 * `name`: the primary of the moment), `{ cluster: [{ host, port }] }` with a hash tag in `keyPrefix`, a client of ioredis or
 * node-redis (duplicated, never closed or reconfigured), or a ready-made node such as `postgresNode(pool)` of
 * `nestjs-fenced-lock/postgres` and those of `nestjs-fenced-lock/testing`.
 */
export type NodeInput = RedisNodeInput | LockNode;

/** The part of a fence that the module uses. All fences of `nestjs-fenced-lock/fencing` have it; a fence of your own may be one, too. */
export interface ModuleFence {
  /**
   * Makes the resource remember the token, durably, before it resolves.
   * @throws StaleTokenError when the resource has seen a newer one
   */
  claim(token: FencingToken): Promise<void>;
  /** Calls `listener` for all that happens at the fence, until the returned function is called. Without it rejected tokens are not counted. */
  observe?(listener: FenceEventListener): () => void;
  /** Whether the resource can reject stale tokens. Asked at startup, which throws for an `error`, and logs a `warning`. */
  check?(): Promise<readonly FenceFinding[]>;
}

/** The fence that comes with the only node; undefined where there are more, or it has none. */
export function fenceOfNodes(nodes: unknown): ModuleFence | undefined {
  if (!Array.isArray(nodes) || nodes.length !== 1) return undefined;
  return (nodes[0] as { readonly fence?: ModuleFence } | null | undefined)?.fence;
}

/** The options that `RedlockModule.forRoot` and `createLocks` have in common: those of the algorithm, and of the process. */
export interface LockServiceOptions extends RedlockOptions {
  /**
   * The servers: URLs, ioredis options or clients of Redis; `postgresNode(pool)`; or nodes for tests. One is single-instance
   * mode; three or five independent masters, never replicas of each other, are Redlock.
   */
  readonly nodes: readonly NodeInput[];
  /**
   * Gives what the next connection to a node takes, asked before each: for passwords and certificates that change. What it leaves
   * out is that of the node. Where it fails, the connection is tried again. @default the credentials of the nodes
   */
  readonly credentials?: CredentialsSource;
  /** Don't start unless every server answers. @default false: a quorum is enough */
  readonly strict?: boolean;
  /**
   * The time that the start waits for a quorum of servers (with `strict`, for all of them) before it throws
   * `QuorumUnavailableError`; and then as long again until they give locks (`waitForVotes`). In between, late servers may answer
   * for one second more. @default '10s'
   */
  readonly startupTimeout?: Duration;
  /**
   * Waits, after a quorum has joined, until it gives locks, so that the first call gets its lock: new servers, and those that were
   * restarted together, give none for `maxTtl` (`restartGuard`). The log says for how long. Where
   * that is longer than `startupTimeout`, the start does not wait, and a warning says for how long. `false`: start at once,
   * and let calls wait. @default true
   */
  readonly waitForVotes?: boolean;
  /**
   * The time that the shutdown waits for sections that hold a lock; what is held after that is released and its signal aborted.
   * 0 = don't wait. Keep it below the time the platform gives a process to end. @default ttl
   */
  readonly shutdownTimeout?: Duration;
  /**
   * The fence of the resource, from `nestjs-fenced-lock/fencing`: injected where a constructor asks for `Fence`, used by
   * `@Fenced(key, { claim: true })`, and observed: rejected tokens are logged and come to `onEvent` as `stale`.
   * @default that of the database where `nodes` is one `postgresNode`, else none
   */
  readonly fence?: ModuleFence;
  /** The spans and metrics of locks: `openTelemetry()` of `nestjs-fenced-lock/telemetry`, or one of your own. @default none */
  readonly telemetry?: LockTelemetry;
}
