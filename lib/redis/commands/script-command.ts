import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  InspectReply,
  InspectRequest,
  ReleaseReply,
  ReleaseRequest,
} from '../../core/nodes/lock-node.ts';
import { inModuleContext } from '../../core/module-context.ts';
import { ACQUIRE } from '../scripts/acquire.ts';
import { EXTEND } from '../scripts/extend.ts';
import { INSPECT } from '../scripts/inspect.ts';
import { RELEASE } from '../scripts/release.ts';
import type { Script } from '../scripts/script.ts';
import {
  parseAcquireReply,
  parseExtendReply,
  parseInspectReply,
  parseReleaseReply,
} from './replies.ts';

/** One script as the port asks for it: what a request looks like on the wire, and what the reply means. */
export interface ScriptCall<Request, Reply> {
  readonly script: Script;
  /** It goes by its digest only, which a server does not know before it was joined. */
  readonly isVote: boolean;
  /**
   * EVALSHA in the Redis protocol; in a vote the start of the server is still missing, which is the last argument. The last
   * request is remembered, because it goes to all nodes in a row.
   */
  encode(request: Request): string;
  parse(reply: unknown, request: Request): Reply;
}

export const ACQUIRE_CALL = scriptCall<AcquireRequest, AcquireReply>(
  'vote',
  ACQUIRE,
  parseAcquireReply,
);
export const EXTEND_CALL = scriptCall<ExtendRequest, ExtendReply>('vote', EXTEND, parseExtendReply);
export const RELEASE_CALL = scriptCall<ReleaseRequest, ReleaseReply>(
  'no vote',
  RELEASE,
  parseReleaseReply,
);
export const INSPECT_CALL = scriptCall<InspectRequest, InspectReply>(
  'no vote',
  INSPECT,
  parseInspectReply,
);

type ScriptRequest = AcquireRequest | ExtendRequest | ReleaseRequest | InspectRequest;

/** Floors are compared as strings of 16 digits. */
function valuesOf(request: ScriptRequest): string[] {
  if ('ballot' in request)
    return [String(request.ballot).padStart(16, '0'), request.holder, String(request.ttlMs)];
  if ('granted' in request)
    return [request.holder, request.granted ? '1' : '0', request.notify ? '1' : '0'];
  return [];
}

function scriptCall<Request extends ScriptRequest, Reply>(
  kind: 'vote' | 'no vote',
  script: Script,
  parse: (reply: unknown, request: Request) => Reply,
): ScriptCall<Request, Reply> {
  const isVote = kind === 'vote';
  /** What stands in front of the keys, by their number. */
  const heads: string[] = [];
  let last: Request | undefined;
  let text = '';
  const encode = (request: Request): string => {
    if (request === last) return text;
    const { marker, pairs } = request.names;
    const values = valuesOf(request);
    const length = pairs.length + (isVote ? 1 : 0);
    text = heads[length] ??=
      `*${length + values.length + (isVote ? 4 : 3)}\r\n` +
      bulk('evalsha') +
      bulk(script.sha1) +
      bulk(String(length));
    if (isVote) text += bulk(marker);
    for (const name of pairs) text += bulk(name);
    for (const value of values) text += bulk(value);
    last = request;
    return text;
  };
  return { script, isVote, encode, parse };
}

/** A string in the Redis protocol. */
export function bulk(value: string): string {
  return `$${Buffer.byteLength(value)}\r\n${value}\r\n`;
}

/** An encoded command as its arguments again, for where ioredis has to encode it: the name comes first. */
export function argumentsOf(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const args: Buffer[] = [];
  for (let at = bytes.indexOf('\n') + 1; at < bytes.length;) {
    const start = bytes.indexOf('\n', at) + 1;
    const end = start + Number(bytes.toString('latin1', at + 1, start - 2));
    args.push(bytes.subarray(start, end));
    at = end + 2;
  }
  return args;
}

export type ScriptCommandClass = ReturnType<typeof scriptCommandClass>;

/** A request on its way to one node: what is written, and whom to call with the reply. */
export type ScriptCommand = InstanceType<ScriptCommandClass>;

/** Receives the commands that were answered with an error, or not at all. */
export interface ScriptCommandOwner {
  /** Names the start of the server that was joined, in the Redis protocol: the last argument of every vote. */
  readonly start: string;
  rejected(command: ScriptCommand, error: unknown): void;
}

/** The class of commands of one copy of ioredis. */
export type CommandClass = (new (name: string) => object) & { readonly prototype: object };

/** What ioredis keeps in a command; here all of it is constant. The text is ready: nothing is traced or transformed. */
const FIELDS = {
  name: 'evalsha',
  args: [],
  replyEncoding: 'utf8',
  isTraced: true,
  transformed: true,
  isResolved: false,
  isSettled: false,
  inTransaction: false,
  errorStack: undefined,
  callback: undefined,
  promise: undefined,
  protocol: 2,
  replyMapping: 'legacy',
};
const KNOWN = new Set([...Object.keys(FIELDS), 'resolve', 'reject']);

/**
 * Commands for the clients of one copy of ioredis: written from a text that was made once for all nodes, and settled by a
 * callback. They inherit from its own class but skip its constructor, which costs a tenth of a whole round trip.
 */
export function scriptCommandClass(Base?: CommandClass) {
  class EvalshaCommand {
    readonly text: string;
    /** False where ioredis has to encode by itself, because it keeps something in its commands that we don't know. */
    declare readonly isNative: boolean;
    declare transformReply?: (reply: unknown) => unknown;

    constructor(
      readonly call: ScriptCall<any, any>,
      readonly request: unknown,
      readonly settle: (reply: any) => void,
      readonly owner: ScriptCommandOwner,
    ) {
      this.text = call.isVote ? call.encode(request) + owner.start : call.encode(request);
    }

    /** Bound, because tracers take it from the command and call it alone; made only when it is read. */
    get resolve(): (reply: unknown) => void {
      return (reply) => {
        try {
          const isReady = typeof reply === 'number' || !this.isNative;
          const value = isReady ? reply : this.transformReply?.(reply);
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
      return (error) =>
        inModuleContext(() => {
          try {
            this.owner.rejected(this, error);
          } catch (thrown) {
            throwLater(thrown);
          }
        });
    }

    set reject(value) {
      Object.defineProperty(this, 'reject', { value });
    }

    toWritable(): string {
      return this.text;
    }

    setReplyContext(): void {}
  }
  const isNative = Base !== undefined && hasKnownFields(Base);
  if (isNative) Object.setPrototypeOf(EvalshaCommand.prototype, Base.prototype);
  Object.assign(EvalshaCommand.prototype, FIELDS, { isNative });
  return EvalshaCommand;
}

function hasKnownFields(Base: CommandClass): boolean {
  return Object.keys(new Base('ping')).every((key) => KNOWN.has(key));
}

/** What our side throws must not end up in ioredis' parser. */
function throwLater(thrown: unknown): void {
  queueMicrotask(() => {
    throw thrown;
  });
}
