import type {
  AcquireReply,
  AcquireRequest,
  ExtendReply,
  ExtendRequest,
  InspectReply,
  InspectRequest,
  LockNames,
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
  /** May go by its text where the server does not know the digest: it is harmless before a join. */
  readonly anyhow: boolean;
  /** EVALSHA in the Redis protocol. The last request is remembered, because it goes to all nodes in a row. */
  encode(request: Request): string;
  parse(reply: unknown, request: Request): Reply;
}

export const ACQUIRE_CALL: ScriptCall<AcquireRequest, AcquireReply> = scriptCall(
  ACQUIRE,
  { values: 3, anyhow: false },
  ({ names }) => names.withMarker,
  encodeVote,
  (reply, { names }) => parseAcquireReply(reply, names.locks.length),
);

export const EXTEND_CALL: ScriptCall<ExtendRequest, ExtendReply> = scriptCall(
  EXTEND,
  { values: 3, anyhow: false },
  ({ names }) => names.withMarker,
  encodeVote,
  parseExtendReply,
);

export const RELEASE_CALL: ScriptCall<ReleaseRequest, ReleaseReply> = scriptCall(
  RELEASE,
  { values: 3, anyhow: true },
  ({ names }) => names.pairs,
  ({ holder, granted, notify }) =>
    bulk(holder) + bulk(granted ? '1' : '0') + bulk(notify ? '1' : '0'),
  parseReleaseReply,
);

export const INSPECT_CALL: ScriptCall<InspectRequest, InspectReply> = scriptCall(
  INSPECT,
  { values: 0, anyhow: true },
  ({ names }) => names.pairs,
  () => '',
  parseInspectReply,
);

function scriptCall<Request extends { readonly names: LockNames }, Reply>(
  script: Script,
  { values, anyhow }: { readonly values: number; readonly anyhow: boolean },
  keysOf: (request: Request) => readonly string[],
  encodeValues: (request: Request) => string,
  parse: (reply: unknown, request: Request) => Reply,
): ScriptCall<Request, Reply> {
  const heads: string[] = [];
  let last: Request | undefined;
  let text = '';
  const encode = (request: Request): string => {
    if (request === last) return text;
    const keys = keysOf(request);
    const { length } = keys;
    text = heads[length] ??=
      `*${length + values + 3}\r\n${bulk('evalsha')}${bulk(script.sha1)}${bulk(String(length))}`;
    for (const key of keys) text += bulk(key);
    text += encodeValues(request);
    last = request;
    return text;
  };
  return { script, anyhow, encode, parse };
}

/** Floors are compared as strings of 16 digits. */
function encodeVote({ ballot, holder, ttlMs }: AcquireRequest | ExtendRequest): string {
  return `$16\r\n${String(ballot).padStart(16, '0')}\r\n${bulk(holder)}${bulk(String(ttlMs))}`;
}

function bulk(value: string): string {
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

/** A request on its way to one node: what is written, and whom to call with the reply. */
export interface ScriptCommand<Request = any, Reply = any> {
  readonly call: ScriptCall<Request, Reply>;
  readonly request: Request;
  readonly settle: (reply: Reply) => void;
  readonly text: string;
  /** False when this copy of ioredis asks something of a command that we don't know: then it encodes by itself. */
  readonly isNative: boolean;
  resolve(reply: unknown): void;
  reject(error: unknown): void;
}

/** What becomes of a command that was not answered with a reply. */
export interface ScriptCommandOwner {
  rejected(command: ScriptCommand, error: unknown): void;
}

export type ScriptCommandClass = new <Request, Reply>(
  call: ScriptCall<Request, Reply>,
  request: Request,
  settle: (reply: Reply) => void,
  owner: ScriptCommandOwner,
) => ScriptCommand<Request, Reply>;

/** The class of commands of one copy of ioredis. */
export type CommandClass = (new (name: string) => object) & { readonly prototype: object };

/** What ioredis keeps in a command; all of it is constant in ours. */
const FIELDS = {
  name: 'evalsha',
  args: [],
  replyEncoding: 'utf8',
  // The text is ready: nothing is traced, transformed or timed.
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
export function scriptCommandClass(Base?: CommandClass): ScriptCommandClass {
  class EvalshaCommand<Request, Reply> implements ScriptCommand<Request, Reply> {
    readonly call: ScriptCall<Request, Reply>;
    readonly request: Request;
    readonly settle: (reply: Reply) => void;
    readonly owner: ScriptCommandOwner;
    readonly text: string;
    declare readonly isNative: boolean;
    declare transformReply?: (reply: unknown) => unknown;

    constructor(
      call: ScriptCall<Request, Reply>,
      request: Request,
      settle: (reply: Reply) => void,
      owner: ScriptCommandOwner,
    ) {
      this.call = call;
      this.request = request;
      this.settle = settle;
      this.owner = owner;
      this.text = call.encode(request);
    }

    toWritable(): string {
      return this.text;
    }

    setReplyContext(): void {}

    resolve(reply: unknown): void {
      try {
        const value =
          typeof reply === 'number' || !this.isNative ? reply : this.transformReply?.(reply);
        this.settle(this.call.parse(value, this.request));
      } catch (thrown) {
        rethrow(thrown);
      }
    }

    /** May be called while somebody else writes or closes. */
    reject(error: unknown): void {
      inModuleContext(() => {
        try {
          this.owner.rejected(this, error);
        } catch (thrown) {
          rethrow(thrown);
        }
      });
    }
  }
  const isNative =
    Base !== undefined && Object.keys(new Base('ping')).every((key) => KNOWN.has(key));
  if (isNative) Object.setPrototypeOf(EvalshaCommand.prototype, Base.prototype);
  Object.assign(EvalshaCommand.prototype, FIELDS, { isNative });
  return EvalshaCommand;
}

/** What our side throws must not end up in ioredis' parser. */
function rethrow(thrown: unknown): void {
  queueMicrotask(() => {
    throw thrown;
  });
}
