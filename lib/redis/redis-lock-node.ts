import type { Environment } from '../core/environment.ts';
import { inModuleContext, systemEnvironment } from '../core/system-environment.ts';
import type * as port from '../core/nodes/lock-node.ts';
import { NodeNames } from '../core/nodes/node-names.ts';
import { notSent, orErrorReply } from './commands/node-failure.ts';
import { parseInspectReply } from './commands/replies.ts';
import { ACQUIRE_CALL, EXTEND_CALL, RELEASE_CALL, WAIT_CALL } from './commands/script-command.ts';
import type { ScriptCall, ScriptRequest, VotingScripts } from './commands/script-command.ts';
import type { RedisConnection } from './connection/redis-connection.ts';
import { RedisLink } from './connection/redis-link.ts';
import { findServers } from './find-servers.ts';
import { joinServer } from './joining.ts';
import { examineServer } from './preflight.ts';
import { IdentityKeeper, listLocks, revokeLock } from './operating.ts';
import { INSPECT } from './scripts.ts';
import type { WireSource, Word } from './wire.ts';

/** Who has opened the node. */
interface Service {
  readonly listener: port.LockNodeListener;
  readonly settings: port.LinkSettings;
}

/** A server that is no primary is left once in that time, or a little longer. */
const STAYS_MS = 1_000;

/**
 * A Redis server (6.2 or newer), or the primary of the moment, behind the port of the algorithm.
 *
 * It has a connection of its own for commands, and a second one once it listens for turns. `acquire` and `extend` are
 * sent by digests that one start of one server knows: another one can't vote before it was joined.
 */
export class RedisLockNode implements port.LockNode {
  facts: port.NodeFacts | undefined;
  readonly #source: WireSource;
  readonly #environment: Environment;
  readonly #probeNames: readonly string[];
  readonly #commands: RedisLink;
  /** The link for turns only, which connects when this process first waits. */
  readonly #subscriber: RedisLink;
  #service: Service | undefined;
  #channel: string | undefined;
  #voting: VotingScripts | undefined;
  #staysUntilMs = 0;
  /** The connections that are open only to find servers. */
  readonly #search = new Set<RedisConnection>();
  readonly #identity: IdentityKeeper;

