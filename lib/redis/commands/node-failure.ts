import type { NodeFailure } from '../../core/nodes/lock-node.ts';
import { NOT_WRITABLE } from '../wire.ts';

/** Matches errors with which a server refuses a command, or a script before its first write. */
const NOTHING_WRITTEN =
  /^(NOSCRIPT|BUSY|LOADING|NOAUTH|WRONGPASS|NOPERM|OOM|WRONGTYPE|READONLY|MASTERDOWN|MISCONF|NOREPLICAS|MOVED|ASK|TRYAGAIN|CROSSSLOT|CLUSTERDOWN)\b/;

/** Matches the refusals of a server that is no primary, or writes no more because another one may be; Redis 6 puts the word behind the place in the script. */
const OF_A_DEMOTED = /^(?:ERR .* -)?(?:READONLY|MASTERDOWN|MOVED|CLUSTERDOWN|NOREPLICAS)\b/;

/** Matches where in one of our scripts it happened. */
const OF_OUR_SCRIPT =
  / script: [0-9a-f]{40}, on @user_script:\d+\.?|^ERR Error running script \(call to f_[0-9a-f]{40}\): @user_script:\d+: (?:@user_script: ?\d+: )?-?/g;

/** Cuts digests of scripts from what a server said. */
export function withoutDigests(message: string): string {
  return message.replace(OF_OUR_SCRIPT, '');
}

/** The command was not sent. */
export function notSent(message: string): NodeFailure {
  return failure('unreachable', message, true);
}

/** The server answered something that none of our scripts returns. */
export function unexpectedReply(command: string, reply: unknown): NodeFailure {
  const shape = Array.isArray(reply) ? `an array of ${reply.length}` : typeof reply;
  return failure('error', `unexpected reply to ${command} (${shape}): is this a Redis server?`);
}

/** Meaning of a rejected command. */
export function failureOf(error: unknown, conceal: (message: string) => string): NodeFailure {
  const message = errorMessage(error);
  if (isErrorReply(error)) {
    const text = withoutDigests(conceal(message));
    const refused = failure('error', text, NOTHING_WRITTEN.test(message));
    return isNoScript(error) ? { ...refused, mustJoin: true } : refused;
  }
  if (isNotWritable(error)) return notSent('the connection is closing');
  return failure('unreachable', 'the connection was closed before the answer');
}

function failure(
  reason: NodeFailure['reason'],
  message: string,
  nothingWritten = false,
): NodeFailure {
  return { kind: 'failed', nothingWritten, reason, message };
}

/** An error that the server sent; by name, since it may be of another copy of ioredis. */
export function isErrorReply(error: unknown): error is Error {
  return isErrorLike(error) && error.name === 'ReplyError';
}

/** An error of the server that came as data. */
export function errorReply(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

/** The server's own refusal is an answer; anything else is thrown. */
export function orErrorReply(error: unknown): Error {
  if (isErrorReply(error)) return error;
  throw error;
}

/** The command was not sent. */
export function isNotWritable(error: unknown): boolean {
  return errorMessage(error).startsWith(NOT_WRITABLE);
}

/** Says whether the server is no primary, or no more: its address may lead to another one by now. */
export function isDemoted(error: unknown): boolean {
  return isErrorReply(error) && OF_A_DEMOTED.test(error.message);
}

export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith('NOSCRIPT');
}

/** Says whether it refuses a whole command: this user may not use it, or one of its keys. */
export function isNoPermission(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith('NOPERM');
}

/** Never empty: where both address families were refused, Node's AggregateError has no message of its own. */
export function errorMessage(error: unknown): string {
  if (!isErrorLike(error)) return String(error);
  if (error.message !== '') return error.message;
  const [first] = (error as Partial<AggregateError>).errors ?? [];
  return isErrorLike(first) && first.message !== '' ? first.message : error.name;
}

/** Check without `instanceof`: errors of sockets may come from another realm (jest, vm). */
function isErrorLike(value: unknown): value is Error {
  return typeof (value as Partial<Error> | null | undefined)?.message === 'string';
}
