import 'reflect-metadata';
import { request } from 'node:http';
import { Controller, Get, Param, Put } from '@nestjs/common';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  ClientSignal,
  Fenced,
  FencingTokenHeader,
  type ReceivedFencingToken,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';

const signals: AbortSignal[] = [];
const ended: unknown[] = [];

@Controller()
class ReportController {
  @Get(':id')
  async read(@Param('id') id: string, @ClientSignal() signal: AbortSignal): Promise<string> {
    signals.push(signal);
    return this.locked(id, signal).catch((error: unknown) => {
      ended.push(error);
      throw error;
    });
  }

  @Fenced('report:{0}', { signal: (_id, signal) => signal, wait: '1m' })
  async locked(id: string, _signal: AbortSignal): Promise<string> {
    return id;
  }

  @Put(':id')
  async write(
    @FencingTokenHeader(({ params }) => `report:${params.id}`) token: ReceivedFencingToken,
  ): Promise<ReceivedFencingToken> {
    return token;
  }
}

describe('on Fastify', () => {
  afterEach(closeAll);
  afterEach(() => {
    signals.splice(0);
    ended.splice(0);
  });

  async function start(nodes = createMemoryNodes(3)): Promise<string> {
    const module = await startModule({ controllers: [ReportController] }, { nodes });
    const app = closeLater(
      module.createNestApplication<NestFastifyApplication>(new FastifyAdapter()),
    );
    await app.listen(0, '127.0.0.1');
    return app.getUrl();
  }

  it('@ClientSignal() ends the wait when the client hangs up, and not when it was answered', async () => {
    const nodes = createMemoryNodes(3);
    const url = await start(nodes);
    await using _other = await occupy(nodes, 'report:held');
    expect(await (await fetch(`${url}/answered`)).text()).toBe('answered');
    const hungUp = request(`${url}/held`).on('error', () => undefined);
    hungUp.end();
    await eventually(() => expect(signals).toHaveLength(2));
    hungUp.destroy();
    await eventually(() => expect(ended).toHaveLength(1));
    expect(ended).toMatchObject([{ status: 499 }]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, true]);
  });

  it('@FencingTokenHeader() answers 428 without the header, and 400 for a malformed one', async () => {
    const url = await start();
    const put = (headers: Record<string, string>) =>
      fetch(`${url}/12A`, { method: 'PUT', headers });
    const missing = await put({});
    expect(missing.status).toBe(428);
    expect(await missing.json()).toMatchObject({
      message: expect.stringContaining('Fencing-Token'),
    });
    expect((await put({ 'Fencing-Token': '12' })).status).toBe(400);
    const token = await put({ 'Fencing-Token': '12;a' });
    expect(await token.json()).toEqual({ value: '12', keys: ['report:12A'], holder: 'a' });
  });
});
