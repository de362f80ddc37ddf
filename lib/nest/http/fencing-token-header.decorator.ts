import { createParamDecorator, HttpException, type ExecutionContext } from '@nestjs/common';
import {
  FENCING_TOKEN_HEADER,
  parseFencingTokenHeader,
  type ReceivedFencingToken,
} from '../../fencing/fencing-token-header.ts';

/** Names the resource of a request, from the request of the HTTP adapter (Express or Fastify). */
export type ResourceOfRequest = (request: any) => string | readonly string[];

/**
 * Gives an HTTP handler the token its caller sent in the header `Fencing-Token`, for the resource that the function names
 * (without one: name the keys in the call to the fence).
 *
 * It only reads. What refuses a stale caller is the handler's own `fence.transaction(token, …)`; a check before the handler,
 * in a guard or a pipe, comes too early to stop a late write.
 *
 * Answers 428 when the header is missing, and 400 when it is malformed, when no fence can have the resource, and when the number
 * is more than a day ahead of this process's clock: it would lock out all holders until then, and nodes grant no such number.
 */
export function FencingTokenHeader(
  resource?: ResourceOfRequest,
  options: FencingTokenHeaderOptions = {},
): ParameterDecorator {
  return receivedToken({ resource, options });
}

/** Options of {@link FencingTokenHeader}. */
export interface FencingTokenHeaderOptions {
  /** Takes numbers from the far future, too: for callers whose tokens are not times. @default false */
  readonly anyNumber?: boolean;
}

const DAY_MS = 86_400_000;

interface Reading {
  readonly resource: ResourceOfRequest | undefined;
  readonly options: FencingTokenHeaderOptions;
}

const receivedToken = createParamDecorator(
  ({ resource, options }: Reading, context: ExecutionContext): ReceivedFencingToken => {
    const request = context
      .switchToHttp()
      .getRequest<{ headers: Record<string, string | string[] | undefined> }>();
    const text = request.headers[FENCING_TOKEN_HEADER.toLowerCase()];
    if (text === undefined || text === '') {
      throw new HttpException(
        `This request needs the header ${FENCING_TOKEN_HEADER}: <token>;<holder>`,
        428,
      );
    }
    const keys = resource?.(request) ?? [];
    const token = parseFencingTokenHeader(String(text), typeof keys === 'string' ? [keys] : keys);
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
