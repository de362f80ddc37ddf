import { describe, expect, it } from '@jest/globals';
import { ReplyGuard } from '../../../lib/redis/client/reply-guard.ts';

/** Reads these bytes in two pieces, cut at each place in turn; every way must end in the same. */
function readInPieces(text: string, due: number, isForMessages = false): boolean {
  const bytes = Buffer.from(text);
  const results = Array.from(bytes, (_byte, cut) => {
    const guard = new ReplyGuard();
    if (isForMessages) guard.subscribed();
    guard.due = due;
    const pieces = [bytes.subarray(0, cut), bytes.subarray(cut)];
    return pieces.every((piece) => guard.read(piece) === undefined);
  });
  expect(new Set(results).size).toBe(1);
  return results[0]!;
}

const REPLIES = [
  ':1\r\n',
  '+OK\r\n',
  '-NOSCRIPT No matching script.\r\n',
  '$-1\r\n',
  '$0\r\n\r\n',
  '$7\r\na\r\n:1\r\n\r\n',
  '*-1\r\n',
  '*0\r\n',
  '*5\r\n:0\r\n:-1\r\n$2\r\n12\r\n$-1\r\n*2\r\n*0\r\n$1\r\n*\r\n',
];

describe('a connection for commands', () => {
  it.each(REPLIES)('gives its client the reply %j where one is due, and no second one', (reply) => {
    expect(readInPieces(reply, 1)).toBe(true);
    expect(readInPieces(reply, 0)).toBe(false);
    expect(readInPieces(reply + reply, 2)).toBe(true);
    expect(readInPieces(reply + reply, 1)).toBe(false);
  });

  it('knows how many replies are due', () => {
    const guard = Object.assign(new ReplyGuard(), { due: REPLIES.length + 1 });
    guard.read(Buffer.from(REPLIES.join('')));
    expect(guard.due).toBe(1);
  });
});

it.each([
  'HTTP/1.1 400 Bad Request\r\n',
  '_\r\n',
  '>1\r\n:1\r\n',
  `${'*1\r\n'.repeat(9)}:1\r\n`,
  '*1000001\r\n',
])('a client never sees %j: it is no answer of a Redis to us', (text) => {
  const guard = Object.assign(new ReplyGuard(), { due: 9 });
  expect(guard.read(Buffer.from(text))).toMatch(/^Protocol error/);
});

it('a line without an end is not kept for ever', () => {
  const guard = Object.assign(new ReplyGuard(), { due: 1 });
  const faults = Array.from({ length: 100 }, () => guard.read(Buffer.alloc(1_000, '+')));
  expect(faults.at(-1)).toMatch(/^Protocol error/);
});

describe('a connection that has subscribed', () => {
  const message = '*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\nname\r\n';
  const subscribed = '*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n';
  it('gives its client the answers that were due before', () => {
    const guard = Object.assign(new ReplyGuard(), { due: 1 });
    guard.subscribed();
    guard.due += 1;
    expect(guard.read(Buffer.from(`+OK\r\n${subscribed}`))).toBeUndefined();
    expect(guard.read(Buffer.from('+OK\r\n'))).toBe('the server sent a reply to no request');
  });

  const pong = '*2\r\n$4\r\npong\r\n$0\r\n\r\n';

  it.each([
    ['messages, whatever is due', message + message, 0, true],
    ['what it asked for', subscribed + message + pong, 2, true],
    ['a refusal', '-NOPERM no\r\n', 1, true],
    ['no refusal of nothing', '-NOPERM no\r\n', 0, false],
    ['nothing that it did not ask for', subscribed, 0, false],
    ['no message without a text', message.replace('$4\r\nname', '$-1'), 1, false],
    ['no message without a channel', '*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n', 1, false],
    ['no end of a subscription', '*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n', 1, false],
    ['no list without a kind', '*1\r\n$-1\r\n', 1, false],
    ['no empty list', '*0\r\n', 1, false],
    ['no number', ':1\r\n', 1, false],
    ['no answer that is too short', '*1\r\n$9\r\nsubscribe\r\n', 1, false],
    ['what it answers after a refusal', '-NOPERM no\r\n+PONG\r\n', 2, true],
  ] as const)('gives its client %s', (_what, text, due, isGiven) => {
    expect(readInPieces(text, due, true)).toBe(isGiven);
  });
});
