import { ACQUIRE } from './acquire.ts';
import { EXTEND } from './extend.ts';
import { RELEASE } from './release.ts';
import { defineScript } from './script.ts';

/** With so many collected, writing costs less than waiting for more; and the server is never busy with one batch for long. */
export const MOST_REQUESTS = 32;
/** A batch has no more of them, unless one request does. */
export const MOST_KEYS = 128;
/** Values of each of its scripts, apart from the start of the server. */
export const VALUES_PER_REQUEST = 3;

const functions = Object.entries({ a: ACQUIRE, e: EXTEND, r: RELEASE })
  .map(([letter, { text }]) => `  ${letter} = function(KEYS, ARGV)\n${text}\n  end,`)
  .join('\n');

/**
 * Several requests as one script; each has the meaning of its own script, of which this is made. What nearly all of them
 * are, the vote for one free lock and the release of one that is held, shares one look at the keys, the marker and the time.
 */
export const BATCH = defineScript(`
-- BATCH: several requests in their order; one that fails harms no other.
-- KEYS: marker, then the keys of each request without the marker
-- ARGV: start (from JOIN), then for each request: a letter for its script with the number of its keys, its values without
--   the start
-- Returns 1 when every script returned 1, which is the common case and cheap to read; otherwise a list: the reply of each
--   script, or {'e', message} where the server refused something in it
local scripts = {
${functions}
}
local call, K, A = redis.call, KEYS, ARGV

-- The common case of ACQUIRE.
local function accept(lock, name, floor, ballot, holder, ttl, keep)
  call('PSETEX', name, keep, ballot .. ' ' .. string.sub(floor or '0000000000000000', 1, 16))
  if call('SET', lock, holder, 'PX', ttl, 'NX') then return 1 end
  if floor then call('SET', name, floor, 'KEEPTTL') else call('DEL', name) end
  return redis.error_reply('WRONGTYPE ' .. lock .. ' holds data that is no lock')
end

-- The common case of RELEASE.
local function free(lock, holder, notify)
  call('DEL', lock)
  local reached = notify == '1' and redis.pcall('PUBLISH', lock, holder)
  if type(reached) == 'number' and reached > 0 then return {1, reached} end
  return 1
end

-- As they are before the first request; changed names the locks for which that is over.
local values, changed = call('MGET', unpack(K)), {}
-- Ballots above clock are accepted; nil where this server does not vote.
local now, clock = 0, nil
local voteAfter, runId, W, R = string.match(values[1] or '', '^(%d+) (%w+) (%d+) (%d+)$')
if voteAfter and string.sub(runId, 1, 8) == A[1] then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  if voteAfter - now / 1000 <= 0 then
    clock = now - R * 500
    if tonumber(W) > 0 then clock = math.max(clock, voteAfter * 1000 - W * 500) end
  end
end

local function single(what, first, last, ...)
  local keys = {}
  if what ~= 'r' then keys[1] = K[1] end
  for i = first, last do keys[#keys + 1] = K[i] end
  for i = first, last, 2 do changed[K[i]] = true end
  return pcall(scripts[what], keys, {...})
end

local replies, isPlain, key, value = {}, true, 2, 2
while A[value] do
  local what, a, b, c = A[value], A[value + 1], A[value + 2], A[value + 3]
  local lock, floor, isDone, reply = K[key], values[key + 1], nil, nil
  local last = key + 1
  local isKnown = not changed[lock]
  if isKnown and what == 'r2' and b == '1' and values[key] == a then
    isDone, reply = pcall(free, lock, a, c)
    changed[lock] = true
  elseif isKnown and what == 'a2' and clock and not values[key] and (not floor or #floor == 33 and a > floor) then
    local p = tonumber(a)
    if p > clock and p <= now + 86400000000 then
      local keep = c + R
      if p > now then keep = keep + math.ceil((p - now) / 1000) end
      isDone, reply = pcall(accept, lock, K[last], floor, a, b, c, keep)
      changed[lock] = true
    end
  end
  if isDone == nil then
    last = key + string.sub(what, 2) - 1
    isDone, reply = single(string.sub(what, 1, 1), key, last, a, b, c, A[1])
  end
  if type(reply) == 'table' and reply.err then isDone, reply = false, reply.err end
  if not isDone then reply = {'e', tostring(reply)} end
  if reply ~= 1 then isPlain = false end
  replies[#replies + 1] = reply
  key, value = last + 1, value + 4
end
if isPlain then return 1 end
return replies
`);
