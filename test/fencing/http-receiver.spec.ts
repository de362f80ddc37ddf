import { describe, expect, it } from '@jest/globals';
import {
  Body,
  Controller,
  Get,
  type INestApplication,
  Inject,
  Param,
  Put,
  UseFilters,
} from '@nestjs/common';
import type { Pool } from 'pg';
import { FencingToken } from '../../lib/core/fencing-token.ts';
import {
  fencingTokenHeader,
  parseFencingTokenHeader,
  type ReceivedFencingToken,
} from '../../lib/fencing/fencing-token-header.ts';
import { postgresFence } from '../../lib/fencing/index.ts';
import { FencingTokenHeader } from '../../lib/nest/transport/request-parameters.ts';
import { LockExceptionFilter } from '../../lib/nest/transport/lock-exception.filter.ts';
import { usePostgres } from '../support/databases/use-databases.ts';
import {
  createPostgresAccounts,
  firstText,
  itConforms,
  SELECT,
  UPSERT,
} from './support/accounts.ts';
import { httpStore, PAUSES, POOL, startInstance, type Pauses } from './support/http-resource.ts';

const resource = (request: { params: { resource: string } }): string => request.params.resource;

/** The conformance kit goes up to 2^63 - 1. */
const ANY = { anyNumber: true };

@Controller('accounts/:resource')
@UseFilters(LockExceptionFilter)
class AccountController {
  constructor(
    @Inject(POOL) private readonly pool: Pool,
    @Inject(PAUSES) private readonly pauses: Pauses,
  ) {}

  @Get()
  async read(@Param('resource') name: string): Promise<{ text: string | null }> {
    return { text: firstText((await this.pool.query(SELECT.postgresql, [name])).rows) };
  }

  @Put('dated')
  async dated(@FencingTokenHeader(resource) token: ReceivedFencingToken): Promise<string> {
    return token.value;
  }

  @Put('claim')
  async claim(@FencingTokenHeader(resource, ANY) token: ReceivedFencingToken): Promise<string> {
    await postgresFence(this.pool).claim(token);
    return 'claimed';
  }

  @Put()
  async write(
    @FencingTokenHeader(resource, ANY) token: ReceivedFencingToken,
    @Param('resource') name: string,
    @Body() body: { text: string; pause?: string },
  ): Promise<string> {
    return postgresFence(this.pool).transaction(token, async (tx) => {
      await this.pauses.get(body.pause ?? '')?.();
      await tx.query(UPSERT.postgresql, [name, body.text]);
      return 'written';
    });
  }
}

describe('another service as the resource', () => {
  const pauses: Pauses = new Map();
  const apps: INestApplication[] = [];
  const database = usePostgres(
    async (pool) => {
      await createPostgresAccounts(pool);
      for (let instance = 0; instance < 2; instance += 1)
        apps.push(await startInstance(AccountController, pool, pauses));
      return () => Promise.all(apps.map((app) => app.close()));
    },
    { max: 60 },
  );

  const written = async (name: string): Promise<string | null> =>
    firstText((await database.pool.query(SELECT.postgresql, [name])).rows);

  const put = async (
    instance: number,
    name: string,
    headers: Record<string, string>,
    text: string,
  ): Promise<Response> =>
    fetch(`${await apps[instance]!.getUrl()}/accounts/${name}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ text }),
    });

  itConforms({
    'a service whose two instances check in the writing transaction': async () => {
      const urls = await Promise.all(apps.map((app) => app.getUrl()));
      return { store: httpStore(urls, pauses), close: () => undefined };
    },
  });

  it('answers a late write that reaches the other instance with 412', async () => {
    const header = (value: number): Record<string, string> =>
      fencingTokenHeader(new FencingToken(value, ['seat'], `h${value}`));
    expect((await put(0, 'seat', header(33), 'first')).status).toBe(200);
    expect((await put(0, 'seat', header(34), 'newer')).status).toBe(200);
    const late = await put(1, 'seat', header(33), 'late');
    expect(late.status).toBe(412);
    await expect(late.json()).resolves.toMatchObject({ code: 'STALE_TOKEN' });
    await expect(written('seat')).resolves.toBe('newer');
  });

  it('answers a number more than a day ahead of its clock with 400, which would lock out all others', async () => {
    const status = async (hoursAhead: number): Promise<number> => {
      const value = (Date.now() + hoursAhead * 3_600_000) * 1_000;
      return (await put(0, 'seat/dated', { 'Fencing-Token': `${value};h` }, 'x')).status;
    };
    await expect(status(-1_000)).resolves.toBe(200);
    await expect(status(23.9)).resolves.toBe(200);
    await expect(status(24.1)).resolves.toBe(400);
    const largest = { 'Fencing-Token': `${2n ** 63n - 1n};evil` };
    expect((await put(0, 'seat/dated', largest, 'x')).status).toBe(400);
  });
});

describe('the fencing token header', () => {
  it('is not read when it is malformed, nor for what is no key of a fence', () => {
    // The last two: what proxies make of two headers.
    const texts = ['12', '0;h', '-1;h', '1.5;h', '12;', '9223372036854775808;h', '12;a b'];
    for (const text of [...texts, '1;a,2;b', '1;a;b'])
      expect(parseFencingTokenHeader(text, ['a'])).toBeUndefined();
    for (const key of ['a\0b', 'x'.repeat(2_501), ''])
      expect(parseFencingTokenHeader('1;h', [key])).toBeUndefined();
  });

  it('carries value and holder exactly', () => {
    const token = new FencingToken(1_795_228_058_941_046, ['a'], 'f3c9');
    expect(fencingTokenHeader(token)).toEqual({ 'Fencing-Token': '1795228058941046;f3c9' });
    expect(parseFencingTokenHeader('9007199254740993;x.y', ['a'])).toEqual({
      value: '9007199254740993',
      keys: ['a'],
      holder: 'x.y',
    });
  });

  it.each([
    undefined,
    '17;h',
    { value: 0, holder: 'h' },
    { value: 'hunter2', holder: 'h' },
    { value: 2 ** 53, holder: 'h' },
    { value: Object.create(null), holder: 'h' },
    { value: 1, holder: '' },
    { value: 1, holder: 'hunter2\r\nX: 1' },
    { value: 1, holder: 'h ' },
    { value: 1 },
  ])('cannot be made from %p, and shows nothing of what may be secret', (token) => {
    expect(() => fencingTokenHeader(token as never)).toThrow(
      'No request may leave a locked section without its fencing token: pass that of the lock, whose value is a positive integer, and its holder.',
    );
  });
});
