import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { isRedlockError, type StaleTokenError } from '../../core/errors.ts';

/** Matches by code, because `instanceof` fails for an error of another copy of this package. */
class AnyStaleTokenError {
  static [Symbol.hasInstance](error: unknown): boolean {
    return isRedlockError(error) && error.code === 'STALE_TOKEN';
  }
}

/**
 * Answers a stale token with 412 Precondition Failed, so that the calling service knows that its lock is gone and must not try
 * again. Bind it with `@UseFilters(StaleTokenFilter)` or `app.useGlobalFilters(new StaleTokenFilter(app.getHttpAdapter()))`.
 * The answer does not contain the newer token: only its holder needs it.
 *
 * @example
 * ```ts
 * app.useGlobalFilters(new StaleTokenFilter(app.getHttpAdapter()));
 * ```
 */
@Catch(AnyStaleTokenError)
export class StaleTokenFilter extends BaseExceptionFilter implements ExceptionFilter {
  override catch(error: StaleTokenError, host: ArgumentsHost): void {
    if (host.getType() !== 'http') throw error;
    super.catch(
      new HttpException(
        {
          statusCode: 412,
          error: 'Precondition Failed',
          code: error.code,
          key: error.key,
          token: error.token,
        },
        412,
      ),
      host,
    );
  }
}
