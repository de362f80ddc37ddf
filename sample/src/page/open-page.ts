import 'reflect-metadata';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { LocalRequestGuard } from './local-request.guard.ts';
import { PageModule, type PageParts } from './page.module.ts';

/** Nobody but this machine can reach it. */
const HOST = '127.0.0.1';

const SECURITY_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
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
    throw new Error(
      `${reasonFor(error, port)} Choose another one: npm start -- --serve --port 8080`,
      {
        cause: error,
      },
    );
  }
  const { port: actual } = (application.getHttpServer() as Server).address() as AddressInfo;
  return { url: `http://localhost:${actual}/`, application };
}

function reasonFor(error: unknown, port: number): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') return `Port ${port} is taken.`;
  if (code === 'EACCES') return `Port ${port} needs rights that this user lacks.`;
  return `The page can't be served on port ${port}: ${error instanceof Error ? error.message : String(error)}.`;
}
