import 'reflect-metadata';
import {
  Body,
  Controller,
  Get,
  HttpCode,
  NotFoundException,
  Param,
  Post,
  SetMetadata,
  UseInterceptors,
  type INestApplication,
  type NestInterceptor,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Fenced, FencedInterceptor, FencingToken, LockService } from '../../lib/index.ts';
import { closeAll, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@Controller('seats')
class SeatsController {
  constructor(private readonly locks: LockService) {}

  @Fenced('seat:{0}')
  @Post('above/:id')
  @HttpCode(202)
  @SetMetadata('role', 'clerk')
  async above(
    @Param('id') id: string,
    @Body() body: { user: string },
    @FencingToken() token?: FencingToken,
  ) {
    await section.visit();
    return { id, user: body.user, keys: token?.keys };
  }

  @Post('below/:id')
  @HttpCode(202)
  @Fenced('seat:{0}')
  async below(
    @Param('id') id: string,
    @Body() body: { user: string },
    @FencingToken() token?: FencingToken,
  ) {
    await section.visit();
    return { id, user: body.user, keys: token?.keys };
  }

  @Fenced('seat:{0}')
  @Get('missing/:id')
  async missing(@Param('id') id: string): Promise<void> {
    throw new NotFoundException(`no seat ${id}`);
  }

  @UseInterceptors(FencedInterceptor)
  @Fenced('seat:{0}', { wait: 0 })
  @Get('by-hand/:id')
  async byHand(@Param('id') id: string) {
    return { keys: this.locks.current()?.keys, id };
  }
}

describe('@Fenced on HTTP handlers', () => {
  let app: INestApplication;
  let url: string;

  beforeEach(async () => {
    const module = await startModule({ controllers: [SeatsController] });
    app = module.createNestApplication();
    await app.listen(0, '127.0.0.1');
    url = await app.getUrl();
  });
  afterEach(async () => {
    await app.close();
    await closeAll();
    section.reset();
  });

  const post = (path: string) =>
    fetch(`${url}/seats/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ user: 'ana' }),
    });

  it.each(['above', 'below'])('serves the route and locks with @Fenced %s @Post', async (place) => {
    const responses = await Promise.all([1, 2, 3, 4].map(() => post(`${place}/12A`)));
    expect(responses.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
    await expect(responses[0]!.json()).resolves.toEqual({
      id: '12A',
      user: 'ana',
      keys: ['seat:12A'],
    });
    expect(section.entered).toBe(4);
    expect(section.mostInside).toBe(1);
  });

  it('keeps the status of an HttpException', async () => {
    const response = await fetch(`${url}/seats/missing/9`);
    expect(response.status).toBe(404);
    await expect(response.json()).resolves.toMatchObject({ message: 'no seat 9' });
  });

  it('does not lock twice when the interceptor is bound by hand as well', async () => {
    const response = await fetch(`${url}/seats/by-hand/1`);
    expect(response.status).toBe(200);
    await expect(response.json()).resolves.toEqual({ keys: ['seat:1'], id: '1' });
  });

  it('keeps metadata that other decorators have set for guards and interceptors', () => {
    const { above } = SeatsController.prototype as unknown as { above: () => void };
    expect(new Reflector().get('role', above)).toBe('clerk');
  });

  it('passes calls of other handlers through', async () => {
    const interceptor: NestInterceptor = app.get(FencedInterceptor);
    let handled = 0;
    const context = { getHandler: () => () => 1, getArgs: () => ['x'] };
    await interceptor.intercept(context as never, { handle: () => (handled++, 'stream' as never) });
    expect(handled).toBe(1);
  });
});
