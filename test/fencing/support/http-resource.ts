import {
  Body,
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  HttpCode,
  HttpException,
  type INestApplication,
  Inject,
  Injectable,
  Module,
  Param,
  type Provider,
  Put,
  type Type,
  UseGuards,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Pool } from 'pg';
import { StaleTokenError } from '../../../lib/core/errors.ts';
import { fencingTokenHeader } from '../../../lib/fencing/fencing-token-header.ts';
import { isStaleTokenError, postgresFence } from '../../../lib/fencing/index.ts';
import type { FenceStore, FenceTicket } from '../../../lib/testing/index.ts';
import { firstText, SELECT, UPSERT } from './accounts.ts';

/** Called between the check and the write of a request, by the ticket of the request. */
export type Pauses = Map<string, () => Promise<void>>;

export const POOL = 'pool';
export const PAUSES = 'pauses';

/** The wrong way: a guard brings the token to the fence, and the handler writes later. */
@Injectable()
class TokenGuard implements CanActivate {
  constructor(@Inject(POOL) private readonly pool: Pool) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { params, headers } = context.switchToHttp().getRequest();
    const [value, holder] = String(headers['fencing-token']).split(';') as [string, string];
    try {
      await postgresFence(this.pool).claim({ value, keys: [params.resource], holder });
      return true;
    } catch (error) {
      if (isStaleTokenError(error)) throw new HttpException('stale', 412);
      throw error;
    }
  }
}

@Controller('accounts/:resource')
class GuardedController {
  constructor(
    @Inject(POOL) private readonly pool: Pool,
    @Inject(PAUSES) private readonly pauses: Pauses,
  ) {}

  @Get()
  async read(@Param('resource') resource: string): Promise<{ text: string | null }> {
    return { text: firstText((await this.pool.query(SELECT.postgresql, [resource])).rows) };
  }

  @Put('claim')
  @UseGuards(TokenGuard)
  claim(): string {
    return 'claimed';
  }

  @Put()
  @UseGuards(TokenGuard)
  @HttpCode(200)
  async write(
    @Param('resource') resource: string,
    @Body() body: { text: string; pause?: string },
  ): Promise<string> {
    await this.pauses.get(body.pause ?? '')?.();
    await this.pool.query(UPSERT.postgresql, [resource, body.text]);
    return 'written';
  }
}

export const startGuardedInstance = (pool: Pool, pauses: Pauses): Promise<INestApplication> =>
  startInstance(GuardedController, pool, pauses, [TokenGuard]);

/** An application with this controller, which finds the pool and the pauses under POOL and PAUSES. */
export async function startInstance(
  controller: Type,
  pool: Pool,
  pauses: Pauses,
  providers: Provider[] = [],
): Promise<INestApplication> {
  @Module({
    controllers: [controller],
    providers: [
      ...providers,
      { provide: POOL, useValue: pool },
      { provide: PAUSES, useValue: pauses },
    ],
  })
  class InstanceModule {}

  const app = await NestFactory.create(InstanceModule, { logger: false });
  await app.listen(0, '127.0.0.1');
  return app;
}

/** A store that talks to the instances in turn, as a load balancer does. Stale is status 412. */
export function httpStore(urls: readonly string[], pauses: Pauses): FenceStore {
  let calls = 0;
  const send = async (
    { resource, token, holder }: FenceTicket,
    method: string,
    path = '',
    body?: object,
  ): Promise<any> => {
    const base = urls[calls++ % urls.length];
    const response = await fetch(`${base}/accounts/${encodeURIComponent(resource)}${path}`, {
      method,
      headers: {
        ...fencingTokenHeader({ value: token, holder }),
        ...(body && { 'content-type': 'application/json' }),
      },
      body: body && JSON.stringify(body),
    });
    const text = await response.text();
    if (response.status === 412) throw new StaleTokenError(resource, token);
    if (!response.ok) throw new Error(`${method} was answered with ${response.status}: ${text}`);
    return text;
  };
  return {
    claim: (ticket) => send(ticket, 'PUT', '/claim'),
    read: async (ticket) => (JSON.parse(await send(ticket, 'GET')) as { text: string | null }).text,
    write: async (ticket, text, pause) => {
      pauses.set(text, pause);
      try {
        await send(ticket, 'PUT', '', { text, pause: text });
      } finally {
        pauses.delete(text);
      }
    },
  };
}
