import 'reflect-metadata';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { once } from 'node:events';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createServer, type AddressInfo } from 'node:net';
import { LocalRequestGuard } from './local-request.guard.ts';
import { PageModule, type PageParts } from './page.module.ts';

/** Address that only this machine can reach. */
const HOST = '127.0.0.1';

const SECURITY_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; img-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

export interface OpenPage {
  readonly url: string;
  readonly application: INestApplication;
}

/**
 * Finds out before anything is started whether the page can be served, and whether no other server answers where its link leads:
 * for `localhost` a browser tries both addresses of this machine.
 * @throws Error that says what to do when the port is taken or forbidden.
 */
export async function probePort(port: number): Promise<void> {
  for (const host of [HOST, '::1']) {
    const probe = createServer();
    try {
      probe.listen(port, host);
      await once(probe, 'listening');
    } catch (error) {
      // Machines may lack the second one.
      if (['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(codeOf(error) ?? '')) continue;
      throw portError(error, port);
    }
    probe.close();
    await once(probe, 'close');
  }
}

/**
 * Serves the page on this machine.
 * @param port 0 takes any free one.
 * @throws Error that says what to do when the port is taken or forbidden.
 */
export async function openPage(port: number, parts: PageParts): Promise<OpenPage> {
  const application = await NestFactory.create(PageModule.register(parts), {
    logger: ['error', 'fatal'],
    abortOnError: false,
    // Event streams never end by themselves.
    forceCloseConnections: true,
  });
  application.useGlobalGuards(new LocalRequestGuard());
  application.use((_: IncomingMessage, response: ServerResponse, next: () => void) => {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    next();
  });
  try {
    await application.listen(port, HOST);
  } catch (error) {
    await application.close();
    throw portError(error, port);
  }
  const { port: actual } = (application.getHttpServer() as Server).address() as AddressInfo;
  return { url: `http://localhost:${actual}/`, application };
}

function portError(cause: unknown, port: number): Error {
  const advice = 'Choose another one: npm start -- --serve --port 8080';
  return new Error(`${reasonFor(cause, port)} ${advice}`, { cause });
}

function reasonFor(error: unknown, port: number): string {
  const code = codeOf(error);
  if (code === 'EADDRINUSE') return `Port ${port} is taken.`;
  if (code === 'EACCES') return `Port ${port} needs rights that this user lacks.`;
  return `The page can't be served on port ${port}: ${error instanceof Error ? error.message : String(error)}.`;
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
