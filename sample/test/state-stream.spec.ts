import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { StateStream, type Snapshot } from '../src/page/state-stream.ts';
import { StageLog } from '../src/stage/stage-log.ts';
import { eventually } from '../../test/support/eventually.ts';

/** Pages come, go, stop reading, and come late. */

let log: StageLog;
let stream: StateStream;
let server: Server;

beforeEach(async () => {
  log = new StageLog();
  stream = new StateStream(log);
  server = createServer((_, response) => stream.open(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterEach(() => {
  stream.close();
  server.closeAllConnections();
  server.close();
});

async function listen(): Promise<IncomingMessage> {
  const { port } = server.address() as AddressInfo;
  const sent = request({ host: '127.0.0.1', port });
  sent.on('error', () => undefined).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return response.on('error', () => undefined).setEncoding('utf8');
}

/** The newest complete state in what was received. */
function newest(text: string): Snapshot {
  const messages = text.split('\n\n').slice(0, -1);
  return JSON.parse(messages.at(-1)!.replace(/^data: /, '')) as Snapshot;
}

describe('the stream of states', () => {
  it('sends a late page the whole state at once, and every change after it', async () => {
    log.append({ type: 'fence-switched', isOn: false });
    let text = '';
    (await listen()).on('data', (chunk: string) => (text += chunk));
    await eventually(() => expect(newest(text).isFenced).toBe(false));
    log.append({ type: 'fence-switched', isOn: true });
    await eventually(() => expect(newest(text).isFenced).toBe(true));
  });

  it('drops a page that left', async () => {
    const pages = await Promise.all([listen(), listen(), listen()]);
    expect(stream.listenerCount).toBe(3);
    pages[0].destroy();
    await eventually(() => expect(stream.listenerCount).toBe(2));
    pages[1].destroy();
    pages[2].destroy();
    await eventually(() => expect(stream.listenerCount).toBe(0));
  });

  it('keeps no queue for a page that does not read', async () => {
    const queued: number[] = [];
    server.on('request', (_, response) => {
      const write = response.write.bind(response) as (text: string) => boolean;
      response.write = ((text: string) => {
        queued.push(response.writableLength);
        return write(text);
      }) as typeof response.write;
    });
    (await listen()).pause();
    const text = 'a long story '.repeat(20_000);
    let isFull = false;
    for (let tries = 0; tries < 200 && !isFull; tries += 1) {
      const before = queued.length;
      log.append({ type: 'narrated', text });
      await new Promise((resolve) => setTimeout(resolve, 300));
      isFull = queued.length === before;
    }
    // Text that the system takes is written; after that nothing waits behind what is on its way.
    expect(isFull).toBe(true);
    expect(queued.filter((length) => length > 0)).toEqual([]);
  });

  it('ends all pages when it is closed', async () => {
    const page = await listen();
    page.resume();
    stream.close();
    await once(page, 'end');
    expect(stream.listenerCount).toBe(0);
  });
});
