import { connect as connectPlain, type NetConnectOpts } from 'node:net';
import { connect as connectTls } from 'node:tls';

export interface RequestTarget {
  /** The address to connect to: a host and port, or the path of a unix socket. */
  readonly address: { host: string; port: number } | { path: string };
  /** True, or the certificate to show. */
  readonly tls?: boolean | { readonly cert: string; readonly key: string };
  readonly user?: { readonly name: string; readonly password: string };
}

/**
 * Sends one command over a connection of its own and resolves with the last reply as text, without its type mark; the
 * elements of an array are joined by spaces.
 * Rejects when the server cannot be reached, answers with an error, or says nothing for `timeoutMs`.
 */
export function respRequest(
  target: RequestTarget,
  command: readonly string[],
  timeoutMs = 20_000,
): Promise<string> {
  const commands = target.user
    ? [['AUTH', target.user.name, target.user.password], command]
    : [command];
  return new Promise((resolve, reject) => {
    const options: NetConnectOpts = target.address;
    // It tests reachability only: no secret worth protecting is sent to a throw-away server on loopback.
    const socket = target.tls
      ? connectTls({ ...options, ...certificateOf(target), rejectUnauthorized: false })
      : connectPlain(options);
    const end = (settle: () => void) => {
      clearTimeout(timer);
      socket.destroy();
      settle();
    };
    const fail = (error: Error) => end(() => reject(error));
    const timer = setTimeout(() => fail(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    let received = '';
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('connection closed before the reply')));
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      const replies = parseReplies(received);
      const refused = replies.find((reply) => reply instanceof Error);
      if (refused) fail(refused);
      else if (replies.length === commands.length) end(() => resolve(String(replies.at(-1))));
    });
    socket.write(commands.map(encode).join(''));
  });
}

function certificateOf({ tls }: RequestTarget): { cert?: string; key?: string } {
  return typeof tls === 'object' ? { cert: tls.cert, key: tls.key } : {};
}

function encode(command: readonly string[]): string {
  const parts = command.map((part) => `$${Buffer.byteLength(part)}\r\n${part}\r\n`);
  return `*${command.length}\r\n${parts.join('')}`;
}

/** The complete replies at the start of `text`. */
function parseReplies(text: string): (string | Error)[] {
  const replies: (string | Error)[] = [];
  for (let next = parseReply(text, 0); next; next = parseReply(text, next.end)) {
    replies.push(next.reply);
  }
  return replies;
}

/** A reply, and where it ends; undefined when it is not complete. */
function parseReply(
  text: string,
  start: number,
): { reply: string | Error; end: number } | undefined {
  const lineEnd = text.indexOf('\r\n', start);
  if (lineEnd < 0) return undefined;
  const line = text.slice(start + 1, lineEnd);
  let end = lineEnd + 2;
  switch (text[start]) {
    case '-':
      return { reply: new Error(line), end };
    case '$':
      if (line === '-1') return { reply: '', end };
      if (text.length < end + Number(line) + 2) return undefined;
      return { reply: text.slice(end, end + Number(line)), end: end + Number(line) + 2 };
    case '*': {
      const elements: (string | Error)[] = [];
      while (elements.length < Number(line)) {
        const element = parseReply(text, end);
        if (!element) return undefined;
        elements.push(element.reply);
        end = element.end;
      }
      return { reply: elements.join(' '), end };
    }
    default:
      return { reply: line, end };
  }
}

/** Resolves once PING is answered with PONG; rejects otherwise, also while the server still loads its data. */
export async function ping(target: RequestTarget, timeoutMs?: number): Promise<void> {
  const reply = await respRequest(target, ['PING'], timeoutMs);
  if (reply !== 'PONG') throw new Error(`PING was answered with ${reply}`);
}
