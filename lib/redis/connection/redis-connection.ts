import type { Redis } from 'ioredis';
import type { Duplex } from 'node:stream';
import { inModuleContext } from '../../core/system-environment.ts';
import type { NodeFailure } from '../../core/nodes/lock-node.ts';
import {
  errorMessage,
  failureOf,
  isDemoted,
  isNoPermission,
  isNoScript,
  isNotWritable,
  NOT_WRITABLE,
} from '../commands/node-failure.ts';
import { batched, ScriptCommand, throwingLater } from '../commands/script-command.ts';
import type {
  ScriptCall,
  ScriptCommandOwner,
  ScriptRequest,
  VotingScripts,
} from '../commands/script-command.ts';
import { MOST_REQUESTS } from '../batch.ts';
import type { ConnectionSource } from './connection-source.ts';
import { Heartbeat, type Beating } from './heartbeat.ts';

const UNANSWERED =
  'the server accepted the connection but did not answer: it is frozen, is still loading its data, or has no TLS on this port';
const CLOSED = 'the connection was closed';
const NO_NAME = 'it knows no master of this name';
const UNFOUND = 'nobody answered which server is the primary';
const SHUT =
  ' before its first answer: no Redis answers there, or it speaks TLS on this port; then write rediss://';
const SHUT_TO_TLS =
  ': does it speak TLS on this port, and does it serve this host name (SNI)? For another name give tls: { servername }';

/** A command in the queue of ioredis, as far as the parser of replies uses it. */
interface QueuedCommand {
  readonly name: string;
  resolve(reply: unknown): void;
  reject(error: unknown): void;
}

interface CommandQueue {
  readonly length: number;
  shift(): { readonly command: QueuedCommand } | undefined;
  peekFront(): { readonly command: QueuedCommand } | undefined;
}

/** The parts of a client that we use beyond its types; the same in versions 5 and 6. */
interface ClientInternals {
  readonly commandQueue: CommandQueue;
  readonly connector: { connect(...parameters: unknown[]): Promise<Duplex> };
  readonly stream: Duplex;
}

function internalsOf(client: Redis): ClientInternals {
  return client as unknown as ClientInternals;
}

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
}

/**
 * Connection, from connecting to its end, and the one writer on it. It has a client of its own, so that nothing (a
 * queue, a command in flight, a subscription, a half-dead state of a client) can pass to the next.
 */
export class RedisConnection implements ScriptCommandOwner, Beating {
  readonly client: Redis;
  /** Receives messages of channels: with it the connection is one for subscriptions only. */
  onMessage: ((channel: string, message: string) => void) | undefined;
  /** Reason why it ended, or why it isn't ready. */
  problem = CLOSED;
  /** Scripts of the server that was joined. */
  voting: VotingScripts | undefined;
  /** Collects, and writes nothing yet. */
  isHeldBack = false;
  readonly heartbeat: Heartbeat;
  readonly #source: ConnectionSource;
  readonly #owner: ConnectionOwner;
  #collected: ScriptCommand[] = [];
  #text = '';
  #isOver = false;
  /** Batches are sent until one was refused because of names in it that this user may not use. */
  #sendsBatches = true;

