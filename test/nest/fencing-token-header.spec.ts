import 'reflect-metadata';
import { type ArgumentsHost, Catch, Controller, Param, Put, UseFilters } from '@nestjs/common';
import { BaseExceptionFilter } from '@nestjs/core';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  FencedUsageError,
  FencingTokenHeader,
  isRedlockError,
  type ReceivedFencingToken,
} from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';

/** What the last request failed with. */
let thrown: unknown;
const ran: string[] = [];

@Catch()
class KeepError extends BaseExceptionFilter {
  override catch(error: unknown, host: ArgumentsHost): void {
    thrown = error;
    super.catch(error, host);
  }
}

const logged: unknown[] = [];
const keep = (...line: unknown[]) => void logged.push(line);

interface Request {
  readonly params: Record<string, string>;
}

const made: Record<string, (request: Request) => unknown> = {
  nothing: () => undefined,
  empty: () => [],
  number: () => 12,
  later: async ({ params }) => `seat:${params['id']}`,
  many: () => Array.from({ length: 1_001 }, (_each, index) => `seat:${index}`),
  rejecting: async () => Promise.reject(new Error('no such seat')),
  throwing: () => (undefined as unknown as { id: string }).id,
  right: ({ params }) => [`row:1`, `seat:${params['id']}`],
};

@Controller('seats')
@UseFilters(KeepError)
class SeatsController {
  @Put(':id/:how')
  async assign(
    @Param('how') how: string,
    @FencingTokenHeader((request: Request) => made[request.params['how']!]!(request) as string)
    token: ReceivedFencingToken,
  ): Promise<ReceivedFencingToken> {
    ran.push(how);
    return token;
  }
}

describe('@FencingTokenHeader()', () => {
  afterEach(closeAll);
  afterEach(() => {
    thrown = undefined;
    ran.splice(0);
    logged.splice(0);
  });

  async function put(how: string, id = '12A'): Promise<Response> {
    const module = await startModule({ controllers: [SeatsController] });
    const app = closeLater(module.createNestApplication());
    app.useLogger({ log: () => undefined, warn: keep, error: keep });
    await app.listen(0, '127.0.0.1');
    const headers = { 'Fencing-Token': '41;holder' };
    return fetch(`${await app.getUrl()}/seats/${id}/${how}`, { method: 'PUT', headers });
  }

  it.each([
    ['nothing', '12A', 'the key function of @FencingTokenHeader returned undefined; it must'],
    ['empty', '12A', 'the key function of @FencingTokenHeader returned an array; it must'],
    ['number', '12A', 'the key function of @FencingTokenHeader returned a number; it must return'],
    ['many', '12A', 'A fencing token has at most 1000 keys, as a lock has, not 1001'],
  ])(
    'answers 400 for a key that no value of the request makes, and logs nothing: %s for %s',
    async (how, id, what) => {
      const answer = await put(how, id);
      const { statusCode, message } = (await answer.json()) as Record<string, unknown>;
      expect([answer.status, statusCode]).toEqual([400, 400]);
      expect(message).toContain(`SeatsController.assign: ${what}`);
      expect(message).toMatch(/\. (The method was not run|Nothing was written)\.$/);
      expect((thrown as Error).cause).toBeInstanceOf(FencedUsageError);
      expect([ran, logged]).toEqual([[], []]);
    },
  );

  it.each([
    ['later', 'returned a promise; it must return'],
    ['rejecting', 'returned a promise; it must return'],
    ['throwing', 'threw TypeError: Cannot read properties of undefined'],
  ])('gives no token for the key of a function that is wrong: %s', async (how, what) => {
    expect((await put(how)).status).toBe(500);
    expect(thrown).toBeInstanceOf(FencedUsageError);
    const { message } = thrown as Error;
    expect(message).toContain(
      `SeatsController.assign: the key function of @FencingTokenHeader ${what}`,
    );
    expect(message).toMatch(/The method was not run\.$/);
    expect(isRedlockError(thrown) && thrown.where).toBe('SeatsController.assign');
    expect([ran, logged.length]).toEqual([[], 1]);
  });

  it('gives the token for the keys that the function names', async () => {
    expect(await (await put('right')).json()).toEqual({
      value: '41',
      keys: ['row:1', 'seat:12A'],
      holder: 'holder',
    });
  });

  it.each([
    ['a template', 'seat:{0}'],
    ['a list', ['seat:1']],
    ['null', null],
  ])('refuses %s when it decorates: it takes a function', (_what, resource) => {
    expect(() => {
      class Wrong {
        @Put()
        async assign(@FencingTokenHeader(resource as never) _token: unknown) {}
      }
      return Wrong;
    }).toThrow(
      expect.objectContaining({
        code: 'FENCED_USAGE',
        where: 'Wrong.assign',
        message: expect.stringMatching(
          /^Wrong\.assign: @FencingTokenHeader takes a function .*`seat:\$\{request\.params\.id\}`/,
        ),
      }),
    );
  });
});
