import { describe, expect, it, jest } from '@jest/globals';
import { Command } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import * as commands from '../../../lib/redis/commands/script-command.ts';
import type { CommandClass } from '../../../lib/redis/commands/script-command.ts';

const names = new NodeNames('lock:', ['a']);
const vote = { names, holder: 'holder', ballot: 7, ttlMs: 10_000 };
const owner = { voting: undefined, rejected: () => undefined };

class FutureCommand extends (Command as unknown as CommandClass) {
  readonly surprise = true;
}
const WireCommand = commands.wireCommandOf(FutureCommand);
const made = (settle: () => void, by = owner) =>
  new WireCommand(new commands.ScriptCommand(commands.ACQUIRE_CALL, vote, settle, by));

describe('the command of a request', () => {
  it('is one of its copy of ioredis, and knows all that a command of it has', () => {
    const command = made(() => undefined);
    expect(command).toBeInstanceOf(Command);
    for (const field of Object.keys(new FutureCommand('ping', [])))
      expect(field in command).toBe(true);
  });

  it('keeps what its receiver throws from the parser of ioredis, and throws it later', () => {
    const later = jest.spyOn(globalThis, 'queueMicrotask').mockImplementation(() => undefined);
    const thrown = new Error('of the receiver');
    const settle = (): never => {
      throw thrown;
    };
    made(settle).resolve(1);
    made(settle, { ...owner, rejected: settle }).reject(new Error('of the server'));
    expect(later).toHaveBeenCalledTimes(2);
    for (const [rethrow] of later.mock.calls) expect(rethrow).toThrow(thrown);
    later.mockRestore();
  });
});
