import type {
  AcquireRequest,
  ExtendRequest,
  ReleaseRequest,
  WaitRequest,
} from '../../core/nodes/lock-node.ts';
import { inModuleContext } from '../../core/system-environment.ts';
import { MOST_KEYS, VALUES_PER_REQUEST } from '../batch.ts';
import { ACQUIRE, EXTEND, gateName, RELEASE, WAIT, type Script } from '../scripts.ts';
import { errorReply } from './node-failure.ts';
import * as replies from './replies.ts';

export type ScriptRequest = AcquireRequest | ExtendRequest | ReleaseRequest | WaitRequest;

/** The names of the scripts in a batch; and how many keys stand before those of the locks: marker and gate. */
const OWN_KEYS = { a: 2, e: 1, r: 0, w: 0 } as const;

/** Script as the port asks for it: what a request looks like on the wire, and what the reply means. */
export class ScriptCall<Reply> {
  /** Votes go by a digest that no server but the one that was joined knows. */
  readonly isVote: boolean;
  /** Digest of the script, in the Redis protocol; a vote goes by that of its connection. */
  readonly digest: string;
  /** The last request is remembered, because it goes to all nodes in a row. */
  #last: ScriptRequest | undefined;
  #encoded: EncodedRequest | undefined;
  /** Texts that differ between requests of one marker by the number of their keys only. */
  #heads: Head[] = [];
  #marker = '';

  constructor(
    readonly letter: keyof typeof OWN_KEYS,
    readonly script: Script,
    readonly parse: (reply: unknown, request: ScriptRequest) => Reply,
  ) {
    this.isVote = letter === 'a' || letter === 'e';
    this.digest = bulk(script.sha1);
  }

