import { describe, expect, it, jest } from '@jest/globals';
import { Command } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import { ACQUIRE_CALL, bulk, scriptCommands } from '../../../lib/redis/commands/script-command.ts';
import type { CommandClass } from '../../../lib/redis/commands/script-command.ts';

const names = new NodeNames('lock:', ['a']);
const vote = { names, holder: 'holder', ballot: 7, ttlMs: 10_000 };
const voting = { a: bulk('a'.repeat(40)), e: bulk('e'.repeat(40)), batch: bulk('b'.repeat(40)) };
const owner = { voting, rejected: () => undefined };

class FutureCommand extends (Command as unknown as CommandClass) {
  readonly surprise = true;
}
const { ScriptCommand } = scriptCommands(FutureCommand);

describe('the command of a request', () => {
  it('is one of its copy of ioredis, and knows all that a command of it has', () => {
    const command = new ScriptCommand(ACQUIRE_CALL, vote, () => undefined, owner);
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
    new ScriptCommand(ACQUIRE_CALL, vote, settle, owner).resolve(1);
    new ScriptCommand(ACQUIRE_CALL, vote, settle, failing).reject(new Error('of the server'));
    expect(later).toHaveBeenCalledTimes(2);
    for (const [rethrow] of later.mock.calls) expect(rethrow).toThrow(thrown);
    later.mockRestore();
  });
});
