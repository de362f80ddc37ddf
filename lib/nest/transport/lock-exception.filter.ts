import { Catch, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import { throwError } from 'rxjs';
import {
  LockBusyError,
  LockLostError,
  QuorumUnavailableError,
  RedlockClosedError,
  StaleTokenError,
  type RedlockError,
  type RedlockErrorCode,
} from '../../core/errors.ts';

/** The answer to a caller over every transport; over HTTP with the status beside it. */
export interface LockExceptionAnswer {
  /** A code of what went wrong, for programs. */
  readonly code: RedlockErrorCode;
  /** The text for people. */
  readonly message: string;
  /** When it is worth trying again, in whole seconds; absent where the caller must not repeat the call as it was. */
  readonly retryAfterSeconds?: number;
}

/** Wrong use and wrong options are missing: faults of the application stay what they are. */
const MEANINGS: Partial<Record<RedlockErrorCode, [status: number, message: string]>> = {
  LOCK_BUSY: [409, 'Another call is using this resource. Try again later.'],
  LOCK_LOST: [
    500,
    'The lock was lost before the work ended. Find out what was done before you try again.',
  ],
  STALE_TOKEN: [
    412,
    'The resource has seen a newer token; nothing was written. Do not repeat the call with this token.',
  ],
  QUORUM_UNAVAILABLE: [503, 'Locks are unavailable. Try again later.'],
  REDLOCK_CLOSED: [503, 'This server is shutting down. Try again.'],
};

/**
 * Answers lock errors as what they are instead of as an internal server error:
 *
 * | error | HTTP status | `Retry-After` |
 * | --- | --- | --- |
 * | `LockBusyError` | 409 | 1 |
 * | `LockLostError`: the work ran, and its outcome is unknown | 500 | |
 * | `StaleTokenError` | 412 | |
 * | `QuorumUnavailableError`, `RedlockClosedError` | 503 | 1 |
 *
 * All other errors pass it by, also `FencedUsageError` and `RedlockConfigError`, which are faults of the application. A lock
 * that is busy is not logged; an outage is one warning without a stack, as is every error in a microservice, whose events have
 * nobody to answer.
 *
 * Over GraphQL the error has the answer in its `extensions`; a microservice and a WebSocket gateway answer
 * `{ status: 'error', ...answer }`, the gateway as the event `exception`.
 *
 * `RedlockModule` registers it (`httpErrors`) for controllers, resolvers and microservices. A gateway needs
 * `@UseFilters(LockExceptionFilter)`, and a hybrid application `inheritAppConfig: true`. Filters of the application are asked
 * before it: below one that catches everything, register it once more.
 */
@Catch(LockBusyError, LockLostError, StaleTokenError, QuorumUnavailableError, RedlockClosedError)
export class LockExceptionFilter implements ExceptionFilter {
  readonly #logger = new Logger('LockExceptionFilter');

  /** Called by Nest. @throws the error itself where the transport is none of those above */
  catch(error: RedlockError, host: ArgumentsHost): unknown {
    const [status, answer] = answerOf(error);
    const transport = host.getType<string>();
    // The answers to events are read by nobody.
    if (error.code === 'QUORUM_UNAVAILABLE' || transport === 'rpc')
      this.#logger.warn(error.message);
    switch (transport) {
      case 'http':
        return this.#respond(host.switchToHttp().getResponse(), status, answer);
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

  #respond(response: HttpResponse, status: number, answer: LockExceptionAnswer): void {
    const raw = response.raw ?? response;
    if (raw.headersSent) {
      // The status has left already. A body that breaks off shows that something is wrong; one that ends does not.
      this.#logger.warn(`${answer.message} The answer had begun, and was broken off.`);
      raw.destroy();
      return;
    }
    const body = { statusCode: status, error: STATUS_CODES[status], ...answer };
    const retryAfter = answer.retryAfterSeconds && String(answer.retryAfterSeconds);
    if (response.header) {
      if (retryAfter) response.header('Retry-After', retryAfter);
      response.status(status).send(body);
    } else {
      const headers = {
        'Content-Type': 'application/json',
        ...(retryAfter && { 'Retry-After': retryAfter }),
      };
      raw.writeHead(status, headers).end(JSON.stringify(body));
    }
  }
}

function answerOf({ code }: RedlockError): [status: number, LockExceptionAnswer] {
  const [status, message] = MEANINGS[code]!;
  if (status !== 503 && code !== 'LOCK_BUSY') return [status, { code, message }];
  return [status, { code, message, retryAfterSeconds: 1 }];
}

/** Express and Fastify name `header`, `status` and `send` the same; a middleware of Fastify has Node's response only. */
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

/** A WebSocket of `ws` has a `readyState`, and its `emit` is local. */
function emit(client: WebSocketClient, data: object): void {
  if (typeof client.readyState === 'number')
    client.send(JSON.stringify({ event: 'exception', data }));
  else client.emit('exception', data);
}
