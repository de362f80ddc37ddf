import { createServer } from 'node:net';
import type { AddressInfo, Server, Socket } from 'node:net';

/** Returns what to write for one command: RESP bytes, or nothing at all. */
export type ScriptedReply = (command: readonly string[], socket: Socket) => string | undefined;

const INFO = 'redis_version:7.0.0\r\nrun_id:scripted\r\nrole:master\r\nloading:0\r\n';

/** A TCP server that shakes hands like a Redis and then answers what a test wants: the hostile or broken server. */
export class ScriptedRedis {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Commands received, in order. */
  readonly commands: (readonly string[])[] = [];

  private constructor(reply: ScriptedReply) {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('error', () => undefined);
      let pending = '';
      socket.on('data', (chunk) => {
        pending += chunk.toString('latin1');
        for (let parsed = parseCommand(pending); parsed; parsed = parseCommand(pending)) {
          pending = pending.slice(parsed.length);
          this.commands.push(parsed.command);
          const answer = reply(parsed.command, socket) ?? '';
          if (answer !== '') socket.write(answer);
        }
      });
    });
  }

  /** Resolves when it listens on a loopback port. */
  static async start(reply: ScriptedReply): Promise<ScriptedRedis> {
    const scripted = new ScriptedRedis(reply);
    await new Promise<void>((resolve) => scripted.#server.listen(0, '127.0.0.1', resolve));
    return scripted;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  async stop(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

/** The answer to a join of a server that knows voting scripts. */
export const JOINED = '*5\r\n:1\r\n:0\r\n$8\r\n1a2b3c4d\r\n$4\r\nsalt\r\n*0\r\n';

/** A script without keys: whether the server knows it, and is the one that it is for. */
export function isQuestion([name, , keyCount]: readonly string[]): boolean {
  return name === 'evalsha' && keyCount === '0';
}

/** Answers the commands with which clients begin; nothing for the others. */
export function shakeHands([name = '', ...rest]: readonly string[]): string | undefined {
  switch (name.toLowerCase()) {
    case 'info':
      return bulk(INFO);
    case 'script':
      return rest[0]?.toLowerCase() === 'exists'
        ? `*${rest.length - 1}\r\n${':0\r\n'.repeat(rest.length - 1)}`
        : bulk(rest[0] ?? '');
    case 'hello':
      return '*0\r\n';
    case 'auth':
    case 'select':
    case 'set':
    case 'client':
      return '+OK\r\n';
    default:
      return undefined;
  }
}

export function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

/** The first complete command of `text`: an array of bulk strings. */
function parseCommand(text: string): { command: string[]; length: number } | undefined {
  const count = /^\*(\d+)\r\n/.exec(text);
  if (!count) return undefined;
  let offset = count[0].length;
  const command: string[] = [];
  for (let index = 0; index < Number(count[1]); index += 1) {
    const size = /^\$(\d+)\r\n/.exec(text.slice(offset, offset + 20));
    if (!size) return undefined;
    offset += size[0].length;
    const end = offset + Number(size[1]);
    if (text.length < end + 2) return undefined;
    command.push(text.slice(offset, end));
    offset = end + 2;
  }
  return { command, length: offset };
}
