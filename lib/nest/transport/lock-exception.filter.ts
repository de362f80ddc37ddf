import { Catch, Logger, Optional, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { ServerResponse } from 'node:http';
import { throwError } from 'rxjs';
import {
  isRedlockError,
  type LockBusyError,
  type LockLostError,
  type RedlockError,
  type RedlockErrorCode,
  type StaleTokenError,
} from '../../core/errors.ts';
import { checkOptions, choice } from '../../core/options/option-names.ts';

/** Options of {@link LockExceptionFilter}. */
export interface LockExceptionFilterOptions {
  /** The HTTP status of a busy lock: 409 Conflict, or 423 Locked. @default 409 */
  readonly busyStatus?: 409 | 423;
}

/** What a caller is answered over every transport; over HTTP with the status beside it. */
export interface LockExceptionAnswer {
  /** What went wrong, for programs. */
  readonly code: RedlockErrorCode;
  /** For people. */
  readonly message: string;
  /** When it is worth trying again, in whole seconds; absent where the caller must not repeat the call as it was. */
  readonly retryAfterSeconds?: number;
  /** Of a stale token: its key. */
  readonly key?: string;
  /** Of a stale token: the refused token, decimal. The newer one is for its holder only. */
  readonly token?: string;
}

type Meaning = readonly [status: number, error: string, message: string];

/** What the errors mean to a caller. Wrong use and wrong options are faults of the application, and stay what they are. */
const MEANINGS: Partial<Record<RedlockErrorCode, Meaning>> = {
  LOCK_BUSY: [409, 'Conflict', 'Another call is using this resource. Try again later.'],
  LOCK_LOST: [
    409,
    'Conflict',
    'The lock was lost before the work ended. Find out what was done before you try again.',
  ],
  STALE_TOKEN: [
    412,
    'Precondition Failed',
    'The resource has seen a newer token; nothing was written. Do not repeat the call with this token.',
  ],
  QUORUM_UNAVAILABLE: [503, 'Service Unavailable', 'Locks are unavailable. Try again later.'],
  REDLOCK_CLOSED: [503, 'Service Unavailable', 'This server is shutting down. Try again.'],
};

/** A shutdown that ended the work: another server has it from now on. */
const CUT_OFF: Meaning = [
  503,
  'Service Unavailable',
  'This server shut down before the work ended. Find out what was done, then try again.',
];

function isCutOff(error: RedlockError): boolean {
  return error.code === 'LOCK_LOST' && (error as LockLostError).reason === 'closed';
}

function meaningOf(error: RedlockError): Meaning {
  return isCutOff(error) ? CUT_OFF : MEANINGS[error.code]!;
}

/** Matches by code, because `instanceof` fails for an error of another copy of this package. */
class AnyLockError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return isRedlockError(error) && MEANINGS[error.code] !== undefined;
  }
}

/**
 * Answers lock errors as what they are instead of as an internal server error:
 *
 * | error | HTTP status | `Retry-After` |
 * | --- | --- | --- |
 * | `LockBusyError` | 409 (423 by option) | what is left of the holder's lease, in seconds, at least 1 |
 * | `LockLostError` | 409 | |
 * | `LockLostError` with the reason `closed`: the shutdown ended the work | 503 | 1 |
 * | `StaleTokenError` | 412 | |
 * | `QuorumUnavailableError`, `RedlockClosedError` | 503 | 1 |
 *
 * All other errors pass it by, also `FencedUsageError` and `RedlockConfigError`, which are faults of the application. A lock
 * that is busy is not logged; an outage is one warning without a stack.
 *
 * Over GraphQL the error has the answer in its `extensions`; a microservice and a WebSocket gateway answer
 * `{ status: 'error', ...answer }`, the gateway as the event `exception`. Nest applies global filters to controllers,
 * resolvers and microservices; a gateway needs `@UseFilters(LockExceptionFilter)`, and a hybrid application
 * `inheritAppConfig: true`.
 *
 * @example
 * ```ts
 * app.useGlobalFilters(new LockExceptionFilter());
 * ```
 */
