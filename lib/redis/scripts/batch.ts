import { ACQUIRE } from './acquire.ts';
import { EXTEND } from './extend.ts';
import { RELEASE } from './release.ts';
import { defineScript } from './script.ts';

/** What one batch carries at most: so the server is never busy with it for long. */
export const MOST_REQUESTS = 64;
export const MOST_KEYS = 128;
/** Values of each of its scripts, apart from the start of the server. */
export const VALUES_PER_REQUEST = 3;

const functions = Object.entries({ a: ACQUIRE, e: EXTEND, r: RELEASE })
  .map(([letter, { text }]) => `  ${letter} = function(KEYS, ARGV)\n${text}\n  end,`)
  .join('\n');

/** Several requests as one script; each has the meaning of its own script, of which this is made. */
export const BATCH = defineScript(`
-- BATCH: several requests in their order; one that fails harms no other.
-- KEYS: marker, then the keys of each request without the marker
-- ARGV: start (from JOIN), then for each request: a letter for its script, how many keys, its values without the start
-- Returns a list: the reply of each script, or {'e', message} where the server refused something in it
local scripts = {
${functions}
}
local replies, key, value = {}, 2, 2
while ARGV[value] do
  local letter, last, keys = ARGV[value], key + ARGV[value + 1] - 1, {}
  if letter ~= 'r' then keys[1] = KEYS[1] end
  for i = key, last do keys[#keys + 1] = KEYS[i] end
  local values = {ARGV[value + 2], ARGV[value + 3], ARGV[value + 4], ARGV[1]}
  local isDone, reply = pcall(scripts[letter], keys, values)
  if type(reply) == 'table' and reply.err then isDone, reply = false, reply.err end
  if not isDone then reply = {'e', tostring(reply)} end
  replies[#replies + 1] = reply
  key, value = last + 1, value + 5
end
return replies
`);
