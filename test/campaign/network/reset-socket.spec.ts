import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, Socket } from 'node:net';
import { RawClient } from './raw-client.ts';
import { resetSocket, whenWritten } from './reset-socket.ts';

let server: Server;
let client: RawClient;
/** The other end of the client. */
let socket: Socket;

beforeEach(async () => {
  server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  client = await RawClient.connect((server.address() as AddressInfo).port);
  [socket] = (await accepted) as [Socket];
});
afterEach(() => {
  client.close();
  socket.destroy();
  server.close();
});

describe('resetSocket', () => {
  it('is an error for the other end, unlike destroy', async () => {
    resetSocket(socket);
    expect(await client.ended).toBe('ECONNRESET');
    const accepted = once(server, 'connection');
    const other = await RawClient.connect((server.address() as AddressInfo).port);
    const [destroyed] = (await accepted) as [Socket];
    destroyed.destroy();
    expect(await other.ended).toBe('end');
    other.close();
  });

  it.each(['has just been ended', 'was ended'])('closes a socket that %s', async (when) => {
    const closed = once(socket, 'close');
    const finished = once(socket, 'finish');
    socket.end();
    if (when === 'was ended') await finished;
    resetSocket(socket);
    resetSocket(socket);
    // Rejects should there be an error.
    await closed;
    expect(await client.ended).toBe('end');
    // Only a reset closes the way from here, too.
    const reset = once(client.socket, 'error');
    client.send('PING');
    expect(await reset).toEqual([expect.objectContaining({ code: 'EPIPE' })]);
  });

  it.each(['connects', 'is not connected'])('closes a socket that %s, quietly', async (which) => {
    const early = new Socket();
    if (which === 'connects') early.connect((server.address() as AddressInfo).port, '127.0.0.1');
    const closed = once(early, 'close');
    resetSocket(early);
    // Rejects should there be an error.
    await closed;
    expect(early.destroyed).toBe(true);
  });
});

describe('whenWritten', () => {
  it('waits for the bytes before it', async () => {
    const written: number[] = [];
    whenWritten(socket, () => written.push(socket.writableLength));
    expect(written).toEqual([0]);
    client.socket.pause();
    const bytes = Buffer.alloc(67_108_864);
    socket.write(bytes);
    const done = new Promise<void>((resolve) => whenWritten(socket, resolve));
    let isDone = false;
    void done.then(() => (isDone = true));
    expect(socket.writableLength).toBeGreaterThan(0);
    await once(socket, 'drain', { signal: AbortSignal.timeout(200) }).catch(() => undefined);
    expect(isDone).toBe(false);
    client.socket.resume();
    await done;
    resetSocket(socket);
  });

  it.each([0, 67_108_864])('never comes for a socket that has died (%i bytes)', async (length) => {
    client.socket.pause();
    socket.write(Buffer.alloc(length));
    const acted: string[] = [];
    if (length > 0) whenWritten(socket, () => acted.push('before'));
    socket.destroy();
    whenWritten(socket, () => acted.push('after'));
    await once(socket, 'close');
    expect(acted).toEqual([]);
  });
});
