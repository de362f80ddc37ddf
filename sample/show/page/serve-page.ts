import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cleanup } from '../cleanup.ts';
import type { ShowLog } from '../log.ts';
import { Stage } from '../stage.ts';
import { Board } from './board.ts';
import { Sale } from './sale.ts';
import { StateStream } from './state-stream.ts';

/** An address that only this machine can reach. */
const HOST = '127.0.0.1';

/** Long enough to see a lock being held. */
const PAYMENT_MS = 1200;

/** How long workers may take to leave by themselves in the end. */
const LEAVE_MS = 3000;

const ROOT = new URL('../../../', import.meta.url);
const INTER = '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2';

/** The only files that can be asked for. The page looks as the site of the documentation does. */
const FILES: Readonly<Record<string, readonly [type: string, place: URL]>> = {
  '/': ['text/html; charset=utf-8', new URL('sample/page/index.html', ROOT)],
  '/page.css': ['text/css; charset=utf-8', new URL('sample/page/page.css', ROOT)],
  '/page.js': ['text/javascript; charset=utf-8', new URL('sample/page/page.js', ROOT)],
  '/favicon.ico': ['image/svg+xml', new URL('docs/site/public/icon.svg', ROOT)],
  '/inter.woff2': ['font/woff2', new URL(import.meta.resolve(INTER))],
};

const HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; img-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/**
 * Starts everything, and has it shown on a page until it is cleaned up.
 * @param port 0 takes any free one
 * @returns the address of the page
 * @throws Error with one clear message when something that is needed is missing, or the port is taken.
 */
export async function servePage(log: ShowLog, cleanup: Cleanup, port: number): Promise<string> {
  // A port that is taken is found before anything is started. A page that is still open tries again, which no answer has it do.
  const server = createServer((request) => request.destroy());
  await listen(server, port);
  cleanup.adopt(async () => {
    server.close();
    server.closeAllConnections();
  });
  const board = new Board(log);
  const stage = await Stage.open(log, cleanup, PAYMENT_MS);
  board.show(stage);
  cleanup.adopt(() => leave(stage));

  const stream = new StateStream(log, board);
  const sale = new Sale(stage, board);
  cleanup.adopt(async () => {
    sale.stop();
    stream.close();
  });
  server.removeAllListeners('request').on('request', (request, response) => {
    answer(request, response, { stage, stream, sale }).catch(() => response.destroy());
  });
  void sale.run();
  return `http://${HOST}:${(server.address() as AddressInfo).port}/`;
}

async function listen(server: Server, port: number): Promise<void> {
  try {
    await once(server.listen(port, HOST), 'listening');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === 'EADDRINUSE' ? `Port ${port} is taken.` : `${message}.`;
    throw new Error(`${reason} Choose another one: npm start -- --serve --port 8080`, {
      cause: error,
    });
  }
}

interface Parts {
  readonly stage: Stage;
  readonly stream: StateStream;
  readonly sale: Sale;
}

async function answer(request: IncomingMessage, response: ServerResponse, parts: Parts) {
  for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value);
  const { method, url = '/', headers, socket } = request;
  const { stage, stream, sale } = parts;
  const end = (status: number, reason = ''): unknown => response.writeHead(status).end(reason);

  // A name that somebody else's DNS points at this machine (rebinding) is not admitted.
  const hosts = [HOST, 'localhost'].map((name) => `${name}:${socket.localPort}`);
  if (!hosts.includes(headers.host ?? '')) return end(403, 'This page is for this machine only.');
  if (method === 'GET') {
    if (url === '/events') {
      stream.open(response);
      return sale.welcomeViewer();
    }
    const file = FILES[url];
    if (!file) return end(404);
    response.writeHead(200, { 'Content-Type': file[0], 'Cache-Control': 'no-cache' });
    return response.end(readFileSync(file[1]));
  }

  // Browsers put `Origin` on every POST, and no script can change it.
  if (headers.origin !== `http://${headers.host}`)
    return end(403, 'Only the page itself may push its buttons.');
  if (url === '/play') {
    void sale.play();
    return end(204);
  }
  const [, number, action] = /^\/servers\/(\d)\/(kill|start)$/.exec(url) ?? [];
  const state = stage.serverStates[Number(number) - 1];
  if (!state) return end(404);
  if (!stage.canKill) return end(409, 'The servers of REDIS_NODES are left alone.');
  if ((state === 'up') !== (action === 'kill')) return end(409, `Server ${number} is ${state}.`);
  await (action === 'kill' ? stage.killServer(Number(number)) : stage.startServer(Number(number)));
  return end(204);
}

/** Workers go home: what they hold is released. Those that can't, because servers are away, are not waited for. */
async function leave(stage: Stage): Promise<void> {
  for (const worker of stage.workers) if (worker.state === 'stopped') worker.wakeUp();
  const left = Promise.all(stage.workers.map((worker) => worker.shutDown()));
  await Promise.race([left, sleep(LEAVE_MS, undefined, { ref: false })]);
}
