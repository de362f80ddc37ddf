import { beforeAll, describe, expect, it } from '@jest/globals';
import { Chance } from '../../simulation/world/chance.ts';
import { LinkStage } from './link-stage.ts';
import { encodeCommand } from './raw-client.ts';
import { ReplyBoundary } from './reply-boundary.ts';

const stage = new LinkStage();

/** Where replies end in `bytes`, followed in pieces of the given lengths. */
function boundaries(bytes: Buffer, pieceLength: () => number): number[] {
  const boundary = new ReplyBoundary();
  const found: number[] = [];
  for (let offset = 0; offset < bytes.length;) {
    const piece = bytes.subarray(offset, offset + pieceLength());
    boundary.follow(piece);
    offset += piece.length;
    if (boundary.isBetweenReplies) found.push(offset);
  }
  return found;
}

/** What a real server answers, one reply after the other, in the given version of RESP. */
async function realReplies(version: string): Promise<Buffer[]> {
  const client = await stage.client(stage.server);
  const script = `return {1, 'two', {}, {{'deep', {'deeper'}}, 'a\\r\\n+b\\r\\n$5\\r\\n'}, false, {ok='fine'}}`;
  const commands = [
    ['HELLO', version],
    ['PING'],
    ['EVAL', script, '0'],
    ['GET', 'nothing'],
    ['ECHO', ''],
    ['ECHO', 'x\r\n:1\r\n*3\r\n'],
    ['ECHO', Buffer.from(Array.from({ length: 300 }, (_, index) => index % 256))],
    ['NOT-A-COMMAND-WITH-A-NAME-LONGER-THAN-WHAT-IS-KEPT-OF-A-LINE'],
    ['HSET', 'hash', 'a', '1', 'b', '2'],
    ['HGETALL', 'hash'],
    ['HGETALL', 'no-hash'],
    ['ZADD', 'sorted', '1.5', 'member'],
    ['ZSCORE', 'sorted', 'member'],
    ['SADD', 'set', 'member'],
    ['SMEMBERS', 'set'],
    ['INFO'],
    ['COMMAND', 'DOCS', 'GET'],
    ['CONFIG', 'GET', 'maxmemory*'],
  ];
  const replies: Buffer[] = [];
  for (const command of commands) {
    const before = client.received.length;
    // A PING behind each: its reply tells when the one before is complete.
    client.socket.write(Buffer.concat([encodeCommand(...command), encodeCommand('PING', 'end')]));
    const mark = '$3\r\nend\r\n';
    while (!client.received.subarray(before).toString('latin1').endsWith(mark)) {
      await client.until(client.received.length + 1);
    }
    replies.push(client.received.subarray(before, -mark.length), Buffer.from(mark));
  }
  return replies;
}

describe.each(['2', '3'])('where replies of RESP %s end', (version) => {
  let replies: Buffer[];
  let ends: number[];
  beforeAll(async () => {
    replies = await realReplies(version);
    let end = 0;
    ends = replies.map(({ length }) => (end += length));
  });

  it('is known when they come byte by byte', () => {
    expect(boundaries(Buffer.concat(replies), () => 1)).toEqual(ends);
  });

  it('is known when they come in pieces of any length', () => {
    const stream = Buffer.concat(replies);
    const chance = new Chance(1);
    for (let round = 0; round < 200; round += 1) {
      const pieces: number[] = [];
      const found = boundaries(stream, () => {
        pieces.push(chance.integer(1, 5_000));
        return pieces.at(-1)!;
      });
      let offset = 0;
      const offsets = pieces.map((length) => (offset = Math.min(stream.length, offset + length)));
      expect(found).toEqual(offsets.filter((each) => ends.includes(each)));
    }
    expect(boundaries(stream, () => stream.length)).toEqual([stream.length]);
  });
});

describe('where replies end that Redis seldom gives', () => {
  const replies = [
    '|1\r\n+attribute\r\n*2\r\n:1\r\n$1\r\nx\r\n$5\r\nreply\r\n',
    '*1\r\n|1\r\n+attribute\r\n:1\r\n%1\r\n+key\r\n~1\r\n,1.5\r\n',
    '!5\r\nERR x\r\n',
    '=7\r\ntxt:\r\n+\r\n',
    '_\r\n',
    '#t\r\n',
    '(12345678901234567890\r\n',
    '>2\r\n+message\r\n$0\r\n\r\n',
    '*0\r\n',
    '*-1\r\n',
    '%0\r\n',
    '$-1\r\n',
  ];

  it.each([1, 2, 3, 7])('is known in pieces of %i bytes', (length) => {
    let end = 0;
    const ends = replies.map((reply) => (end += reply.length));
    const found = boundaries(Buffer.from(replies.join('')), () => length);
    expect(found).toEqual(ends.filter((each) => each % length === 0 || each === end));
  });
});
