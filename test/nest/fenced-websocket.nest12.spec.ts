import 'reflect-metadata';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { INestApplication } from '@nestjs/common';
import { WsAdapter } from '@nestjs/platform-ws';
import { MessageBody, SubscribeMessage, WebSocketGateway } from '@nestjs/websockets';
import { afterEach, describe, expect, it } from '@jest/globals';
import { WebSocket } from 'ws';
import { Fenced, FencingToken } from '../../lib/index.ts';
import { closeAll, closeLater, startModule } from './support/applications.ts';
import { CriticalSection } from './support/critical-section.ts';

const section = new CriticalSection();

@WebSocketGateway()
class SeatGateway {
  @Fenced('seat:{0.id}')
  @SubscribeMessage('above')
  async above(@MessageBody() data: { id: string }, @FencingToken() token?: FencingToken) {
    await section.visit();
    return { event: 'booked', data: [data.id, token?.keys] };
  }

  @SubscribeMessage('below')
  @Fenced('seat:{0.id}')
  async below(@MessageBody() data: { id: string }, @FencingToken() token?: FencingToken) {
    await section.visit();
    return { event: 'booked', data: [data.id, token?.keys] };
  }
}

describe('@Fenced on WebSocket gateways', () => {
  afterEach(closeAll);
  afterEach(() => section.reset());

  it.each(['above', 'below'])('locks a message handler with @Fenced %s', async (event) => {
    const module = await startModule({ providers: [SeatGateway] });
    const app: INestApplication = closeLater(module.createNestApplication());
    app.useWebSocketAdapter(new WsAdapter(app));
    await app.listen(0, '127.0.0.1');
    const { port } = app.getHttpServer().address() as AddressInfo;
    const socket = new WebSocket(`ws://127.0.0.1:${port}`);
    await once(socket, 'open');
    const answers: unknown[] = [];
    const answered = new Promise<void>((resolve) => {
      socket.on('message', (message: Buffer) => {
        answers.push(JSON.parse(message.toString()));
        if (answers.length === 3) resolve();
      });
    });
    for (let count = 0; count < 3; count += 1)
      socket.send(JSON.stringify({ event, data: { id: '1' } }));
    await answered;
    socket.close();
    await once(socket, 'close');
    expect(answers).toEqual([1, 2, 3].map(() => ({ event: 'booked', data: ['1', ['seat:1']] })));
    expect(section.mostInside).toBe(1);
  });
});
