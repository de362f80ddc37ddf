import 'reflect-metadata';
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { connect, constants, createServer, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import {
  Catch,
  Controller,
  Get,
  Param,
  UseGuards,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
} from '@nestjs/common';
import {
  ClientProxyFactory,
  MessagePattern,
  Transport,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import type { TestingModule } from '@nestjs/testing';
import { afterEach, describe, expect, it } from '@jest/globals';
import { lastValueFrom, throwError } from 'rxjs';
import {
  ClientSignal,
  Fenced,
  FencedUsageError,
  FencingTokenHeader,
  type ReceivedFencingToken,
} from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { eventually } from '../support/eventually.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';

const signals = new Map<string, AbortSignal>();
const ended: unknown[] = [];
const guarded: string[] = [];

/** Takes until the client has hung up. */
class SlowGuard {
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { params, raw, socket } = context.switchToHttp().getRequest<
      IncomingMessage & {
        readonly params: { readonly id: string };
        readonly raw?: { readonly stream?: ServerHttp2Stream };
      }
    >();
    if (params.id !== 'late') return true;
    guarded.push('late');
    await once(raw?.stream ?? socket, 'close');
    return true;
  }
}

@Controller()
class SeatsController {
  @Get(':id')
  @UseGuards(SlowGuard)
  async read(@Param('id') id: string, @ClientSignal() signal: AbortSignal): Promise<string> {
    signals.set(id, signal);
    return this.locked(id, signal).catch((error: unknown) => {
      ended.push(error);
      throw error;
    });
  }

  @Fenced('seat:{0}', { signal: (_id, signal) => signal, wait: '1m' })
  async locked(id: string, _signal: AbortSignal): Promise<string> {
    return id;
  }
}

/** A client that keeps its connection as long as it can. */
interface Client {
  /** `leave` hangs up before the answer has come. */
  get(path: string): { readonly answer: Promise<string>; leave(): void };
}

function http1Client(url: string): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  closeLater({ close: async () => agent.destroy() });
  return {
    get(path) {
      const sent = request(url + path, { agent }).end();
      const answered = once(sent, 'response');
      return {
        answer: answered.then(([response]) => text(response as IncomingMessage)),
        leave: () => sent.destroy(),
      };
    },
  };
}

function http2Client(url: string, leaving: 'resets the stream' | 'ends the connection'): Client {
  let session = connect(url);
  closeLater({ close: async () => session.destroy() });
  return {
    get(path) {
      if (session.destroyed) session = connect(url);
      const stream = session.request({ ':path': path });
      const leave =
        leaving === 'ends the connection'
          ? () => session.destroy()
          : () => stream.close(constants.NGHTTP2_CANCEL);
      return { answer: text(stream), leave };
    },
  };
}

async function onFastify(module: TestingModule, options: object = {}): Promise<INestApplication> {
  const { FastifyAdapter } = await import('@nestjs/platform-fastify');
  return module.createNestApplication(new FastifyAdapter(options));
}

type Surface = readonly [
  name: string,
  make: (module: TestingModule) => INestApplication | Promise<INestApplication>,
  client: (url: string) => Client,
];
const onExpress: Surface = ['Express', (module) => module.createNestApplication(), http1Client];
const onFastifys: readonly Surface[] = [
  ['Fastify', onFastify, http1Client],
  [
    'Fastify with HTTP/2, when the client resets the stream',
    (module) => onFastify(module, { http2: true }),
    (url) => http2Client(url, 'resets the stream'),
  ],
  [
    "Node's HTTP/2 server, when the client ends the connection",
    (module) => onFastify(module, { serverFactory: createServer }),
    (url) => http2Client(url, 'ends the connection'),
  ],
];
// The installed Fastify is that of Nest 12.
const surfaces = typeof require === 'function' ? [onExpress] : [onExpress, ...onFastifys];

describe.each(surfaces)('@ClientSignal() on %s', (_name, make, client) => {
  afterEach(closeAll);

  it('ends the wait of a client that hangs up, and aborts for no answered request', async () => {
    for (const list of [ended, guarded]) list.splice(0);
    signals.clear();
    const nodes = createMemoryNodes(3);
    const module = await startModule({ controllers: [SeatsController] }, { nodes });
    const app = closeLater(await make(module));
    await app.listen(0, '127.0.0.1');
    await using _other = await occupy(nodes, 'seat:held');
    const visitor = client(await app.getUrl());
    expect(await visitor.get('/first').answer).toBe('first');
    expect(await visitor.get('/second').answer).toBe('second');
    const leave = async (path: string, isReached: () => void) => {
      const left = visitor.get(path);
      left.answer.catch(() => undefined);
      await eventually(isReached);
      left.leave();
    };
    await leave('/held', () => expect(signals.has('held')).toBe(true));
    await eventually(() => expect(ended).toMatchObject([{ status: 499 }]));
    await leave('/late', () => expect(guarded).toEqual(['late']));
    await eventually(() => expect(signals.get('late')?.reason).toMatchObject({ status: 499 }));
    expect(['first', 'second'].map((id) => signals.get(id)?.aborted)).toEqual([false, false]);
  });
});

@Controller()
class SeatMessages {
  @MessagePattern('signal')
  async signal(@ClientSignal() _signal: AbortSignal): Promise<void> {}

  @MessagePattern('header')
  async header(@FencingTokenHeader() _token: ReceivedFencingToken): Promise<void> {}
}

@Catch(FencedUsageError)
class PassMessage implements ExceptionFilter {
  catch({ message }: FencedUsageError) {
    return throwError(() => ({ message }));
  }
}

describe('in a message handler', () => {
  afterEach(closeAll);

  it.each([
    ['@ClientSignal()', 'signal'],
    ['@FencingTokenHeader()', 'header'],
  ])('%s says that it is for HTTP routes', async (decorator, pattern) => {
    const module = await startModule({ controllers: [SeatMessages] });
    const service = module.createNestMicroservice<MicroserviceOptions>({
      transport: Transport.TCP,
      options: { host: '127.0.0.1', port: 0 },
    });
    service.useGlobalFilters(new PassMessage());
    await closeLater(service).listen();
    const { port } = service.unwrap<{ address(): AddressInfo }>().address();
    const options = { host: '127.0.0.1', port };
    const client = ClientProxyFactory.create({ transport: Transport.TCP, options });
    closeLater({ close: async () => client.close() });
    const message = expect.stringContaining(`SeatMessages.${pattern}: ${decorator} `);
    await expect(lastValueFrom(client.send(pattern, {}))).rejects.toEqual({ message });
  });
});
