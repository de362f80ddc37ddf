import type { Redis } from 'ioredis';
import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  InspectReply,
  InspectRequest,
  JoinReply,
  JoinRequest,
  LockNode,
  LockNodeListener,
  NodeFacts,
  NodeFailure,
  ReleaseReply,
  ReleaseRequest,
} from '../core/nodes/lock-node.ts';
import { lockNames } from '../core/nodes/node-names.ts';
import { REDLOCK_DEFAULTS } from '../core/options/options.ts';
import { ConnectionSource } from './connection/connection-source.ts';
import type { RedisNodeInput } from './connection/connection-source.ts';
import { examineServer } from './preflight/examine-server.ts';
import { failureOf, isNoScript, isNotWritable, notSent } from './commands/node-failure.ts';
import { RedisConnection } from './connection/redis-connection.ts';
import { RedisSubscriber } from './connection/redis-subscriber.ts';
import {
  parseAcquireReply,
  parseExtendReply,
  parseInspectReply,
  parseJoinReply,
  parseReleaseReply,
} from './commands/replies.ts';
import {
  acquireArguments,
  extendArguments,
  inspectArguments,
  joinArguments,
  releaseArguments,
} from './commands/script-arguments.ts';
import type { ScriptArguments } from './commands/script-arguments.ts';
import { sendScript } from './commands/script-command.ts';
import { ACQUIRE, EXTEND, INSPECT, JOIN, RELEASE } from './scripts/index.ts';
import type { Script } from './scripts/index.ts';

const LOADED_BY_JOIN = [ACQUIRE, EXTEND, RELEASE, INSPECT, JOIN];

export interface RedisLockNodeOptions {
  /** As in `RedlockOptions`: the names that `examine` tries lie under it. @default 'lock:' */
  readonly keyPrefix?: string;
}

/**
 * One Redis server (6.2 or newer) behind the port of the algorithm, over ioredis 5 or 6.
 *
 * It has a connection of its own for commands, and a second one once something is watched. `acquire` and `extend` are
 * sent by digest only: a server that restarted does not know it, and so can't vote before it was joined.
 */
export class RedisLockNode implements LockNode {
  readonly address: string;
  /** The key prefix of the ioredis options or client, which locks don't use; empty when there is none. */
  readonly ignoredKeyPrefix: string;
  readonly #source: ConnectionSource;
  readonly #probeNames: readonly string[];
  #listener: LockNodeListener | undefined;
  readonly #commands: RedisConnection;
  readonly #subscriber: RedisSubscriber;
  readonly #conceal: (message: string) => string;

  /** @throws RedlockConfigError when the input is none, or a cluster or sentinels */
  constructor(
    input: RedisNodeInput,
    { keyPrefix = REDLOCK_DEFAULTS.keyPrefix }: RedisLockNodeOptions = {},
  ) {
    this.#source = new ConnectionSource(input);
    this.#conceal = (message) => this.#source.conceal(message);
    this.address = this.#source.address;
    this.ignoredKeyPrefix = this.#source.ignoredKeyPrefix;
    this.#probeNames = lockNames(keyPrefix, ['#probe']).pairs;
    this.#commands = new RedisConnection(this.#source, {
      opened: () => this.#listener?.opened(),
      closed: (message) => this.#listener?.closed(message),
      failed: (message) => this.#listener?.unreachable?.(`not connected: ${message}`),
    });
    this.#subscriber = new RedisSubscriber(this.#source, (lockName, holder) =>
      this.#listener?.hint(lockName, holder),
    );
  }

  open(listener: LockNodeListener): void {
    this.#listener = listener;
    this.#commands.open();
  }

  join(request: JoinRequest, settle: (reply: JoinReply) => void): void {
    const { client } = this.#commands;
    if (client === undefined) return settle(this.#notConnected());
    // Written in one go: the scripts are there when the join is executed.
    const loads = LOADED_BY_JOIN.map((script) => client.script('LOAD', script.text));
    Promise.all([client.call('evalsha', joinArguments(request)), ...loads]).then(
      ([joined]) => settle(parseJoinReply(joined)),
      (error: unknown) => settle(this.#failed(client, error)),
    );
  }

  acquire(request: AcquireRequest, settle: (reply: AcquireReply) => void): void {
    const { client } = this.#commands;
    if (client === undefined) return settle(this.#notConnected());
    sendScript(client, acquireArguments(request), (error, reply) =>
      settle(error === undefined ? parseAcquireReply(reply) : this.#failed(client, error)),
    );
  }

  extend(request: ExtendRequest, settle: (reply: ExtendReply) => void): void {
    const { client } = this.#commands;
    if (client === undefined) return settle(this.#notConnected());
    sendScript(client, extendArguments(request), (error, reply) =>
      settle(error === undefined ? parseExtendReply(reply) : this.#failed(client, error)),
    );
  }

  release(request: ReleaseRequest, settle: (reply: ReleaseReply) => void): void {
    this.#callAnyhow(RELEASE, releaseArguments(request), (failure, reply) =>
      settle(failure ?? parseReleaseReply(reply)),
    );
  }

  inspect(request: InspectRequest, settle: (reply: InspectReply) => void): void {
    this.#callAnyhow(INSPECT, inspectArguments(request), (failure, reply) =>
      settle(failure ?? parseInspectReply(reply)),
    );
  }

  watch(lockName: string): void {
    this.#subscriber.watch(lockName);
  }

  unwatch(lockName: string): void {
    this.#subscriber.unwatch(lockName);
  }

  reset(): void {
    this.#commands.drop('given up: no answer for too long');
  }

  examine(settle: (reply: NodeFacts | NodeFailure) => void): void {
    const { client } = this.#commands;
    if (client === undefined) return settle(this.#notConnected());
    examineServer(client, this.#probeNames).then(settle, (error: unknown) =>
      settle(this.#failed(client, error)),
    );
  }

  async close(): Promise<void> {
    await Promise.all([this.#commands.close(), this.#subscriber.close()]);
  }

  /** By digest, and by text where the server does not know it: for what is harmless before a join. */
  #callAnyhow(
    script: Script,
    args: ScriptArguments,
    settle: (failure: NodeFailure | undefined, reply: unknown) => void,
  ): void {
    const { client } = this.#commands;
    if (client === undefined) return settle(this.#notConnected(), undefined);
    sendScript(client, args, (error, reply) => {
      if (error === undefined) return settle(undefined, reply);
      if (!isNoScript(error) || this.#commands.client !== client) {
        return settle(this.#failed(client, error), undefined);
      }
      client.call('eval', [script.text, ...args.slice(1)]).then(
        (later) => settle(undefined, later),
        (later: unknown) => settle(this.#failed(client, later), undefined),
      );
    });
  }

  #notConnected(): NodeFailure {
    return notSent(`not connected: ${this.#commands.problem}`);
  }

  #failed(client: Redis, error: unknown): NodeFailure {
    // Watchdog: a client that calls itself ready over a dead stream would stay so for ever.
    if (isNotWritable(error) && this.#commands.client === client)
      this.#commands.drop('the connection broke');
    return failureOf(error, this.#conceal);
  }
}
