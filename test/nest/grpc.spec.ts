import 'reflect-metadata';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { status, type ServiceError } from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';
import { Controller, type INestApplication } from '@nestjs/common';
import {
  ClientGrpcProxy,
  GrpcMethod,
  GrpcStreamMethod,
  Transport,
  type GrpcOptions,
  type MicroserviceOptions,
} from '@nestjs/microservices';
import { afterEach, expect, it } from '@jest/globals';
import { concatMap, defer, lastValueFrom, of, type Observable } from 'rxjs';
import { Fenced, FencingToken, type LockEvent } from '../../lib/index.ts';
import { createMemoryNodes, occupy } from '../../lib/testing/index.ts';
import { closeAll, closeLater, passUntil, startModule, stopTime } from './support/applications.ts';
import {
  GuardedSeats,
  itServes,
  visit,
  type Answer,
  type StartTransport,
} from './support/transport-table.ts';

afterEach(closeAll);

interface Text {
  readonly text: string;
}

const TEXT = { requestType: 'Text', responseType: 'Text', comment: '' };
const SEATS = fromJSON({
  nested: {
    test: {
      nested: {
        Text: { fields: { text: { type: 'string', id: 1 } } },
        Seats: {
          methods: {
            Call: TEXT,
            Above: TEXT,
            Below: TEXT,
            Listen: { ...TEXT, responseStream: true },
            Tell: { ...TEXT, requestStream: true },
            Talk: { ...TEXT, requestStream: true, responseStream: true },
          },
        },
      },
    },
  },
});

@Controller()
class SeatCalls {
  constructor(private readonly seats: GuardedSeats) {}

  @GrpcMethod('Seats')
  async call({ text }: Text): Promise<Text> {
    return { text: await this.seats[text as 'book']() };
  }

  @Fenced('seat:{0.text}')
  @GrpcMethod('Seats')
  async above(
    { text }: Text,
    _metadata: unknown,
    _call: unknown,
    @FencingToken() token?: FencingToken,
  ): Promise<Text> {
    return { text: await visit(text, token) };
  }

  @GrpcMethod('Seats')
  @Fenced('seat:{0.text}')
  async below(
    { text }: Text,
    _metadata: unknown,
    _call: unknown,
    @FencingToken() token?: FencingToken,
  ): Promise<Text> {
    return { text: await visit(text, token) };
  }

  @GrpcMethod('Seats')
  listen(asked: Text): Observable<Text> {
    return defer(() => this.call(asked));
  }

  @GrpcStreamMethod('Seats')
  tell(asked: Observable<Text>): Observable<Text> {
    return asked.pipe(concatMap((each) => this.call(each)));
  }

  @GrpcStreamMethod('Seats')
  talk(asked: Observable<Text>): Observable<Text> {
    return asked.pipe(concatMap((each) => this.call(each)));
  }
}

/** A gRPC client repeats a call that was aborted: when the server says so, and else within an hour. */
const RETRIES = {
  'grpc.service_config': JSON.stringify({
    methodConfig: [
      {
        name: [{}],
        retryPolicy: {
          maxAttempts: 2,
          initialBackoff: '3600s',
          maxBackoff: '3600s',
          backoffMultiplier: 1,
          retryableStatusCodes: ['ABORTED'],
        },
      },
    ],
  }),
};

type SeatsClient = Record<'call' | 'above' | 'below' | 'listen', (text: Text) => Observable<Text>> &
  Record<'tell' | 'talk', (texts: Observable<Text>) => Observable<Text>>;

/** Hybrid, as over TCP: of an application that is nothing else, Nest closes the server before it can answer. */
async function start(redlock: object, channelOptions = {}) {
  const metadata = { controllers: [SeatCalls], providers: [GuardedSeats] };
  const module = await startModule(metadata, redlock);
  const app: INestApplication = closeLater(module.createNestApplication());
  const folder = mkdtempSync(join(tmpdir(), 'grpc-'));
  closeLater({ close: async () => rmSync(folder, { recursive: true }) });
  const grpc: GrpcOptions = {
    transport: Transport.GRPC,
    options: {
      package: 'test',
      packageDefinition: SEATS,
      url: `unix:${folder}/socket`,
      channelOptions,
    },
  };
  app.connectMicroservice<MicroserviceOptions>(grpc, { inheritAppConfig: true });
  await app.startAllMicroservices();
  await app.init();
  const client = new ClientGrpcProxy(grpc.options);
  closeLater({ close: async () => client.close() });
  return { app, seats: module.get(GuardedSeats), client: client.getService<SeatsClient>('Seats') };
}

const answerOf = (answer: Observable<Text>) =>
  lastValueFrom(answer).then(
    ({ text }): Answer => ({ text }),
    ({ code, details, metadata }: ServiceError): Answer => {
      const [pushback] = metadata.get('grpc-retry-pushback-ms');
      return { code, message: details, ...(pushback && { retryAfterSeconds: +pushback / 1000 }) };
    },
  );

const startGrpc: StartTransport = async (redlock) => {
  const { app, seats, client } = await start(redlock);
  const call = (method: string) => answerOf(client.call({ text: method }));
  const book = async (place: string) =>
    (await lastValueFrom(client[place as 'above' | 'below']({ text: '1' }))).text;
  return { app, seats, call, book };
};

itServes('gRPC', startGrpc, {
  busy: { code: status.ABORTED },
  lost: { code: status.INTERNAL },
  stale: { code: status.FAILED_PRECONDITION },
  conflict: { code: status.INVALID_ARGUMENT },
  outage: { code: status.UNAVAILABLE },
  misuse: { code: status.UNKNOWN, message: 'Internal server error' },
  other: { code: status.UNKNOWN, message: 'Internal server error' },
  refused: { code: status.UNAVAILABLE },
  cutOff: { code: status.INTERNAL },
});

it('a gRPC stream ends with the status and the retry time of a call', async () => {
  const nodes = createMemoryNodes(3);
  const { client } = await start({ nodes });
  await using _other = await occupy(nodes, 'seat:1');
  const busy = await answerOf(client.call({ text: 'book' }));
  expect(busy).toMatchObject({ code: status.ABORTED, retryAfterSeconds: 1 });
  expect(await answerOf(client.listen({ text: 'book' }))).toEqual(busy);
  for (const method of ['tell', 'talk'] as const)
    expect(await answerOf(client[method](of({ text: 'book' })))).toEqual(busy);
});

it('a gRPC client with retries repeats a busy call when the server says', async () => {
  const nodes = createMemoryNodes(3);
  const seen: string[] = [];
  const options = { nodes, restartGuard: false, onEvent: ({ type }: LockEvent) => seen.push(type) };
  const { client } = await start(options, RETRIES);
  stopTime();
  const sinceMs = Date.now();
  const other = await occupy(nodes, 'seat:1');
  const answer = answerOf(client.call({ text: 'book' }));
  const isBusy = async () => {
    while (!seen.includes('busy')) await setImmediate();
  };
  await passUntil(isBusy(), 100);
  await other.release();
  expect(await passUntil(answer, 100)).toEqual({ text: 'booked' });
  expect(Date.now() - sinceMs).toBeLessThan(60_000);
});