  encode(request: ScriptRequest): EncodedRequest {
    if (request === this.#last) return this.#encoded!;
    const { marker, pairs } = request.names;
    if (marker !== this.#marker) this.#heads = [];
    this.#marker = marker;
    // Locks that were held keep their floors, and who waits asks for none.
    const step = 'member' in request || ('granted' in request && request.granted) ? 2 : 1;
    const keyCount = pairs.length / step;
    let keys = '';
    for (let index = 0; index < pairs.length; index += step) keys += bulk(pairs[index]!);
    const head = (this.#heads[keyCount] ??= headOf(this.letter, keyCount, marker));
    this.#last = request;
    this.#encoded = new EncodedRequest(head, keyCount, keys, valuesOf(request));
    return this.#encoded;
  }
}

export const ACQUIRE_CALL = new ScriptCall('a', ACQUIRE, replies.parseAcquireReply);
export const EXTEND_CALL = new ScriptCall('e', EXTEND, replies.parseExtendReply);
export const RELEASE_CALL = new ScriptCall('r', RELEASE, replies.parseReleaseReply);
export const WAIT_CALL = new ScriptCall('w', WAIT, replies.parseWaitReply);

/**
 * Request in the Redis protocol, for all nodes. A class: when a burst of callers has let nearly all objects of one literal
 * outlive a collection, V8 makes all later ones, with their strings, among the old ones, where only a full collection finds them.
 */
class EncodedRequest {
  /** Arguments of its own script behind the digest. */
  readonly rest: string;
  /** The part of it in the values of a batch. */
  readonly inBatch: string;

  constructor(
    readonly head: Head,
    /** The number of keys without marker and gate. */
    readonly keyCount: number,
    readonly keys: string,
    values: string,
  ) {
    this.rest = head.alone + keys + values;
    this.inBatch = head.inBatch + values;
  }
}

/** The text in front of the keys, alone, and in front of the values in a batch. */
interface Head {
  readonly alone: string;
  /** The number of arguments behind the digest. */
  readonly count: number;
  readonly inBatch: string;
}

function headOf(letter: ScriptCall<any>['letter'], keyCount: number, marker: string): Head {
  const own = [marker, gateName(marker)].slice(0, OWN_KEYS[letter]);
  return {
    alone: [keyCount + own.length, ...own].map(bulk).join(''),
    count: 1 + own.length + keyCount + VALUES_PER_REQUEST,
    inBatch: bulk(letter + keyCount),
  };
}

const FLAGS = [bulk(0), bulk(1)];

function valuesOf(request: ScriptRequest): string {
  if ('ballot' in request) {
    // Floors are compared as strings of 16 digits.
    const ballot = String(request.ballot).padStart(16, '0');
    return bulk(ballot) + bulk(request.holder) + bulk(request.ttlMs);
  }
  if ('granted' in request) {
    const { holder, granted, pass, keepMs } = request;
    const next = keepMs === undefined ? FLAGS[Number(pass)] : bulk(`keep ${keepMs}`);
    return bulk(holder) + FLAGS[Number(granted)] + next;
  }
  return bulk(request.member) + bulk(request.ticket) + bulk(request.lifeMs);
}

/** Voting scripts that one start of one server knows, and no other server. */
export interface VotingScripts {
  readonly start: string;
  readonly scripts: readonly Script[];
  /** Digests, in the Redis protocol: of ACQUIRE and EXTEND, by their letters. */
  readonly a: string;
  readonly e: string;
  readonly batch: string;
}

/** Receives the commands that were answered with an error, or not at all. */
export interface ScriptCommandOwner {
  /** Undefined until the server was joined. */
  readonly voting: VotingScripts | undefined;
  /** `wasInBatch`: the error is that of a whole batch, in which nothing was executed, or nothing is known. */
  rejected(command: ScriptCommand, error: unknown, wasInBatch?: boolean): void;
}

/** A command that is written at once: a request, or several of them. */
export interface Outgoing {
  /** The text in the Redis protocol. */
  readonly text: string;
  answered(reply: unknown): void;
  refused(error: unknown): void;
}

/** A request on its way to one node: what is written, and whom to call with the reply. */
export class ScriptCommand implements Outgoing {
  readonly encoded: EncodedRequest;

  constructor(
    readonly call: ScriptCall<any>,
    readonly request: ScriptRequest,
    readonly settle: (reply: any) => void,
    readonly owner: ScriptCommandOwner,
    readonly isByText = false,
  ) {
    this.encoded = call.encode(request);
  }

  get text(): string {
    const { call, encoded, owner } = this;
    const { rest, head } = encoded;
    if (this.isByText) return `*${2 + head.count}\r\n${EVAL}${bulk(call.script.text)}${rest}`;
    // The text alone has a digest that no server knows: before a join, NOSCRIPT leads to it.
    const digest = (call.isVote && owner.voting?.[call.letter as 'a' | 'e']) || call.digest;
    return `*${2 + head.count}\r\n${EVALSHA}${digest}${rest}`;
  }

  answered(reply: unknown): void {
    this.settle(this.call.parse(reply, this.request));
  }

  refused(error: unknown, wasInBatch = false): void {
    this.owner.rejected(this, error, wasInBatch);
  }
}

/** A string, or the digits of a number, in the Redis protocol. */
export function bulk(value: string | number): string {
  const length = typeof value === 'number' ? String(value).length : Buffer.byteLength(value);
  return `$${length}\r\n${value}\r\n`;
}

const EVALSHA = bulk('evalsha');
const EVAL = bulk('eval');

/** Several requests as one script, in their order. */
class BatchCommand implements Outgoing {
  /** Emptied by the reply: what has outlived a garbage collection would keep all that came after it for another one. */
  readonly #commands: ScriptCommand[];

  constructor(commands: ScriptCommand[]) {
    this.#commands = commands;
  }

  get text(): string {
    const [first] = this.#commands;
    const { marker } = first!.request.names;
    let keyCount = 2;
    let keys = bulk(marker) + bulk(gateName(marker));
    let values = '';
    for (const { encoded } of this.#commands) {
      keyCount += encoded.keyCount;
      keys += encoded.keys;
      values += encoded.inBatch;
    }
    const count = 3 + keyCount + this.#commands.length * (1 + VALUES_PER_REQUEST);
    const { batch } = first!.owner.voting!;
    return `*${count}\r\n${EVALSHA}${batch}${bulk(keyCount)}${keys}${values}`;
  }

  /** 1 is the reply of each. What is no list of replies either is no reply to any of them. */
  answered(answer: unknown): void {
    const commands = this.#commands.splice(0);
    const list: unknown[] =
      Array.isArray(answer) && answer.length === commands.length ? answer : [];
    for (let index = 0; index < commands.length; index += 1) {
      const command = commands[index]!;
      const reply = answer === 1 ? 1 : list[index];
      const isRefusal = Array.isArray(reply) && reply[0] === 'e' && reply.length === 2;
      throwingLater(() =>
        isRefusal ? command.refused(errorReply(String(reply[1]))) : command.answered(reply),
      );
    }
  }

  refused(error: unknown): void {
    for (const command of this.#commands.splice(0))
      throwingLater(() => command.refused(error, true));
  }
}

/** The same requests in the same order, those that can go together in one command. */
export function batched(commands: readonly ScriptCommand[]): Outgoing[] {
  const written: Outgoing[] = [];
  let batch: ScriptCommand[] = [];
  let keyCount = 0;
  const end = () => {
    if (batch.length > 0) written.push(batch.length > 1 ? new BatchCommand(batch) : batch[0]!);
    batch = [];
    keyCount = 0;
  };
  for (const command of commands) {
    if (keyCount + command.encoded.keyCount > MOST_KEYS) end();
    batch.push(command);
    keyCount += command.encoded.keyCount;
  }
  end();
  return written;
}

/** The class of commands of one copy of ioredis. */
export type CommandClass = (new (name: string, args: unknown[]) => object) & {
  readonly prototype: object;
};

export type WireCommandClass = ReturnType<typeof wireCommandOf>;

/**
 * Commands for the clients of one copy of ioredis: written from a text, and settled by a callback. They inherit from its own class
 * but skip its constructor, which costs a tenth of a whole round trip.
 */
export function wireCommandOf(Base: CommandClass) {
  class WireCommand {
    declare transformReply: (reply: unknown) => unknown;

    constructor(readonly sent: Outgoing) {}

    /** Bound, because tracers take it from the command and call it alone; made only when it is read. */
    get resolve(): (reply: unknown) => void {
      return (reply) => {
        try {
          this.sent.answered(typeof reply === 'number' ? reply : this.transformReply(reply));
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
      return (error) => inModuleContext(() => throwingLater(() => this.sent.refused(error)));
    }

    set reject(value) {
      Object.defineProperty(this, 'reject', { value });
    }

    toWritable(): string {
      return this.sent.text;
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

/** Errors that our side throws must not end up in ioredis' parser. */
export function throwingLater(action: () => void): void {
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
