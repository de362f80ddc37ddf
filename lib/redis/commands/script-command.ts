import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  InspectReply,
  InspectRequest,
  ReleaseReply,
  ReleaseRequest,
  WaitReply,
  WaitRequest,
} from '../../core/nodes/lock-node.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { MOST_KEYS, VALUES_PER_REQUEST } from '../batch.ts';
import { ACQUIRE, gateName, EXTEND, INSPECT, RELEASE, WAIT, type Script } from '../scripts.ts';
import { errorReply } from './node-failure.ts';
import {
  parseAcquireReply,
  parseExtendReply,
  parseInspectReply,
  parseReleaseReply,
  parseWaitReply,
} from './replies.ts';

/** Script as the port asks for it: what a request looks like on the wire, and what the reply means. */
export interface ScriptCall<Request, Reply> {
  readonly script: Script;
  /** Digest of the script, in the Redis protocol; a vote goes by that of its connection. */
  readonly digest: string;
  /** Votes go by a digest that no server but the one that was joined knows. */
  readonly isVote: boolean;
  /** Never written before its tick ends: others follow, and no caller waits for one. */
  readonly isPatient: boolean;
  /** Name of it in a batch; undefined where it goes alone. */
  readonly letter: string | undefined;
  /** The last request is remembered, because it goes to all nodes in a row. */
  encode(request: Request): EncodedRequest;
  parse(reply: unknown, request: Request): Reply;
}

export const ACQUIRE_CALL = scriptCall<AcquireRequest, AcquireReply>(
  'a',
  ACQUIRE,
  parseAcquireReply,
);
export const EXTEND_CALL = scriptCall<ExtendRequest, ExtendReply>('e', EXTEND, parseExtendReply);
export const RELEASE_CALL = scriptCall<ReleaseRequest, ReleaseReply>(
  'r',
  RELEASE,
  parseReleaseReply,
);
export const WAIT_CALL = scriptCall<WaitRequest, WaitReply>('w', WAIT, parseWaitReply);
export const INSPECT_CALL = scriptCall<InspectRequest, InspectReply>(
  undefined,
  INSPECT,
  parseInspectReply,
);

type ScriptRequest = AcquireRequest | ExtendRequest | ReleaseRequest | WaitRequest | InspectRequest;

/**
 * Request in the Redis protocol, for all nodes. A class: when a burst of callers has let nearly all objects of one literal
 * outlive a collection, V8 makes all later ones, with their strings, among the old ones, where only a full collection finds them.
 */
class EncodedRequest {
  constructor(
    /** Number of keys without marker and gate. */
    readonly keyCount: number,
    readonly keys: string,
    /** EVALSHA of its own script: what stands in front of the digest, and behind it. */
    readonly head: string,
    readonly tail: string,
    /** Part of it in the values of a batch. */
    readonly inBatch: string,
  ) {}
}

const YES = bulk('1');
const NO = bulk('0');
const EVALSHA = bulk('evalsha');
const EVAL = bulk('eval');

function scriptCall<Request extends ScriptRequest, Reply>(
  letter: string | undefined,
  script: Script,
  parse: (reply: unknown, request: Request) => Reply,
): ScriptCall<Request, Reply> {
  const isVote = letter === 'a' || letter === 'e';
  const valueCount = letter === undefined ? 0 : VALUES_PER_REQUEST;
  const ownKeyCount = letter === 'a' ? 2 : isVote ? 1 : 0;
  /** Text in front of the names, alone and in a batch, by their number. */
  const heads: (readonly [head: string, count: string, inBatch: string])[] = [];
  let last: Request | undefined;
  let encoded: EncodedRequest;
  let lastMarker = '';
  let ownKeys = '';
  const encode = (request: Request): EncodedRequest => {
    if (request === last) return encoded;
    const { marker, pairs } = request.names;
    // Locks that were held keep their floors, and who waits asks for none.
    const isOfLocks = 'member' in request || ('granted' in request && request.granted);
    const step = isOfLocks ? 2 : 1;
    const keyCount = pairs.length / step;
    let keys = '';
    let values = '';
    for (let index = 0; index < pairs.length; index += step) keys += bulk(pairs[index]!);
    if ('ballot' in request) {
      // Floors are compared as strings of 16 digits.
      values = bulk(String(request.ballot).padStart(16, '0')) + bulk(request.holder);
      values += bulk(String(request.ttlMs));
    } else if ('granted' in request) {
      values = bulk(request.holder) + (request.granted ? YES : NO) + (request.pass ? YES : NO);
    } else if ('member' in request) {
      values = bulk(request.member) + bulk(String(request.ticket)) + bulk(String(request.lifeMs));
    }
    const [head, count, inBatch] = (heads[keyCount] ??= [
      evalsha(keyCount + ownKeyCount + valueCount),
      bulk(String(keyCount + ownKeyCount)),
      letter === undefined ? '' : bulk(`${letter}${keyCount}`),
    ]);
    if (marker !== lastMarker) {
      lastMarker = marker;
      ownKeys = [marker, gateName(marker)].slice(0, ownKeyCount).map(bulk).join('');
    }
    last = request;
    const tail = count + ownKeys + keys + values;
    encoded = new EncodedRequest(keyCount, keys, head, tail, inBatch + values);
    return encoded;
  };
  const digest = bulk(script.sha1);
  return {
    script,
    digest,
    isVote,
    isPatient: letter === 'e' || letter === 'r' || letter === 'w',
    letter,
    encode,
    parse,
  };
}

