import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import {
  HttpException,
  Inject,
  Injectable,
  SetMetadata,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { lastValueFrom, of, type Observable } from 'rxjs';
import { FencedUsageError } from '../core/errors.ts';
import { callback, checkOptions, flag } from '../core/options/option-names.ts';
import { methodName } from '../nest/fenced/fenced-metadata.ts';
import { handlesRequests } from '../nest/fenced/start-check.ts';
import { locateError } from '../nest/fenced/fenced.interceptor.ts';
import { calledBy } from '../core/holding/reentrancy.ts';
import { callOption, keysMade } from '../nest/made-keys.ts';
import type { SectionOptions } from '../locks/section.ts';
import { FromRequest, transactionOfRequest, transactionParametersOf } from './once-transaction.ts';
import { ONCE_OPTIONS, OnceService, type OnceCall, type OnceOptions } from './once.service.ts';

/** The options of {@link Idempotent}. */
export interface IdempotentOptions extends Omit<OnceOptions, 'signal'> {
  /**
   * Names who sends the request, such as the user or the tenant, from the request of the HTTP adapter: two of them may use one key, and
   * nobody gets the answer of another one.
   */
  readonly scope: (request: any) => string;
  /** `false`: a request without the header is run each time. @default true: it is answered with 400 */
  readonly required?: boolean;
}

const OPTIONS = { ...ONCE_OPTIONS, scope: callback, required: flag };
const METADATA = 'nestjs-fenced-lock/idempotent';

/**
 * Answers a request that comes again with the header `Idempotency-Key` as the first one was answered, with its status and its body,
 * without running the handler. The handler runs as a method under {@link Once}, with the transaction in the parameter under
 * `@OnceTransaction()`.
 *
 * By the draft of the IETF: the answer is 400 when the header is missing or malformed, 409 while the first request is in progress
 * (`wait`, by default 0, waits for it), and 422 when the key came with another payload. The key may stand in quotes, as the draft wants
 * it, or without, as most clients send it.
 *
 * Guards run before it, pipes in the transaction. Headers that the handler sets are not stored.
 *
 * @throws RedlockConfigError at decoration when an option is invalid
 * @throws FencedUsageError at decoration of a handler that takes `@Res()` without `passthrough`, or `@Next()`; at the start for a method of a
 *   provider
 *
 * @example
 * ```ts
 * @Post('payments')
 * @Idempotent({ scope: (request) => request.user.id })
 * async pay(@Body() order: { id: string }, @OnceTransaction() tx: PoolClient = onceTransaction()) {
 *   await tx.query('INSERT INTO payment VALUES ($1)', [order.id]);
 *   return { paid: true };
 * }
 * ```
 */
export function Idempotent(options: IdempotentOptions): MethodDecorator {
  const given = checkOptions('@Idempotent', OPTIONS, options);
  const { scope, required = true, keep, keepErrors, ...lock } = given;
  const ofRequest = { scope: callback(scope, 'scope'), required, keep, keepErrors };
  return (target, propertyKey, descriptor) => {
    const where = methodName(target, propertyKey);
    if (answersItself(target, propertyKey))
      throw new FencedUsageError(
        `${where} is under @Idempotent, and takes the response or next() of its request: it would answer before the commit, and nothing could be stored. Return the answer; take @Res({ passthrough: true }) for the status.`,
      );
    handlesRequests(target, `@Idempotent on ${where}`);
    const section = calledBy({ where }, { wait: 0, ...lock });
    const route: IdempotentRoute = { ...ofRequest, where, section };
    for (const index of transactionParametersOf(target, propertyKey))
      FromRequest()(target, propertyKey, index);
    SetMetadata(METADATA, route)(target, propertyKey, descriptor);
    UseInterceptors(IdempotencyInterceptor)(target, propertyKey, descriptor);
  };
}

/** The parameters under @Res and @Next, as Nest numbers the kinds of parameters. */
const RESPONSE_OR_NEXT = /^[12]:/;

/** Whether Nest leaves the answer to this handler: the parameters of a method are decorated before the method is. */
function answersItself({ constructor }: object, propertyKey: string | symbol): boolean {
  const parameters: unknown = Reflect.getMetadata('__routeArguments__', constructor, propertyKey);
  const isPassedThrough = Reflect.hasMetadata('__responsePassthrough__', constructor, propertyKey);
  return (
    !isPassedThrough && Object.keys(Object(parameters)).some((key) => RESPONSE_OR_NEXT.test(key))
  );
}

/** What `@Idempotent` on one handler means. */
interface IdempotentRoute extends Pick<OnceCall, 'keep' | 'keepErrors'> {
  /** `Class.method`, for messages. */
  readonly where: string;
  readonly scope: (request: any) => unknown;
  readonly required: boolean;
  readonly section: SectionOptions;
}

/** Runs the handlers under {@link Idempotent}, which binds it. */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(@Inject(OnceService) private readonly once: OnceService) {}

  /** Called by Nest. @throws FencedUsageError where the handler is no HTTP route under `@Idempotent` */
  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const handler = context.getHandler();
    const route = Reflect.getMetadata(METADATA, handler) as IdempotentRoute | undefined;
    if (!route || context.getType<string>() !== 'http')
      throw new FencedUsageError(
        `${context.getClass().name}.${handler.name}: IdempotencyInterceptor is for HTTP routes under @Idempotent. Elsewhere, put @Once on a method of a service. The method was not run.`,
      );
    const { where, section, keep, keepErrors } = route;
    const request = context.switchToHttp().getRequest<HttpRequest>();
    const response = context.switchToHttp().getResponse<HttpResponse>();
    const work = async (tx: unknown): Promise<HttpAnswer> => {
      transactionOfRequest.set(request, tx);
      const body: unknown = await lastValueFrom(next.handle(), { defaultValue: undefined });
      if (!(response.raw ?? response).headersSent) return { status: response.statusCode, body };
      throw new FencedUsageError(
        'The handler has sent the answer itself, so it can not be stored. Return it; take @Res({ passthrough: true }) for the status. What it wrote in the transaction was rolled back.',
      );
    };
    try {
      const key = keyOf(request, route);
      const payload = [request.method, request.originalUrl, request.body];
      const call = { key, payload, work, keep, keepErrors };
      const { status, body } = (await this.once.call(call, section)) as HttpAnswer;
      response.status(status);
      return of(body);
    } catch (error) {
      locateError(error, where);
      throw error;
    }
  }
}