  constructor(source: WireSource, keyPrefix: string, environment = systemEnvironment) {
    this.#source = source;
    this.#environment = environment;
    this.#identity = new IdentityKeeper(environment);
    this.#probeNames = new NodeNames(keyPrefix, ['#probe']).pairs;
    this.#commands = new RedisLink(source, environment, {
      opened: () => this.#service?.listener.opened(),
      closed: (message) => this.#service?.listener.closed(message),
      failed: (message) => this.#service?.listener.unreachable?.(`no connection: ${message}`),
      stalled: () => this.#service?.listener.stalled?.(),
      spoke: () => this.#service?.listener.spoke?.(),
      prove: (connection) => this.#prove(connection),
      demoted: (message) => this.#leave(message),
    });
    this.#subscriber = new RedisLink(source, environment, {
      opened: (connection) => this.#subscribe(connection),
      replaced: (connection) => this.#subscribe(connection),
      prove: (connection) => connection.ask('ping').catch(orErrorReply),
      message: (_channel, text) => this.#heard(text),
    });
  }

  get address(): string {
    return this.#source.address;
  }

  /** The key prefix of the ioredis options or client, which locks don't use; empty when there is none. */
  get ignoredKeyPrefix(): string {
    return this.#source.ignoredKeyPrefix;
  }

  open(listener: port.LockNodeListener, settings: port.LinkSettings): void {
    this.#service = { listener, settings };
    this.#commands.open(settings.silenceLimitMs);
  }

  holdProcess(isHeld: boolean): void {
    for (const link of [this.#commands, this.#subscriber]) link.hold(isHeld);
  }

  join(request: port.JoinRequest, settle: (reply: port.JoinReply) => void): void {
    this.#ask((connection) => this.#join(connection, request), settle);
  }

  acquire(request: port.AcquireRequest, settle: (reply: port.AcquireReply) => void): boolean {
    return this.#send(ACQUIRE_CALL, request, settle);
  }

  extend(request: port.ExtendRequest, settle: (reply: port.ExtendReply) => void): boolean {
    return this.#send(EXTEND_CALL, request, settle);
  }

  release(request: port.ReleaseRequest, settle: (reply: port.ReleaseReply) => void): boolean {
    return this.#send(RELEASE_CALL, request, settle);
  }

  flush(): void {
    this.#commands.connection?.flush();
  }

  inspect(request: port.InspectRequest, settle: (reply: port.InspectReply) => void): void {
    const { pairs } = request.names;
    const words = [INSPECT.text, pairs.length, ...pairs, request.names.processes];
    this.#ask(async (connection) => {
      return parseInspectReply(await connection.ask('eval', ...words));
    }, settle);
  }

  revoke(request: port.RevokeRequest, settle: (reply: port.RevokeReply) => void): void {
    this.#ask((connection) => revokeLock(connection, request), settle);
  }

  list(request: port.ListRequest, settle: (reply: port.ListReply) => void): void {
    this.#ask((connection) => listLocks(connection, request), settle);
  }

  /** Lets a tool ask the server anything. */
  look<Reply>(
    questions: (ask: (...words: readonly Word[]) => Promise<any>) => Promise<Reply>,
    settle: (reply: Reply | port.NodeFailure) => void,
  ): void {
    this.#ask<Reply | port.NodeFailure>(
      (connection) => questions((...words) => connection.ask(...words)),
      settle,
    );
  }

  wait(request: port.WaitRequest, settle: (reply: port.WaitReply) => void): boolean {
    return this.#send(WAIT_CALL, request, settle);
  }

  listen(channel: string): void {
    this.#channel ??= channel;
    this.#subscriber.open(this.#service!.settings.silenceLimitMs);
  }

  examine(settle: (reply: port.NodeFacts | port.NodeFailure) => void): void {
    const { foundBy } = this.#source;
    this.#ask(async (connection) => {
      const [facts, servers] = await Promise.all([
        examineServer(connection, this.#probeNames),
        this.facts?.servers ??
          findServers(this.#source, this.#search, this.#environment, connection),
      ]);
      return (this.facts = { ...facts, foundBy, servers });
    }, settle);
  }

  renew(): void {
    for (const link of [this.#commands, this.#subscriber]) link.renew();
  }

  async close(): Promise<void> {
    this.#identity.stop();
    for (const connection of this.#search) connection.close();
    await Promise.all([this.#commands.close(), this.#subscriber.close()]);
  }

  async #join(connection: RedisConnection, request: port.JoinRequest): Promise<port.JoinReply> {
    // A slot of a cluster moves to a server that has been up, with its locks.
    const isFollowed = this.#source.foundBy === 'cluster';
    const reply = await joinServer(connection, request, this.#voting, isFollowed);
    if (reply.kind !== 'joined') return reply;
    // A second connection is joined once more when it takes over: not before is the server another one.
    if (connection === this.#commands.connection) this.#voting = connection.voting;
    this.#identity.keep(this.#service?.settings.identity, () => this.#commands.connection);
    return reply;
  }

  async #prove(connection: RedisConnection): Promise<void> {
    const { kind } = await this.#join(connection, this.#service!.settings.join!);
    if (kind !== 'joined') throw new Error(kind);
  }

  #subscribe(connection: RedisConnection): void {
    connection
      .subscribe(this.#channel!)
      .then(() => this.#service?.listener.listening())
      // Callers of users without the right find their turn when they ask again.
      .catch(() => undefined);
  }

  #heard(text: string): void {
    // Anyone may publish anything.
    const [, keptMs, lockName] = /^(-1|\d{1,6}) (.+)$/s.exec(text) ?? [];
    if (lockName !== undefined) this.#service?.listener.turn(lockName, Number(keptMs));
  }

  #send<Reply>(
    call: ScriptCall<Reply>,
    request: ScriptRequest,
    settle: (reply: Reply) => void,
  ): boolean {
    const { connection } = this.#commands;
    if (connection !== undefined) return connection.send(call, request, settle);
    settle(this.#notConnected() as Reply);
    return false;
  }

  #ask<Reply>(
    ask: (connection: RedisConnection) => Promise<Reply>,
    settle: (reply: Reply) => void,
  ): void {
    const { connection } = this.#commands;
    if (connection === undefined) return settle(this.#notConnected() as Reply);
    void inModuleContext(() =>
      ask(connection).then(settle, (error: unknown) => settle(connection.failure(error) as Reply)),
    );
  }

  /** Drops both connections, because another server may be the primary behind this address by now. */
  #leave(message: string): void {
    const { clock, random } = this.#environment;
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#staysUntilMs) return;
    this.#staysUntilMs = nowMs + STAYS_MS * (1 + random.fraction() / 2);
    const leave = () => {
      for (const { connection } of [this.#commands, this.#subscriber]) connection?.drop(message);
    };
    // The answers that have arrived are read before that.
    this.#environment.afterPoll(leave);
  }

  #notConnected(): port.NodeFailure {
    return notSent(`no connection: ${this.#commands.problem}`);
  }
}
