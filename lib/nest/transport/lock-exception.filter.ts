import { Catch, Logger, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { STATUS_CODES, type ServerResponse } from 'node:http';
import { throwError } from 'rxjs';
import {
  LockBusyError,
  LockLostError,
  OnceConflictError,
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

/** The status of HTTP, that of gRPC, the text for people, and the time after which the call is worth repeating as it was. */
type Meaning = [http: number, grpc: number, message: string, retryAfterSeconds?: number];

/** Wrong use and wrong options are missing: faults of the application stay what they are. */
const MEANINGS: Partial<Record<RedlockErrorCode, Meaning>> = {
  LOCK_BUSY: [409, 10, 'Another call is using this resource. Try again later.', 1],
  LOCK_LOST: [
    500,
    13,
    'The lock was lost before the work ended. Find out what was done before you try again.',
  ],
  STALE_TOKEN: [
    412,
    9,
    'The resource has seen a newer token; nothing was written. Do not repeat the call with this token.',
  ],
  ONCE_CONFLICT: [
    422,
    3,
    'This key was used before with another payload. Use a new key for another operation.',
  ],
  QUORUM_UNAVAILABLE: [503, 14, 'Locks are unavailable. Try again later.', 1],
  REDLOCK_CLOSED: [503, 14, 'This server is shutting down. Try again.', 1],
};

const OUTDATED: Meaning = [409, 10, 'A newer call took the place of this one. Do not repeat it.'];

function meaningOf(error: RedlockError): Meaning {
  const { reason, isOvertaken } = error as Partial<LockLostError & LockBusyError>;
  return reason === 'replaced' || isOvertaken ? OUTDATED : MEANINGS[error.code]!;
}

/**
 * Answers lock errors as what they are instead of as an internal server error:
 *
 * | error | HTTP status | gRPC status | `Retry-After` |
 * | --- | --- | --- | --- |
 * | `LockBusyError` | 409 | `ABORTED` | 1 s |
 * | one that a newer call overtook or replaced (`onBusy: 'replace'`) | 409 | `ABORTED` | |
 * | `LockLostError`: the work ran, and its outcome is unknown | 500 | `INTERNAL` | |
 * | `StaleTokenError` | 412 | `FAILED_PRECONDITION` | |
 * | `OnceConflictError` | 422 | `INVALID_ARGUMENT` | |
 * | `QuorumUnavailableError`, `RedlockClosedError` | 503 | `UNAVAILABLE` | 1 s |
 *
 * All other errors pass it by, also `FencedUsageError` and `RedlockConfigError`, which are faults of the application. A lock
 * that is busy is not logged; an outage is one warning without a stack, as is every error in a microservice, whose events have
 * nobody to answer.
 *
 * Over GraphQL the error has the answer in its `extensions`. Over gRPC the time to try again is the trailer
 * `grpc-retry-pushback-ms`, which gRPC clients with retries obey. Other microservices and a WebSocket gateway answer
 * `{ status: 'error', ...answer }`, the gateway as the event `exception`.
 *
 * `RedlockModule` registers it (`httpErrors`) for controllers, resolvers and microservices. A gateway needs
 * `@UseFilters(LockExceptionFilter)`, and a hybrid application `inheritAppConfig: true`. Filters of the application are asked
 * before it: below one that catches everything, register it once more.
 */
@Catch(
  LockBusyError,
  LockLostError,
  StaleTokenError,
  OnceConflictError,
  QuorumUnavailableError,
  RedlockClosedError,
)
export class LockExceptionFilter implements ExceptionFilter {
  readonly #logger = new Logger('LockExceptionFilter');

  /** Called by Nest. @throws the error itself where the transport is none of those above */
  catch(error: RedlockError, host: ArgumentsHost): unknown {
    const { code } = error;
    const [status, grpcStatus, message, retryAfterSeconds] = meaningOf(error);
    const answer: LockExceptionAnswer = { code, message, retryAfterSeconds };
    const transport = host.getType<string>();
    // The answers to events are read by nobody.
    if (code === 'QUORUM_UNAVAILABLE' || transport === 'rpc') this.#logger.warn(error.message);
    switch (transport) {
      case 'http':
        return this.#respond(host.switchToHttp().getResponse(), status, answer);
      case 'graphql': {
        const extensions = { code, retryAfterSeconds };
        throw Object.assign(new Error(message, { cause: error }), { extensions });
      }
      case 'rpc': {
        const context = host.switchToRpc().getContext<GrpcMetadata | undefined>();
        if (!context?.toHttp2Headers) return throwError(() => ({ status: 'error', ...answer }));
        const metadata = Reflect.construct(context.constructor, []) as GrpcMetadata;
        if (retryAfterSeconds)
          metadata.set('grpc-retry-pushback-ms', String(retryAfterSeconds * 1_000));
        return throwError(() => ({ code: grpcStatus, message, metadata }));
      }
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

/** The metadata of a gRPC call, whose class belongs to the application; other transports have a context without headers. */
interface GrpcMetadata {
  readonly toHttp2Headers?: unknown;
  set(name: string, value: string): void;
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