/** The beginning of a command with so many arguments after the number of its keys. */
function evalsha(count: number): string {
  return `*${count + 3}\r\n${EVALSHA}`;
}

/** A string in the Redis protocol. */
export function bulk(value: string): string {
  return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
}

export type ScriptCommands = ReturnType<typeof scriptCommands>;

/** A request on its way to one node: what is written, and whom to call with the reply. */
export type ScriptCommand = InstanceType<ScriptCommands['ScriptCommand']>;

/** Command that is written at once: a request, or several of them. */
export type WireCommand = InstanceType<ScriptCommands['WireCommand']>;

/** Digests, in the Redis protocol, that only the server behind one connection knows. */
export interface VotingDigests {
  /** Digests of ACQUIRE and EXTEND, by their letters. */
  readonly a: string;
  readonly e: string;
  readonly batch: string;
}

/** Receives the commands that were answered with an error, or not at all. */
export interface ScriptCommandOwner {
  /** Undefined until the server was joined. */
  readonly voting: VotingDigests | undefined;
  /** `wasInBatch`: the error is that of a whole batch, in which nothing was executed, or nothing is known. */
  rejected(command: ScriptCommand, error: unknown, wasInBatch?: boolean): void;
}

/** The class of commands of one copy of ioredis. */
export type CommandClass = (new (name: string, args: unknown[]) => object) & {
  readonly prototype: object;
};

/**
 * Commands for the clients of one copy of ioredis: written from a text that was made once for all nodes, and settled by a
 * callback. They inherit from its own class but skip its constructor, which costs a tenth of a whole round trip.
 */
export function scriptCommands(Base: CommandClass) {
  const WireCommand = wireCommandOf(Base);
  const ScriptCommand = scriptCommandOf(WireCommand);
  return { WireCommand, ScriptCommand, BatchCommand: batchCommandOf(WireCommand) };
}

function wireCommandOf(Base: CommandClass) {
  abstract class WireCommand {
    declare transformReply: (reply: unknown) => unknown;
    abstract readonly text: string;
    abstract readonly call: { parse(reply: unknown, request: any): unknown };
    abstract readonly request: unknown;
    abstract readonly settle: (reply: any) => void;
    abstract refused(error: unknown): void;

    /** Bound, because tracers take it from the command and call it alone; made only when it is read. */
    get resolve(): (reply: unknown) => void {
      return (reply) => {
        try {
          const value = typeof reply === 'number' ? reply : this.transformReply(reply);
          this.settle(this.call.parse(value, this.request));
        } catch (thrown) {
          throwLater(thrown);
        }
      };
    }

    set resolve(value) {
      Object.defineProperty(this, 'resolve', { value });
    }

    /** Reached while somebody else writes or closes. */
    get reject(): (error: unknown) => void {
      return (error) => inModuleContext(() => throwingLater(() => this.refused(error)));
    }

    set reject(value) {
      Object.defineProperty(this, 'reject', { value });
    }

    toWritable(): string {
      return this.text;
    }

    setReplyContext(): void {}
  }

  Object.setPrototypeOf(WireCommand.prototype, Base.prototype);
  // Fields that ioredis keeps in a command; here all of them are constant. The text is ready: nothing is traced or transformed.
  const { resolve: _resolve, reject: _reject, ...fields } = new Base('evalsha', []) as WireCommand;
  const ready = { replyEncoding: 'utf8', isTraced: true, transformed: true, promise: undefined };
  Object.assign(WireCommand.prototype, fields, ready);
  return WireCommand;
}

