import { QuorumUnavailableError, type NodeCause } from '../../core/errors.ts';
import { inSeconds } from '../../core/options/duration.ts';

/** What the start was asked for, and what it found. */
export interface Outage {
  readonly waitedMs: number;
  /** How many nodes the start needs: a quorum, or with `strict` all of them. */
  readonly needed: number;
  readonly quorum: number;
  readonly nodeCount: number;
  /** Of the nodes that are not there. */
  readonly causes: readonly NodeCause[];
}

/**
 * The error of a start that found too few nodes: with what helps against each kind of failure.
 * @param next what comes then, at the end of the message
 */
export function startupOutage(outage: Outage, next: string): QuorumUnavailableError {
  const { waitedMs, needed, quorum, nodeCount, causes } = outage;
  const commands = causes.flatMap(commandFor);
  const start = commands.length > 0 ? [`Start Redis: ${commands.join(' and ')}.`] : [];
  const hints = [...start, ...causes.map(hintFor).filter((hint) => hint !== '')];
  const advice = [hints.length > 0 ? hints.join(' ') : 'Check these servers.', next];
  return new QuorumUnavailableError(
    [],
    waitedMs,
    needed,
    nodeCount,
    causes,
    advice.join(' ').trim(),
    needed > quorum && causes.length > 0
      ? `With 'strict' the start needs all ${needed} nodes, and after ${Math.round(waitedMs)} ms ${causes.length} ${causes.length === 1 ? 'is' : 'are'} missing`
      : undefined,
  );
}

/** The advice of a start that did not wait long enough; none where no wait helps against any of the failures. */
export function adviceToWait(causes: readonly NodeCause[], timeoutMs: number): string {
  const isLasting = ({ message }: NodeCause) =>
    LASTING.test(message) || WRITES.some(([code]) => code.test(message));
  if (causes.length > 0 && causes.every(isLasting)) return '';
  return `Servers that start later need a longer 'startupTimeout' (${inSeconds(timeoutMs)}).`;
}

/** What only another configuration changes. */
const LASTING =
  /\b(NOAUTH|WRONGPASS|NOPERM|ENOTFOUND)\b|certificate|Unknown RESP type|Protocol error/;

/** By what a server says that refuses all writes, and so every vote. */
const WRITES: readonly (readonly [RegExp, string])[] = [
  [
    /\bNOREPLICAS\b/,
    'takes no writes while too few replicas are attached: attach them, or set min-replicas-to-write 0.',
  ],
  [
    /\bOOM\b/,
    'takes no writes, because its memory is full: raise maxmemory, or take out what fills it.',
  ],
  [
    /\bMISCONF\b/,
    'takes no writes, because it could not save to its disk: its log says why; else set stop-writes-on-bgsave-error no.',
  ],
];

/** Starts a server where nothing listens on this machine. */
function commandFor({ address, message }: NodeCause): string[] {
  const [, port] = (REFUSED.test(message) && LOCAL.exec(address)) || [];
  return port === undefined ? [] : [`docker run --rm -p ${port}:6379 redis`];
}

function hintFor({ address, message }: NodeCause): string {
  if (REFUSED.test(message))
    return LOCAL.test(address)
      ? ''
      : `Nothing listens at ${address}: start the server, or correct host and port.`;
  if (/\bNOAUTH\b/.test(message))
    return `${address} wants a password: redis://:password@host:port, with a user redis://user:password@host:port.`;
  if (/\bWRONGPASS\b/.test(message))
    return `${address} knows another user or password: correct those in 'nodes'.`;
  if (/\b(ENOTFOUND|EAI_AGAIN)\b/.test(message))
    return `No such host: correct the host name of ${address}.`;
  const [, refused] = WRITES.find(([code]) => code.test(message)) ?? [];
  if (refused !== undefined) return `${address} ${refused}`;
  if (/self-signed certificate|unable to verify the first certificate|local issuer/.test(message))
    return `${address} shows a certificate that this process does not trust: give that of its authority, tls: { ca }.`;
  if (/Unknown RESP type|Protocol error/.test(message))
    return `What listens at ${address} is no Redis (perhaps a web server): correct the port.`;
  return '';
}

const REFUSED = /\bECONNREFUSED\b/;
const LOCAL = /^(?:localhost|127\.\d+\.\d+\.\d+|\[?::1\]?):(\d+)$/i;
