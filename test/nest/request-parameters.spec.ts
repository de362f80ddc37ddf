import 'reflect-metadata';
import { Controller, Param, Put, type INestApplication } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { FencingTokenHeader, type ReceivedFencingToken } from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';

interface Request {
  readonly params: { readonly id: string; readonly how: string };
}

const made: Record<string, (id: string) => unknown> = {
  right: (id) => ['row:1', `seat:${id}`],
  nothing: () => undefined,
  empty: () => [],
  number: () => 12,
  many: () => Array.from({ length: 1_001 }, (_each, index) => `seat:${index}`),
  throwing: () => (undefined as unknown as { id: string }).id,
};
const ran: string[] = [];

@Controller()
class SeatsController {
  @Put(':id/:how')
  async assign(
    @Param('how') how: string,
    @FencingTokenHeader(({ params }: Request) => made[params.how]!(params.id) as string)
    token: ReceivedFencingToken,
  ): Promise<ReceivedFencingToken> {
    ran.push(how);
    return token;
  }
}

async function onFastify(module: TestingModule): Promise<INestApplication> {
  const { FastifyAdapter } = await import('@nestjs/platform-fastify');
  return module.createNestApplication(new FastifyAdapter());
}

// The installed Fastify is that of Nest 12.
const adapters = typeof require === 'function' ? ['Express'] : ['Express', 'Fastify'];

describe.each(adapters)('on %s', (adapter) => {
  afterEach(closeAll);
  afterEach(() => {
    ran.splice(0);
  });

  async function start(): Promise<string> {
    const module = await startModule({ controllers: [SeatsController] });
    const app: INestApplication =
      adapter === 'Express' ? module.createNestApplication() : await onFastify(module);
    await closeLater(app).listen(0, '127.0.0.1');
    return app.getUrl();
  }

  it('@FencingTokenHeader() gives the token for the keys of the request, or an answer', async () => {
    const url = await start();
    const put = async (how: string, headers = { 'Fencing-Token': '41;holder' } as object) => {
      const response = await fetch(`${url}/12A/${how}`, {
        method: 'PUT',
        headers: headers as Record<string, string>,
      });
      return [response.status, await response.json()];
    };
    const keys = ['row:1', 'seat:12A'];
    expect(await put('right')).toEqual([200, { value: '41', keys, holder: 'holder' }]);
    expect(ran.splice(0)).toEqual(['right']);
    const answer = (message: string) => ({ message: expect.stringContaining(message) });
    expect(await put('right', {})).toMatchObject([428, answer('Fencing-Token')]);
    expect(await put('right', { 'Fencing-Token': '12' })).toMatchObject([400, answer('holder')]);
    for (const how of ['nothing', 'empty', 'number', 'many'])
      expect(await put(how)).toMatchObject([400, answer('key')]);
    expect(await put('throwing')).toMatchObject([500, answer('Internal server error')]);
    expect(ran).toEqual([]);
  });
});
