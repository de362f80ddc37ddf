import { describe, expect, it, jest } from '@jest/globals';
import { Command } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import {
  ACQUIRE_CALL,
  argumentsOf,
  bulk,
  EXTEND_CALL,
  INSPECT_CALL,
  RELEASE_CALL,
  scriptCommands,
  WAIT_CALL,
} from '../../../lib/redis/commands/script-command.ts';
import type { CommandClass, ScriptCall } from '../../../lib/redis/commands/script-command.ts';

const names = new NodeNames('lock:', ['a']);
const vote = { names, holder: 'holder', ballot: 7, ttlMs: 10_000 };
const voting = { a: bulk('a'.repeat(40)), e: bulk('e'.repeat(40)), batch: bulk('b'.repeat(40)) };
const owner = { voting, rejected: () => undefined };
const IoredisCommand = Command as unknown as CommandClass;

const { ScriptCommand } = scriptCommands();

/** What goes to a node. */
function textOf<Request>(call: ScriptCall<Request, any>, request: Request): string {
  return new ScriptCommand(call, request, () => undefined, owner).text;
}

/** As ioredis itself writes these arguments. */
function written(args: readonly (string | Buffer)[]): string {
  return String(new Command('evalsha', [...args]).toWritable(null!));
}

describe('a request on the wire', () => {
  it.each([
    ['plain', ['a', 'b']],
    ['long', ['x'.repeat(100_000)]],
    ['of several bytes a character, and with line ends', ['schlüssel:日本:🔒', 'é\r\n$3\r\n']],
    ['many', Array.from({ length: 1_000 }, (_, index) => `key:${index}`)],
  ])('is what ioredis would write, and can be read back: keys that are %s', (_, keys) => {
    const of = new NodeNames('lock:', keys);
    const texts = [
      textOf(ACQUIRE_CALL, { ...vote, names: of }),
      textOf(EXTEND_CALL, { ...vote, names: of, holder: keys[0]! }),
      textOf(RELEASE_CALL, { names: of, holder: keys.at(-1)!, granted: false, pass: true }),
      textOf(INSPECT_CALL, { names: of }),
    ];
    for (const text of texts) {
      const [name, ...args] = argumentsOf(text);
      expect(String(name)).toBe('evalsha');
      expect(written(args)).toBe(text);
      expect(args.map(String)).toContain(of.pairs.at(-1));
    }
  });

  it('carries digest, keys and values in the order in which the script reads them', () => {
    const keys = ['4', 'lock:#marker', 'lock:#marker:gate', 'lock:a', 'lock:#floor:a'];
    // Floors are compared as strings: 16 digits.
    const values = ['0000000000000007', 'holder', '10000'];
    expect(textOf(ACQUIRE_CALL, vote)).toBe(written(['a'.repeat(40), ...keys, ...values]));
    const release = { names, holder: 'holder', granted: false, pass: true };
    expect(textOf(RELEASE_CALL, release)).toBe(
      written([RELEASE_CALL.script.sha1, '2', 'lock:a', 'lock:#floor:a', 'holder', '0', '1']),
    );
    const place = { names, member: 'mark 10 channel', ticket: 0, lifeMs: 9 };
    expect(textOf(WAIT_CALL, place)).toBe(
      written([WAIT_CALL.script.sha1, '1', 'lock:a', place.member, '0', '9']),
    );
  });

  it('is made once for all nodes, and again for the next request', () => {
    const byteLength = jest.spyOn(Buffer, 'byteLength');
    const request = { ...vote };
    const text = textOf(ACQUIRE_CALL, request);
    const calls = byteLength.mock.calls.length;
    expect(textOf(ACQUIRE_CALL, request)).toBe(text);
    expect(byteLength.mock.calls.length).toBe(calls);
    expect(textOf(ACQUIRE_CALL, { ...request, holder: 'other' })).toContain('other');
    expect(textOf(ACQUIRE_CALL, request)).toBe(text);
    byteLength.mockRestore();
  });
});

describe('the command of a request', () => {
  it('is one of its copy of ioredis, and knows all that a command of it has', () => {
    const { ScriptCommand: Native } = scriptCommands(IoredisCommand);
    const command = new Native(ACQUIRE_CALL, vote, () => undefined, owner);
    expect(command).toBeInstanceOf(Command);
    expect(command.isNative).toBe(true);
    for (const field of Object.keys(new Command('ping'))) expect(field in command).toBe(true);
  });

  it('is not handed to a copy of ioredis that keeps something unknown in its commands', () => {
    class FutureCommand extends IoredisCommand {
      readonly surprise = true;
    }
    const { ScriptCommand: Foreign } = scriptCommands(FutureCommand);
    const command = new Foreign(ACQUIRE_CALL, vote, () => undefined, owner);
    expect(command.isNative).toBe(false);
    expect(command).not.toBeInstanceOf(Command);
  });

  it('keeps what its receiver throws from the parser of ioredis, and throws it later', () => {
    const later = jest.spyOn(globalThis, 'queueMicrotask').mockImplementation(() => undefined);
    const thrown = new Error('of the receiver');
    const settle = () => {
      throw thrown;
    };
    const failing = { ...owner, rejected: settle };
    const { ScriptCommand: Native } = scriptCommands(IoredisCommand);
    new Native(ACQUIRE_CALL, vote, settle, owner).resolve(1);
    new Native(ACQUIRE_CALL, vote, settle, failing).reject(new Error('of the server'));
    expect(later).toHaveBeenCalledTimes(2);
    for (const [rethrow] of later.mock.calls) expect(rethrow).toThrow(thrown);
    later.mockRestore();
  });
});
