import 'reflect-metadata';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Controller, Get, type INestApplication, UseFilters } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { StaleTokenError } from '../../lib/core/errors.ts';
import { StaleTokenFilter } from '../../lib/nest/http/stale-token.filter.ts';

/** An error of another copy of the package: same brand and code, another class. */
function foreignStaleTokenError(): Error {
  const error = new StaleTokenError('seat:1', '33', '34');
  return Object.assign(new Error(error.message), {
    [Symbol.for('nestjs-fenced-lock/error')]: true,
    code: error.code,
    key: error.key,
    token: error.token,
  });
}

@Controller()
@UseFilters(StaleTokenFilter)
class ReceiverController {
  @Get('own')
  own(): never {
    throw new StaleTokenError('seat:1', '33', '34');
  }

  @Get('foreign')
  foreign(): never {
    throw foreignStaleTokenError();
  }

  @Get('other')
  other(): never {
    throw new Error('something else');
  }
}

let app: INestApplication | undefined;
afterEach(() => app?.close());

async function statusOf(path: string): Promise<{ status: number; body: unknown }> {
  const module = await Test.createTestingModule({ controllers: [ReceiverController] }).compile();
  app = module.createNestApplication({ logger: false });
  await app.listen(0, '127.0.0.1');
  const response = await fetch(`${await app.getUrl()}/${path}`);
  return { status: response.status, body: await response.json() };
}

describe('StaleTokenFilter', () => {
  it.each(['own', 'foreign'])('answers 412 without the newer token: %s', async (path) => {
    const { status, body } = await statusOf(path);
    expect(status).toBe(412);
    expect(body).toMatchObject({ code: 'STALE_TOKEN', key: 'seat:1', token: '33' });
    expect(JSON.stringify(body)).not.toContain('34');
  });

  it('leaves every other error alone', async () => {
    expect((await statusOf('other')).status).toBe(500);
  });
});
