import type {
  AcquireRequest,
  ExtendRequest,
  ReleaseRequest,
  WaitRequest,
} from '../../core/nodes/lock-node.ts';
import { ACQUIRE, EXTEND, gateName, RELEASE, WAIT, type Script } from '../scripts.ts';
import type { WireCommand, Word } from '../wire.ts';
import * as replies from './replies.ts';

export type ScriptRequest = AcquireRequest | ExtendRequest | ReleaseRequest | WaitRequest;

/** The names of the scripts in a batch; and how many keys stand before those of the locks: marker and gate. */
const OWN_KEYS = { a: 2, e: 1, r: 0, w: 0 } as const;

/** What goes with a script: the number of its keys, the keys and the values, in the words of a command. */
export interface ScriptArguments {
  readonly words: readonly Word[];
  /** Those of the locks, without marker and gate. */
  readonly keys: readonly string[];
  readonly values: readonly Word[];
}

/** A script as the port asks for it: what a request looks like on the wire, and what the reply means. */
export class ScriptCall<Reply> {
  /** Votes go by a digest that no server but the one that was joined knows. */
  readonly isVote: boolean;
  /** The last request is remembered, because it goes to all nodes in a row. */
  #last: ScriptRequest | undefined;
  #arguments: ScriptArguments | undefined;

  constructor(
    readonly letter: keyof typeof OWN_KEYS,
    readonly script: Script,
    readonly parse: (reply: unknown, request: ScriptRequest) => Reply,
  ) {
    this.isVote = letter === 'a' || letter === 'e';
  }

  argumentsOf(request: ScriptRequest): ScriptArguments {
    if (request === this.#last) return this.#arguments!;
    const { names } = request;
    const { marker } = names;
    // Locks that were held keep their floors, and who waits asks for none.
    const hasNoFloors = 'member' in request || ('granted' in request && request.granted);
    this.#last = request;
    const own = [marker, gateName(marker)].slice(0, OWN_KEYS[this.letter]);
    const keys = hasNoFloors ? names.locks : names.pairs;
    const values = valuesOf(request);
    const words = [own.length + keys.length, ...own, ...keys, ...values];
    this.#arguments = { words, keys, values };
    return this.#arguments;
  }
}

export const ACQUIRE_CALL = new ScriptCall('a', ACQUIRE, replies.parseAcquireReply);
export const EXTEND_CALL = new ScriptCall('e', EXTEND, replies.parseExtendReply);
export const RELEASE_CALL = new ScriptCall('r', RELEASE, replies.parseReleaseReply);
export const WAIT_CALL = new ScriptCall('w', WAIT, replies.parseWaitReply);

/** The values of a request; each script has three. */
function valuesOf(request: ScriptRequest): readonly Word[] {
  // Floors are compared as strings of 16 digits.
  if ('ballot' in request)
    return [String(request.ballot).padStart(16, '0'), request.holder, request.ttlMs];
  if ('granted' in request) {
    const { holder, granted, pass, keepMs } = request;
    return [holder, Number(granted), keepMs === undefined ? Number(pass) : `keep ${keepMs}`];
  }
  return [request.member, request.ticket, request.lifeMs];
}

/** Voting scripts that one start of one server knows, and no other server. */
export interface VotingScripts {
  readonly start: string;
  readonly scripts: readonly Script[];
  /** Digests: of ACQUIRE and EXTEND, by their letters. */
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

/** A request on its way to one node: what is written, and whom to call with the reply. */
export class ScriptCommand implements WireCommand {
  /** Made now, because the request goes to all nodes in a row. */
  readonly arguments: ScriptArguments;

  constructor(
    readonly call: ScriptCall<any>,
    readonly request: ScriptRequest,
    readonly settle: (reply: any) => void,
    readonly owner: ScriptCommandOwner,
    readonly isByText = false,
  ) {
    this.arguments = call.argumentsOf(request);
  }

  get words(): readonly Word[] {
    const { call, owner } = this;
    const { words } = this.arguments;
    if (this.isByText) return ['eval', call.script.text, ...words];
    // The text alone has a digest that no server knows: before a join, NOSCRIPT leads to it.
    const digest = (call.isVote && owner.voting?.[call.letter as 'a' | 'e']) || call.script.sha1;
    return ['evalsha', digest, ...words];
  }

  answered(reply: unknown): void {
    this.settle(this.call.parse(reply, this.request));
  }

  refused(error: unknown, wasInBatch = false): void {
    this.owner.rejected(this, error, wasInBatch);
  }
}
