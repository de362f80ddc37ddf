import type { Writable } from 'node:stream';
import { createParamDecorator, HttpException, type ExecutionContext } from '@nestjs/common';
import { FencedUsageError } from '../../core/errors.ts';
import {
  checkKeyList,
  FENCING_TOKEN_HEADER,
  parseFencingTokenHeader,
  type ReceivedFencingToken,
} from '../../fencing/fencing-token-header.ts';
import { callOption, keysMade } from '../made-keys.ts';

/** Names the resource of a request, from the request of the HTTP adapter (Express or Fastify). */
export type ResourceOfRequest = (request: any) => string | readonly string[];

/**
 * Gives an HTTP handler the token its caller sent in the header `Fencing-Token`, for the resource that the function names
 * (without one: name the keys in the call to the fence).
 *
 * The decorator only reads. A stale caller is rejected by the handler's own `fence.transaction(token, …)`; a check before the
 * handler, in a guard or a pipe, comes too early to stop a late write.
 *
 * The answer is 428 when the header is missing, and 400 when it is malformed, when the number is more than a day ahead of this
 * process's clock (it would lock out all holders until then, and nodes grant no such number), and when the function makes no key
 * of the request, or more than a lock can have. The method does not run then.
 *
 * @example
 * ```ts
 * @Put(':id')
 * async assign(@FencingTokenHeader((request) => `seat:${request.params.id}`) token: ReceivedFencingToken) {
 *   await this.fence.transaction(token, (tx) => tx.query('UPDATE seat SET taken = true'));
 * }
 * ```
 * @throws FencedUsageError for a request for which `resource` throws
 */
export function FencingTokenHeader(
  resource?: ResourceOfRequest,
  options: FencingTokenHeaderOptions = {},
): ParameterDecorator {
  return receivedToken([resource, options]);
}

/** The options of {@link FencingTokenHeader}. */
export interface FencingTokenHeaderOptions {
  /** Takes numbers from the far future, too: for callers whose tokens are not times. @default false */
  readonly anyNumber?: boolean;
}

const DAY_MS = 86_400_000;

type Reading = readonly [ResourceOfRequest | undefined, FencingTokenHeaderOptions];

const receivedToken = createParamDecorator(
  ([resource, options]: Reading, context: ExecutionContext): ReceivedFencingToken => {
    const request = httpOf(context, '@FencingTokenHeader()').getRequest<{
      headers: Record<string, string | string[] | undefined>;
    }>();
    const text = request.headers[FENCING_TOKEN_HEADER.toLowerCase()];
    if (text === undefined || text === '') {
      throw new HttpException(
        `This request needs the header ${FENCING_TOKEN_HEADER}: <token>;<holder>`,
        428,
      );
    }
    const where = handlerOf(context);
    const keys = resource === undefined ? [] : resourceKeys(() => resource(request), where);
    const token = parseFencingTokenHeader(String(text), keys);
    if (!token)
      throw new HttpException(
        `The header ${FENCING_TOKEN_HEADER} must be <token>;<holder>, and its resource one that a fence can name`,
        400,
      );
    if (!options.anyNumber && BigInt(token.value) > BigInt(Date.now() + DAY_MS) * 1_000n)
      throw new HttpException(
        `The number in the header ${FENCING_TOKEN_HEADER} is more than a day ahead of the clock here`,
        400,
      );
    return token;
  },
);

/** @throws FencedUsageError where the handler is not a route: a message or a GraphQL call has no request in this place */
function httpOf(context: ExecutionContext, decorator: string) {
  if (context.getType<string>() === 'http') return context.switchToHttp();
  throw new FencedUsageError(
    `${handlerOf(context)}: ${decorator} works on the HTTP routes of a controller only, not on a handler of type '${context.getType<string>()}'. The method was not run.`,
  );
}

function handlerOf(context: ExecutionContext): string {
  return `${context.getClass().name}.${context.getHandler().name}`;
}

const KEY_FUNCTION = 'the key function of @FencingTokenHeader';

/** @throws HttpException where the request makes no keys: that is its fault, and no defect here */
function resourceKeys(make: () => unknown, where: string): readonly string[] {
  const made = callOption(make, KEY_FUNCTION, where);
  try {
    const keys = keysMade(made, KEY_FUNCTION, where);
    checkKeyList(keys);
    return keys;
  } catch (error) {
    throw new HttpException((error as Error).message, 400, { cause: error });
  }
}

/**
 * Gives an HTTP handler (of Express or Fastify) an `AbortSignal` that aborts when the client closes the connection, or resets its
 * HTTP/2 stream, before it has its answer, with an `HttpException` of status 499 as its reason. As the `signal` of `@Fenced` it
 * ends the wait for a lock that no one waits for any more. On a handler that is no HTTP route, the call rejects with a
 * `FencedUsageError`.
 *
 * @example
 * ```ts
 * @Post(':id')
 * @Fenced('seat:{0}', { signal: (_id, signal) => signal })
 * async book(@Param('id') id: string, @ClientSignal() signal: AbortSignal) {}
 * ```
 */
export const ClientSignal: () => ParameterDecorator = createParamDecorator(
  (_data: unknown, context: ExecutionContext): AbortSignal => {
    // Fastify keeps Node's response in `raw`, which keeps the stream of HTTP/2 in `stream`.
    const response = httpOf(context, '@ClientSignal()').getResponse<HttpResponse>();
    const raw = response.raw ?? response;
    const stream = raw.stream ?? raw;
    const controller = new AbortController();
    const closed = () => {
      // Node finishes an HTTP/2 stream that the client has cancelled. Nest logs no HttpException: a client that leaves is no defect.
      if (!stream.writableFinished || stream.aborted)
        controller.abort(new HttpException(HUNG_UP, 499));
    };
    // Comes once, after every answer, so nothing is left on a connection that is kept alive. A guard may have taken its time.
    if (stream.closed || stream.destroyed) closed();
    else stream.once('close', closed);
    return controller.signal;
  },
);

interface HttpResponse extends Writable {
  readonly raw?: HttpResponse;
  readonly stream?: HttpResponse;
  readonly aborted?: boolean;
}

const HUNG_UP = 'The client closed the connection before it had its answer.';
