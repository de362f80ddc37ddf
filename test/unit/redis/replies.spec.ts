import { describe, expect, it } from '@jest/globals';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import { failureOf } from '../../../lib/redis/commands/node-failure.ts';
import * as replies from '../../../lib/redis/commands/replies.ts';

const THREE_KEYS = { names: new NodeNames('lock:', ['a', 'b', 'c']) };

const NEVER_VALID: unknown[] = [
  null,
  undefined,
  '1',
  'OK',
  2,
  -1,
  1.5,
  true,
  Number.NaN,
  2 ** 60,
  10n,
  {},
  [],
  [1],
  ['1', 0],
  [[1], 0],
  [0, null],
  [-4, 0],
  [-2],
  [-2, -5],
  [-2, '5'],
  [-1, '5', 5],
  [-1, '5', 5, 2],
  [-1, String(2 ** 53), 5, 0],
  [-1, '0x10', 5, 0],
  [-1, '', 5, 0],
  [-1, Number.NaN, 5, 0],
  [0, 5, '5'],
  [0, 5, '5', 'holder'],
  [0, 5, '5', null, 0],
  [0, -2, '5', 'holder', 0],
  [0, 5, '-1', 'holder', 0],
  [0, 5, 1e300, 'holder', 0],
  [0, 5, '5', 'holder', -1],
  [0, 5, '5', 'holder', '0'],
  [0, 5, '5', 'holder', 3],
  [-3, 5],
  [-3, 5, 5],
  [-5, 'x'],
  [-5, 600_000, 'abcdefgh'],
  [1, 0, 'abc defg'],
  [1, -1],
  [1, 2, 3, 4],
  Array.from({ length: 10_000 }, () => 1),
  new Error('an error as a value'),
];

describe('replies that none of our scripts returns', () => {
  it.each([
    ['acquire', (reply: unknown) => replies.parseAcquireReply(reply, THREE_KEYS)],
    ['extend', replies.parseExtendReply],
    ['join', replies.parseJoinReply],
    ['inspect', replies.parseInspectReply],
  ] as const)('are a failure of %s, never a vote and never an exception', (command, parse) => {
    for (const reply of NEVER_VALID) {
      const parsed = parse(reply);
      expect(parsed).toMatchObject({ kind: 'failed', nothingWritten: false, reason: 'error' });
      expect((parsed as { message: string }).message).toContain(`unexpected reply to ${command}`);
    }
  });

  it('are a failure of release and of wait, but for what these return', () => {
    for (const reply of NEVER_VALID.filter((value) => value !== 2))
      expect(replies.parseReleaseReply(reply)).toMatchObject({ kind: 'failed' });
    for (const reply of NEVER_VALID.filter((value) => String(value) !== '1,0'))
      expect(replies.parseWaitReply(reply)).toMatchObject({ kind: 'failed' });
  });

  it('are not quoted in the message', () => {
    const secret = 's'.repeat(1_000_000);
    const parsed = replies.parseAcquireReply(secret, THREE_KEYS) as { message: string };
    expect(parsed.message.length).toBeLessThan(200);
  });
});

describe('failures', () => {
  const conceal = (message: string) => message.replace('hunter2', '***');

  function replyError(message: string): Error {
    return Object.assign(new Error(message), { name: 'ReplyError' });
  }

  it.each(['BUSY', 'LOADING', 'NOAUTH', 'NOPERM', 'READONLY', 'MISCONF', 'OOM', 'NOSCRIPT'])(
    'with %s certainly wrote nothing',
    (code) => {
      expect(failureOf(replyError(`${code} some text`), conceal)).toEqual({
        kind: 'failed',
        nothingWritten: true,
        reason: 'error',
        message: expect.stringMatching(new RegExp(`^${code} some text`)),
        ...(code === 'NOSCRIPT' && { mustJoin: true }),
      });
    },
  );

  it('with any other error of the server may have written', () => {
    expect(failureOf(replyError('ERR user_script:12: hunter2'), conceal)).toEqual({
      kind: 'failed',
      nothingWritten: false,
      reason: 'error',
      message: 'ERR user_script:12: ***',
    });
  });

  it('of the connection may have written, except when nothing was sent', () => {
    const closed = failureOf(new Error('Connection is closed.'), conceal);
    expect(closed).toMatchObject({ nothingWritten: false, reason: 'unreachable' });
    const unwritable = new Error("Stream isn't writeable and enableOfflineQueue options is false");
    expect(failureOf(unwritable, conceal)).toMatchObject({
      nothingWritten: true,
      reason: 'unreachable',
    });
    expect(failureOf(undefined, conceal)).toMatchObject({ nothingWritten: false });
  });
});
