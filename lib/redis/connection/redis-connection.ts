import type { Environment } from '../../core/environment.ts';
import type { NodeFailure } from '../../core/nodes/lock-node.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { batched, MOST_REQUESTS } from '../batch.ts';
import {
  failureOf,
  isDemoted,
  isNoPermission,
  isNoScript,
  isNotWritable,
} from '../commands/node-failure.ts';
import { ScriptCommand } from '../commands/script-command.ts';
import type {
  ScriptCall,
  ScriptCommandOwner,
  ScriptRequest,
  VotingScripts,
} from '../commands/script-command.ts';
import { NOT_WRITABLE, type Wire, type WireListener, type WireSource, type Word } from '../wire.ts';
import { Heartbeat, type Beating } from './heartbeat.ts';

export interface ConnectionOwner {
  /** Where to connect to, in place of the host of the node. */
  readonly host?: string;
  /** Takes a connection that is connected, authenticated, in its database, and whose server does not load. */
  ready(connection: RedisConnection): void;
  /** Called once, also when it never was ready. */
  ended(connection: RedisConnection): void;
  /** An answer has been due for the silence limit; called again while that lasts. */
  silent(connection: RedisConnection): void;
  /** Notes that it was silent, and is no longer. */
  spoke(connection: RedisConnection): void;
  /** The server says that it is no primary. */
  demoted?(message: string): void;
  message?(channel: string, text: string): void;
}

/**
 * A connection, from connecting to its end, and the one writer on it. It has a wire of its own, so that nothing (a queue, a command
 * in flight, a subscription, a half-dead state of a client) can pass to the next.
 */
export class RedisConnection implements ScriptCommandOwner, Beating, WireListener {
  /** The voting scripts of the server that was joined. */
  voting: VotingScripts | undefined;
  /** Collects, and writes nothing yet. */
  isHeldBack = false;
  /** It is to take over also where the one before it answers. */
  isRenewal = false;
  readonly heartbeat: Heartbeat;
  readonly #wire: Wire;
  readonly #source: WireSource;
  readonly #owner: ConnectionOwner;
  #collected: ScriptCommand[] = [];
  /** Why it was given up. */
  #dropped: string | undefined;
  #isOver = false;
  /** Batches are sent until one was refused because of names in it that this user may not use. */
  #sendsBatches = true;

  /** @throws what the client throws that can't be made */
  constructor(
    source: WireSource,
    owner: ConnectionOwner,
    silenceLimitMs: number,
    environment: Environment,
  ) {
    this.#source = source;
    this.#owner = owner;
    this.#wire = source.connect(this, owner.host);
    this.heartbeat = new Heartbeat(this, silenceLimitMs, environment);
  }

  /** The reason why it isn't ready, or why it ended. */
  get problem(): string {
    return this.#dropped ?? this.#wire.problem;
  }

  get remoteAddress(): string | undefined {
    return this.#wire.remoteAddress;
  }

  /** Resolves when the socket is closed. */
  get closed(): Promise<unknown> {
    return this.#wire.closed;
  }

  /** Commands can be written now. */
  get isUsable(): boolean {
    return !this.#isOver && this.#wire.isReady;
  }

  get isAsked(): boolean {
    return this.#wire.isAsked;
  }

  /**
   * Collects a command and returns true, or writes it at once: where it would wait for nothing, or completes a batch. Only a vote
   * for a new lock does not wait for others where no answer is due: a caller waits for it.
   */
  send<Reply>(
    call: ScriptCall<Reply>,
    request: ScriptRequest,
    settle: (reply: Reply) => void,
  ): boolean {
    const length = this.#collected.push(new ScriptCommand(call, request, settle, this));
    const isDue = length === 1 && call.letter === 'a' && !this.isAsked;
    const mayWait = length < MOST_REQUESTS && !isDue;
    if (!mayWait) this.flush();
    return mayWait;
  }

  /** Writes what was collected. From here on its outcome is unknown until the answer comes. */
  flush(): void {
    const commands = this.#collected;
    if (commands.length === 0 || this.isHeldBack) return;
    this.#collected = [];
    const isBatch = this.#sendsBatches && this.voting !== undefined && commands.length > 1;
    this.#wire.write(isBatch ? batched(commands) : commands);
    if (this.heartbeat.isResting) this.heartbeat.watch();
  }

  /** Sends anything else, after what was collected. */
  ask(...words: readonly Word[]): Promise<unknown> {
    this.flush();
    return new Promise((answered, refused) => {
      this.#wire.write([{ words, answered, refused }]);
      if (this.heartbeat.isResting) this.heartbeat.watch();
    });
  }

  subscribe(channel: string): Promise<unknown> {
    const subscribed = this.#wire.subscribe(channel);
    if (this.heartbeat.isResting) this.heartbeat.watch();
    return subscribed;
  }

  hold(isHeld: boolean): void {
    this.#wire.hold(isHeld);
  }

  /**
   * A request that is no vote goes by its text where the server does not know the digest, and goes alone where another one's names
   * may have been refused. A vote may have been followed by its release already, and must not arrive after it.
   */
  rejected(command: ScriptCommand, error: unknown, wasInBatch = false): void {
    const { call, request, settle } = command;
    const isOfOthers = wasInBatch && isNoPermission(error);
    if (isOfOthers) this.#sendsBatches = false;
    const isUnknown = isNoScript(error);
    if (call.isVote || !(isOfOthers || isUnknown) || !this.isUsable)
      return settle(this.failure(error));
    this.#collected.push(new ScriptCommand(call, request, settle, this, isUnknown));
    this.flush();
  }

  ping(): void {
    // An error is as good as PONG: somebody is there.
    this.ask('ping').catch(() => undefined);
  }

  /** Meaning of the error of a command on this connection. */
  failure(error: unknown): NodeFailure {
    // Watchdog: a client that calls itself ready over a dead stream would stay so.
    if (isNotWritable(error) && this.isUsable) this.drop('the connection broke');
    const failure = failureOf(error, (message) => this.#source.conceal(message));
    if (isDemoted(error)) this.#owner.demoted?.(failure.message);
    return failure;
  }

  /** Gives the connection up. */
  drop(message: string): void {
    this.#dropped ??= this.#source.conceal(message);
    this.#wire.close();
    this.ended();
  }

  /** Writes what was collected, then ends the connection. */
  close(): void {
    this.isHeldBack = false;
    if (this.isUsable) this.flush();
    this.#wire.close();
  }

  unready(): void {
    this.drop(this.problem);
  }

  silent(): void {
    if (this.#isOver) return;
    this.heartbeat.isSilent = true;
    this.#owner.silent(this);
  }

  ready(): void {
    if (this.#isOver) return;
    this.heartbeat.start();
    this.#owner.ready(this);
  }

  received(): void {
    this.heartbeat.hasReceived = true;
    if (!this.heartbeat.isSilent) return;
    this.heartbeat.isSilent = false;
    this.#owner.spoke(this);
  }

  message(channel: string, text: string): void {
    this.#owner.message?.(channel, text);
  }

  ended(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.heartbeat.stop();
    const refuse = (command: ScriptCommand) => command.refused(new Error(NOT_WRITABLE));
    inModuleContext(() => this.#collected.splice(0).forEach(refuse));
    this.#owner.ended(this);
  }
}