  /**
   * Called in the context of the module: sockets keep the one in which they were made.
   * @throws what the client throws that can't be made
   */
  constructor(source: ConnectionSource, owner: ConnectionOwner, silenceLimitMs: number) {
    this.#source = source;
    this.#owner = owner;
    this.client = source.create(owner.host);
    ignoreLateErrors(this.client);
    this.heartbeat = new Heartbeat(this, silenceLimitMs);
    // A write that fails ends the connection in the context of the one who wrote.
    this.client.on('error', (error) => inModuleContext(() => this.#failed(error)));
    this.client.once('connect', () => guardReplies(this));
    this.client.once('ready', () => inModuleContext(() => this.#ready()));
    this.client.once('end', () => inModuleContext(() => this.#end()));
    this.client.on('sentinelError', (error) => this.#failed(error, true));
    // A client that was given up meanwhile must not connect.
    const connect = () => (this.client.status === 'wait' ? this.client.connect() : undefined);
    const connected = source.authorize(this.client)?.then(connect) ?? connect();
    connected?.catch((error: unknown) => this.#failed(error));
  }

  /** Resolves when the socket is closed. */
  get closed(): Promise<void> {
    return new Promise((resolve) => {
      if (this.client.status === 'end') resolve();
      else this.client.once('end', resolve);
    });
  }

  /** Commands can be written now. */
  get isUsable(): boolean {
    return this.heartbeat.hasStarted && !this.#isOver && this.client.status === 'ready';
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
    const { WireCommand } = this.#source;
    for (const each of isBatch ? batched(commands) : commands)
      void this.client.sendCommand(new WireCommand(each) as never, this as never);
    const text = this.#text;
    this.#text = '';
    if (text !== '') internalsOf(this.client).stream.write(text);
    if (this.heartbeat.isResting) this.heartbeat.watch();
  }

  /** Sends anything else, after what was collected. */
  ask<Reply>(send: (client: Redis) => Promise<Reply>): Promise<Reply> {
    this.flush();
    const reply = inModuleContext(() => send(this.client));
    if (this.heartbeat.isResting) this.heartbeat.watch();
    return reply;
  }

  /**
   * Request that is no vote goes by its text where the server does not know the digest, and goes alone where another one's names
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
    this.ask((client) => client.ping()).catch(() => undefined);
  }

  get isAsked(): boolean {
    return internalsOf(this.client).commandQueue.length > 0;
  }

  unready(): void {
    const { status, stream } = this.client;
    const looks = stream === undefined ? UNFOUND : UNANSWERED;
    this.drop(status === 'wait' ? 'credentials() did not answer' : looks);
  }

  silent(): void {
    if (this.#isOver) return;
    this.heartbeat.isSilent = true;
    this.#owner.silent(this);
  }

  /** Meaning of the error of a command on this connection. */
  failure(error: unknown): NodeFailure {
    // Watchdog: a client that calls itself ready over a dead stream would stay so.
    if (isNotWritable(error) && this.isUsable) this.drop('the connection broke');
    const failure = failureOf(error, (message) => this.#source.conceal(message));
    if (isDemoted(error)) this.#source.onDemoted?.(failure.message);
    return failure;
  }

  /** Gives the connection up. */
  drop(message: string): void {
    this.problem = this.#source.conceal(message);
    this.client.disconnect();
    this.#end();
  }

  /** Writes what was collected, then ends the connection. */
  close(): void {
    this.isHeldBack = false;
    if (this.isUsable) this.flush();
    inModuleContext(() => this.client.disconnect());
  }

  /** ioredis calls this in place of the `write` of its stream. */
  write(text: string): void {
    this.#text += text;
  }

  #failed(error: unknown, isOfSentinel = false): void {
    const message = errorMessage(error);
    if (!/^(Connection is closed\.|All sentinels are unreachable)/.test(message))
      this.problem = this.#source.conceal(message.replace(/got an invalid reply: null$/, NO_NAME));
    if (isOfSentinel) return;
    // ioredis goes on after some refusals (a SELECT, in version 5 also an AUTH), in the wrong database or as another user.
    if (!this.heartbeat.hasStarted) this.drop(this.problem);
  }

  #ready(): void {
    if (this.#isOver || this.client.status !== 'ready') return;
    this.heartbeat.start();
    this.problem = CLOSED;
    this.#source.hasConnected = true;
    if (!this.#source.holdsProcess) this.client.stream.unref?.();
    internalsOf(this.client).stream.on('data', () => {
      this.heartbeat.hasReceived = true;
      if (!this.heartbeat.isSilent) return;
      this.heartbeat.isSilent = false;
      this.#owner.spoke(this);
    });
    this.#owner.ready(this);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.heartbeat.stop();
    if (this.#wasShut()) this.problem += this.#source.usesTls ? SHUT_TO_TLS : SHUT;
    for (const command of this.#collected.splice(0))
      inModuleContext(() => throwingLater(() => command.refused(new Error(NOT_WRITABLE))));
    this.#owner.ended(this);
  }

  /** The server has never sent anything, and closed it; as one does that waits for the handshake of TLS. */
  #wasShut(): boolean {
    if (this.#source.hasConnected) return false;
    if (/before secure TLS connection was established/.test(this.problem)) return true;
    const isClosed = /\b(ECONNRESET|EPIPE)\b|^the connection was closed$/.test(this.problem);
    return this.client.stream?.bytesRead === 0 && isClosed;
  }
}

/**
 * Call before `connect`. ioredis listens for one error of its socket, but TLS can bring a second one: the server's answer
 * to a handshake that was given up because of its certificate. Without a listener it would end the process.
 */
function ignoreLateErrors(client: Redis): void {
  const { connector } = internalsOf(client);
  const connect = connector.connect.bind(connector);
  connector.connect = async (...parameters) => {
    const stream = await connect(...parameters);
    stream.on('error', () => undefined);
    return stream;
  };
}

/**
 * Call on 'connect'. ioredis throws, where no caller can catch it, over a null that it did not ask for and over pub/sub replies
 * of another form. So it never looks at those: this stands in for the command whose reply it has read.
 */
function guardReplies(owner: RedisConnection): void {
  const { client } = owner;
  const { commandQueue, stream } = internalsOf(client);
  const shift = commandQueue.shift.bind(commandQueue);
  let isBroken = false;
  const broken = (message: string) => {
    isBroken = true;
    owner.drop(message);
  };
  const resolve = (reply: unknown) => {
    const push: unknown[] = Array.isArray(reply) ? reply : [];
    const kind = textOf(push[0]);
    if (kind === 'message' && push.length === 3)
      return owner.onMessage?.(textOf(push[1]), textOf(push[2]));
    const command = commandQueue.peekFront()?.command;
    const isSubscription = command?.name === 'subscribe';
    if (command === undefined || (isSubscription && kind !== command.name))
      return broken('the server sent a reply to no request');
    shift();
    return command.resolve(isSubscription ? push[2] : reply);
  };
  const reject = (error: unknown) => {
    const item = shift();
    if (item === undefined) broken(errorMessage(error));
    else item.command.reject(error);
  };
  const standIn = { command: { name: 'reply', resolve, reject } };
  const ignore = () => undefined;
  const unread = { command: { name: 'reply', resolve: ignore, reject: ignore } };
  commandQueue.shift = () => {
    // When ioredis empties the queue, it first takes its listeners from the socket.
    if (stream.listenerCount('data') === 0) return shift();
    // The piece that has the first wrong reply is read to its end: what is in it answers nothing.
    if (isBroken) return unread;
    const isReading = client.status === 'ready' || client.status === 'connect';
    if (isReading && owner.onMessage !== undefined) return standIn;
    return shift() ?? (isReading ? standIn : unread);
  };
}

/** Strings arrive as bytes, possibly of another realm. */
function textOf(part: unknown): string {
  return ArrayBuffer.isView(part) ? (part as Buffer).toString() : '';
}
