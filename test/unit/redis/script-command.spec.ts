import { describe, expect, it, jest } from '@jest/globals';
import { Command } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import * as script from '../../../lib/redis/commands/script-command.ts';

const names = new NodeNames('lock:', ['a']);
const vote = { names, holder: 'holder', ballot: 7, ttlMs: 10_000 };
const owner = { voting: undefined, rejected: () => undefined };

class FutureCommand extends (Command as unknown as script.CommandClass) {
  readonly surprise = true;
}
const WireCommand = script.wireCommandOf(FutureCommand);
const voteOf = (settle: () => void, of: script.ScriptCommandOwner = owner) =>
  new WireCommand(new script.ScriptCommand(script.ACQUIRE_CALL, vote, settle, of));

describe('the command of a request', () => {
  it('is one of its copy of ioredis, and knows all that a command of it has', () => {
    const command = voteOf(() => undefined);
    expect(command).toBeInstanceOf(Command);
    for (const field of Object.keys(new FutureCommand('ping', [])))
      expect(field in command).toBe(true);
  });

  it('keeps what its receiver throws from the parser of ioredis, and throws it later', () => {
    const later = jest.spyOn(globalThis, 'queueMicrotask').mockImplementation(() => undefined);
    const thrown = new Error('of the receiver');
    const settle = () => {
      throw thrown;
    };
    const failing = { ...owner, rejected: settle };
    voteOf(settle).resolve(1);
    voteOf(settle, failing).reject(new Error('of the server'));
    expect(later).toHaveBeenCalledTimes(2);
    for (const [rethrow] of later.mock.calls) expect(rethrow).toThrow(thrown);
    later.mockRestore();
  });
});