/** What is stored of an answer. */
interface HttpAnswer {
  readonly status: number;
  readonly body?: unknown;
}

interface HttpRequest {
  readonly method: string;
  readonly originalUrl: string;
  readonly body?: unknown;
  readonly headers: Readonly<Record<string, string | undefined>>;
}

/** Express and Fastify name these alike. */
interface HttpResponse extends ServerResponse {
  readonly raw?: ServerResponse;
  status(status: number): unknown;
}

const HEADER = 'Idempotency-Key';
/** A string of structured fields (RFC 8941), or what most clients send: the same without quotes, blanks and commas. */
const IN_QUOTES = /^"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\]){1,255})"$/;
const PLAIN = /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{1,255}$/;

/** @throws HttpException when the request has no key, or one that is none */
function keyOf(request: HttpRequest, { scope, required, where }: IdempotentRoute): string {
  const text = request.headers[HEADER.toLowerCase()];
  const quoted = IN_QUOTES.exec(text ?? '')?.[1]?.replace(/\\(.)/g, '$1');
  const key = quoted ?? PLAIN.exec(text ?? '')?.[0];
  if (text !== undefined && key === undefined)
    throw new HttpException(
      `The header ${HEADER} must be one text of 1 to 255 printable ASCII characters, in quotes or without quotes and blanks`,
      400,
    );
  if (key === undefined && required)
    throw new HttpException(
      `This request needs the header ${HEADER}, with a text that is new for each operation, such as a UUID`,
      400,
    );
  const name = "the option 'scope'";
  const sender = keysMade(
    callOption(() => scope(request), name, where),
    name,
    where,
  );
  return ['idempotency', ...sender, key ?? randomUUID()].map(encodeURIComponent).join(':');
}
