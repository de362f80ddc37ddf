import { errorReply } from './commands/node-failure.ts';
import type { ScriptCommand } from './commands/script-command.ts';
import {
  ACQUIRE,
  defineScript,
  EXTEND,
  gateName,
  NEXT,
  RELEASE_TEXT,
  WAIT_TEXT,
} from './scripts.ts';
import type { WireCommand, Word } from './wire.ts';

/** The size of a batch from which writing costs less than waiting for more; and the server is never busy with one batch for long. */
export const MOST_REQUESTS = 32;
/** A batch has no more of them, unless one request does. */
const MOST_KEYS = 128;

const texts = { a: ACQUIRE.text, e: EXTEND.text, r: RELEASE_TEXT, w: WAIT_TEXT };
const functions = Object.entries(texts)
  .map(([letter, text]) => `  ${letter} = function(KEYS, ARGV)\n${text}\n  end,`)
  .join('\n');

/** Several requests as one script; each is executed by the text of its own script. */
export const BATCH = defineScript(`
-- BATCH: several requests in their order; one that fails harms no other.
-- KEYS: marker, gate, then the keys of each request without them
-- ARGV: for each request: a letter for its script with the number of its keys, its three values
-- Returns 1 when every script returned 1, which is the common case and cheap to read; otherwise a list: the reply of each
--   script, or {'e', message} where the server refused something in it
${NEXT}
local scripts = {
${functions}
}
local replies, isPlain, key, value = {}, true, 3, 1
while ARGV[value] do
  local what, keys = ARGV[value], {}
  local script, last = string.sub(what, 1, 1), key + string.sub(what, 2) - 1
  if script == 'a' then keys = {KEYS[1], KEYS[2]} elseif script == 'e' then keys = {KEYS[1]} end
  for i = key, last do keys[#keys + 1] = KEYS[i] end
  local isDone, reply = pcall(scripts[script], keys, {ARGV[value + 1], ARGV[value + 2], ARGV[value + 3]})
  if type(reply) == 'table' and reply.err then isDone, reply = false, reply.err end
  if not isDone then reply = {'e', tostring(reply)} end
  if reply ~= 1 then isPlain = false end
  replies[#replies + 1] = reply
  key, value = last + 1, value + 4
end
if isPlain then return 1 end
return replies
`);

/** Several requests as one command, in their order. */
class BatchCommand implements WireCommand {
  constructor(readonly commands: readonly ScriptCommand[]) {}

  get words(): readonly Word[] {
    const [first] = this.commands;
    const { marker } = first!.request.names;
    const keys = [marker, gateName(marker)];
    const values: Word[] = [];
    for (const { call, arguments: own } of this.commands) {
      keys.push(...own.keys);
      values.push(call.letter + own.keys.length, ...own.values);
    }
    return ['evalsha', first!.owner.voting!.batch, keys.length, ...keys, ...values];
  }

  /** 1 is the reply of each. What is no list of replies either is no reply to any of them. */
  answered(answer: unknown): void {
    const { commands } = this;
    const list: readonly unknown[] =
      Array.isArray(answer) && answer.length === commands.length ? answer : [];
    for (const [index, command] of commands.entries()) {
      const reply = answer === 1 ? 1 : list[index];
      if (Array.isArray(reply) && reply[0] === 'e' && reply.length === 2)
        command.refused(errorReply(String(reply[1])));
      else command.answered(reply);
    }
  }

  refused(error: unknown): void {
    for (const command of this.commands) command.refused(error, true);
  }
}

/** The same requests in the same order, those that can go together in one command. */
export function batched(commands: readonly ScriptCommand[]): WireCommand[] {
  const written: WireCommand[] = [];
  let batch: ScriptCommand[] = [];
  let keyCount = 0;
  const end = () => {
    if (batch.length > 0) written.push(batch.length > 1 ? new BatchCommand(batch) : batch[0]!);
    batch = [];
    keyCount = 0;
  };
  for (const command of commands) {
    const { length } = command.arguments.keys;
    if (keyCount + length > MOST_KEYS) end();
    batch.push(command);
    keyCount += length;
  }
  end();
  return written;
}
