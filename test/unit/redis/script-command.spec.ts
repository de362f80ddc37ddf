import { describe, expect, it, jest } from '@jest/globals';
import { Command } from 'ioredis';
import { NodeNames } from '../../../lib/core/nodes/node-names.ts';
import {
  ACQUIRE_CALL,
  ScriptCommand,
  wireCommandOf,
} from '../../../lib/redis/commands/script-command.ts';
import type { CommandClass } from '../../../lib/redis/commands/script-command.ts';

const names = new NodeNames('lock:', ['a']);
const vote = { names, holder: 'holder', ballot: 7, ttlMs: 10_000 };
const owner = { voting: undefined, rejected: () => undefined };

class FutureCommand extends (Command as unknown as CommandClass) {
  readonly surprise = true;
}
const WireCommand = wireCommandOf(FutureCommand);

describe('the command of a request', () => {
  it('is one of its copy of ioredis, and knows all that a command of it has', () => {
    const command = new WireCommand(new ScriptCommand(ACQUIRE_CALL, vote, () => undefined, owner));
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
    new WireCommand(new ScriptCommand(ACQUIRE_CALL, vote, settle, owner)).resolve(1);
    const refused = new WireCommand(new ScriptCommand(ACQUIRE_CALL, vote, settle, failing));
    refused.reject(new Error('of the server'));
    expect(later).toHaveBeenCalledTimes(2);
    for (const [rethrow] of later.mock.calls) expect(rethrow).toThrow(thrown);
    later.mockRestore();
  });
});