@Catch(AnyLockError)
export class LockExceptionFilter implements ExceptionFilter {
  readonly #logger = new Logger('LockExceptionFilter');
  readonly #busyStatus: number;

  // Nest, which makes it where a class was given to `@UseFilters`, has no options to inject.
  constructor(@Optional() options: LockExceptionFilterOptions = {}) {
    const table = { busyStatus: choice(409, 423) };
    this.#busyStatus = checkOptions('LockExceptionFilter', table, options).busyStatus ?? 409;
  }

  /** What Nest calls. @throws the error itself where the transport is none of those above */
  catch(error: RedlockError, host: ArgumentsHost): unknown {
    const transport = host.getType<string>();
    const answer = answerOf(error);
    if (error.code === 'QUORUM_UNAVAILABLE') this.#logger.warn(error.message);
    switch (transport) {
      case 'http':
        return this.#respond(host.switchToHttp().getResponse(), error, answer);
      case 'graphql': {
        const { message, ...extensions } = answer;
        throw Object.assign(new Error(message, { cause: error }), { extensions });
      }
      case 'rpc':
        return throwError(() => ({ status: 'error', ...answer }));
      case 'ws':
        return emit(host.switchToWs().getClient(), { status: 'error', ...answer });
      default:
        throw error;
    }
  }

  /** By Node's own response, which Express extends and Fastify keeps in `raw`; in a middleware of Fastify there is only that. */
  #respond(response: HttpResponse, error: RedlockError, answer: LockExceptionAnswer): void {
    const raw = response.raw ?? response;
    if (raw.headersSent) {
      // The status has left already. A body that breaks off shows that something is wrong; one that ends does not.
      this.#logger.warn(`${error.message} The answer had begun, and was broken off.`);
      raw.destroy();
      return;
    }
    const [status, name] = meaningOf(error);
    const statusCode = answer.code === 'LOCK_BUSY' ? this.#busyStatus : status;
    const body = { statusCode, error: statusCode === 423 ? 'Locked' : name, ...answer };
    const { retryAfterSeconds } = answer;
    if (response.header === undefined) {
      if (retryAfterSeconds !== undefined) raw.setHeader('Retry-After', String(retryAfterSeconds));
      raw.setHeader('Content-Type', 'application/json; charset=utf-8');
      raw.statusCode = statusCode;
      raw.end(JSON.stringify(body));
      return;
    }
    if (retryAfterSeconds !== undefined) response.header('Retry-After', String(retryAfterSeconds));
    response.status(statusCode).send(body);
  }
}

function answerOf(error: RedlockError): LockExceptionAnswer {
  const { code } = error;
  const [, , message] = meaningOf(error);
  if (code === 'STALE_TOKEN') {
    const { key, token } = error as StaleTokenError;
    return { code, message, key, token };
  }
  if (code === 'LOCK_LOST' && !isCutOff(error)) return { code, message };
  const leftMs = code === 'LOCK_BUSY' ? ((error as LockBusyError).holderRemainingMs ?? 0) : 0;
  return { code, message, retryAfterSeconds: Math.max(1, Math.ceil(leftMs / 1000)) };
}

/** Express and Fastify name `header`, `status` and `send` the same. */
interface HttpResponse extends ServerResponse {
  readonly raw?: ServerResponse;
  header?(name: string, value: string): unknown;
  status(status: number): { send(body: unknown): unknown };
}

interface WebSocketClient {
  readonly readyState?: unknown;
  send(text: string): void;
  emit(event: string, data: unknown): void;
}

/** A WebSocket of `ws` has an `emit`, too, but that one is local. */
function emit(client: WebSocketClient, data: object): void {
  const isNative = typeof client.readyState === 'number';
  if (isNative) client.send(JSON.stringify({ event: 'exception', data }));
  else client.emit('exception', data);
}
