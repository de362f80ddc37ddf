import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import {
  FENCING_TOKEN_HEADER,
  fencingTokenHeader,
} from '../../../lib/fencing/fencing-token-header.ts';
import type { FencingToken } from '../../../lib/core/fencing-token.ts';

/** An access of a holder to a record. */
export interface Access {
  /** The view of the resource: on one it checks tokens, on the other it takes what comes. */
  readonly view: 'fenced' | 'unfenced';
  readonly operation: 'read' | 'write';
  readonly key: string;
  /** The number to be written by a write. */
  readonly value: number;
}

/** A line from a holder to the resource, as JSON. */
export interface ResourceRequest extends Access {
  readonly id: number;
  /** The token as it travels to other services: `1795228058941046;f3c9…`. */
  readonly fencingToken: string;
}

/** The answer, one line too. */
export interface ResourceReply {
  readonly id: number;
  /** False when the token was refused as stale. */
  readonly accepted: boolean;
  /** The number that a read found there. */
  readonly value: number;
}

/** A holder's way to the resource. */
export class ResourceClient {
  readonly #waiting = new Map<number, (reply: ResourceReply) => void>();
  #lastId = 0;

  private constructor(private readonly socket: Socket) {
    createInterface({ input: socket }).on('line', (line) => {
      const reply = JSON.parse(line) as ResourceReply;
      this.#waiting.get(reply.id)?.(reply);
      this.#waiting.delete(reply.id);
    });
  }

  static async connect(port: number): Promise<ResourceClient> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true });
    await once(socket, 'connect');
    return new ResourceClient(socket);
  }

  /** The bytes are handed to the kernel before this returns. A read on the fenced view claims the record for the token. */
  access(access: Access, token: FencingToken): Promise<ResourceReply> {
    const id = (this.#lastId += 1);
    const fencingToken = fencingTokenHeader(token)[FENCING_TOKEN_HEADER]!;
    const reply = new Promise<ResourceReply>((resolve) => this.#waiting.set(id, resolve));
    this.socket.write(`${JSON.stringify({ ...access, id, fencingToken })}\n`);
    return reply;
  }

  close(): void {
    this.socket.end();
  }
}