function scriptCommandOf(WireCommand: ReturnType<typeof wireCommandOf>) {
  return class ScriptCommand extends WireCommand {
    readonly encoded: EncodedRequest;
    readonly text: string;

    constructor(
      readonly call: ScriptCall<any, any>,
      readonly request: unknown,
      readonly settle: (reply: any) => void,
      readonly owner: ScriptCommandOwner,
      isByText = false,
    ) {
      super();
      this.encoded = call.encode(request);
      const { head, tail } = this.encoded;
      const digest = call.isVote ? owner.voting?.[call.letter as 'a' | 'e'] : call.digest;
      // The text alone has a digest that no server knows: before a join, NOSCRIPT leads to it.
      this.text = isByText
        ? head.replace(EVALSHA, EVAL) + bulk(call.script.text) + tail
        : head + (digest ?? call.digest) + tail;
    }

    refused(error: unknown, wasInBatch = false): void {
      this.owner.rejected(this, error, wasInBatch);
    }
  };
}

function batchCommandOf(WireCommand: ReturnType<typeof wireCommandOf>) {
  /** Several requests as one script, in their order. */
  return class BatchCommand extends WireCommand {
    readonly call = { parse: (replies: unknown) => replies };
    readonly request = undefined;

    /** Emptied by the reply: what has outlived a garbage collection would keep all that came after it for another one. */
    constructor(readonly commands: ScriptCommand[]) {
      super();
    }

    get text(): string {
      const [first] = this.commands;
      const { marker } = (first!.request as AcquireRequest).names;
      let keyCount = 2;
      let keys = bulk(marker) + bulk(gateName(marker));
      let values = '';
      for (const { encoded } of this.commands) {
        keyCount += encoded.keyCount;
        keys += encoded.keys;
        values += encoded.inBatch;
      }
      const valueCount = this.commands.length * (1 + VALUES_PER_REQUEST);
      const { batch } = first!.owner.voting!;
      return evalsha(keyCount + valueCount) + batch + bulk(String(keyCount)) + keys + values;
    }

    /** 1 is the reply of each. What is no list of replies either is no reply to any of them. */
    readonly settle = (replies: unknown): void => {
      const commands = this.commands.splice(0);
      const list: unknown[] =
        Array.isArray(replies) && replies.length === commands.length ? replies : [];
      for (let index = 0; index < commands.length; index += 1) {
        const command = commands[index]!;
        const reply = replies === 1 ? 1 : list[index];
        throwingLater(() => {
          const isRefusal = Array.isArray(reply) && reply[0] === 'e' && reply.length === 2;
          if (isRefusal) command.refused(errorReply(String(reply[1])));
          else command.settle(command.call.parse(reply, command.request));
        });
      }
    };

    refused(error: unknown): void {
      for (const command of this.commands.splice(0))
        throwingLater(() => command.refused(error, true));
    }
  };
}

/** The same requests in the same order, those that can go together in one command. */
export function batched(
  commands: readonly ScriptCommand[],
  { BatchCommand }: ScriptCommands,
): WireCommand[] {
  const written: WireCommand[] = [];
  let batch: ScriptCommand[] = [];
  let keyCount = 0;
  const end = () => {
    if (batch.length > 0) written.push(batch.length > 1 ? new BatchCommand(batch) : batch[0]!);
    batch = [];
    keyCount = 0;
  };
  for (const command of commands) {
    const { call, encoded } = command;
    const isFull = keyCount + encoded.keyCount > MOST_KEYS;
    if (isFull || call.letter === undefined) end();
    batch.push(command);
    keyCount += encoded.keyCount;
    if (call.letter === undefined) end();
  }
  end();
  return written;
}

/** Errors that our side throws must not end up in ioredis' parser. */
function throwingLater(action: () => void): void {
  try {
    action();
  } catch (thrown) {
    throwLater(thrown);
  }
}

function throwLater(thrown: unknown): void {
  queueMicrotask(() => {
    throw thrown;
  });
}
