import {
  ForbiddenException,
  Injectable,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import type { IncomingMessage } from 'node:http';
import { isForLoopback, isFromPage } from './local-request.ts';

/** Lets only a browser on this machine in, and only the page itself push its buttons. */
@Injectable()
export class LocalRequestGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { method, headers, socket } = context.switchToHttp().getRequest<IncomingMessage>();
    if (!isForLoopback(headers, socket.localPort ?? 0)) {
      throw new ForbiddenException('This page is for this machine only: open it as localhost.');
    }
    if (method !== 'GET' && method !== 'HEAD' && !isFromPage(headers)) {
      throw new ForbiddenException('Only the page itself may push its buttons.');
    }
    return true;
  }
}
