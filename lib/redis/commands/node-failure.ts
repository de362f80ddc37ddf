import type { NodeFailure } from '../../core/nodes/lock-node.ts';

/** Errors with which a server refuses a command, or a script before its first write. */
const NOTHING_WRITTEN = new Set([
  'NOSCRIPT',
  'BUSY',
  'LOADING',
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'READONLY',
  'WRONGTYPE',
  'MASTERDOWN',
  'MISCONF',
  'NOREPLICAS',
  'OOM',
  'MOVED',
  'ASK',
  'CROSSSLOT',
  'CLUSTERDOWN',
]);

/** How ioredis refuses a command that it can't write now. */
export const NOT_WRITABLE = "Stream isn't writeable";

/** The command was not sent. */
export function notSent(message: string): NodeFailure {
  return { kind: 'failed', nothingWritten: true, reason: 'unreachable', message };
}

/** The server answered something that none of our scripts returns. */
export function unexpectedReply(command: string, reply: unknown): NodeFailure {
  const shape = Array.isArray(reply)
    ? `an array of ${reply.length}`
    : reply === null
      ? 'null'
      : `a ${typeof reply}`;
  return {
    kind: 'failed',
    nothingWritten: false,
    reason: 'error',
    message: `unexpected reply to ${command} (${shape}): is this a Redis server?`,
  };
}

/** What a rejected command means. */
export function failureOf(error: unknown, conceal: (message: string) => string): NodeFailure {
  const message = errorMessage(error);
  if (isErrorReply(error)) {
    const code = /^[A-Z]+/.exec(message)?.[0] ?? '';
    return {
      kind: 'failed',
      nothingWritten: NOTHING_WRITTEN.has(code),
      reason: 'error',
      message: conceal(message),
      ...(code === 'NOSCRIPT' ? { mustJoin: true } : {}),
    };
  }
  if (isNotWritable(error)) return notSent('the connection is closing');
  return {
    kind: 'failed',
    nothingWritten: false,
    reason: 'unreachable',
    message: 'the connection was closed before the answer',
  };
}

/** An error that the server sent; by name, since it may be of another copy of ioredis. */
export function isErrorReply(error: unknown): error is Error {
  return isErrorLike(error) && error.name === 'ReplyError';
}

/** ioredis found the stream unwritable and did not queue. */
export function isNotWritable(error: unknown): boolean {
  return errorMessage(error).startsWith(NOT_WRITABLE);
}

export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith('NOSCRIPT');
}

/** Never empty: where both address families were refused, Node's AggregateError has no message of its own. */
export function errorMessage(error: unknown): string {
  if (!isErrorLike(error)) return String(error);
  if (error.message !== '') return error.message;
  const [first] = (error as Partial<AggregateError>).errors ?? [];
  return isErrorLike(first) && first.message !== '' ? first.message : error.name;
}

/** Not `instanceof`: errors of sockets may come from another realm (jest, vm). */
function isErrorLike(value: unknown): value is Error {
  return (
    typeof value === 'object' &&
    value !== null &&
    'message' in value &&
    typeof value.message === 'string'
  );
}
