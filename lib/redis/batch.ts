import { ACQUIRE, defineScript, EXTEND, NEXT, RELEASE_TEXT, WAIT_TEXT } from './scripts.ts';

/** Batch size from which writing costs less than waiting for more; and the server is never busy with one batch for long. */
export const MOST_REQUESTS = 32;
/** A batch has no more of them, unless one request does. */
export const MOST_KEYS = 128;
/** Values of each of its scripts. */
export const VALUES_PER_REQUEST = 3;

const texts = { a: ACQUIRE.text, e: EXTEND.text, r: RELEASE_TEXT, w: WAIT_TEXT };
const functions = Object.entries(texts)
  .map(([letter, text]) => `  ${letter} = function(KEYS, ARGV)\n${text}\n  end,`)
  .join('\n');

/**
 * Several requests as one script; each has the meaning of its own script, of which this is made. What nearly all of them
 * are, the vote for one free lock and the release of one that is held, shares one look at the keys, the marker and the time.
 */
export const BATCH = defineScript(`
-- BATCH: several requests in their order; one that fails harms no other.
-- KEYS: marker, gate, then the keys of each request without them
-- ARGV: for each request: a letter for its script with the number of its keys, its values
-- Returns 1 when every script returned 1, which is the common case and cheap to read; otherwise a list: the reply of each
--   script, or {'e', message} where the server refused something in it
${NEXT}
local scripts = {
${functions}
}
local try, K, A = redis.pcall, KEYS, ARGV

-- The common case of ACQUIRE.
local function accept(lock, name, floor, ballot, holder, ttl, floorEnd)
  local reply = try('SET', name, ballot .. ' ' .. string.sub(floor or '0000000000000000', 1, 16), 'PXAT', floorEnd)
  if reply.err then return reply end
  reply = try('SET', lock, holder, 'PX', ttl, 'NX')
  if reply then return reply.err and reply or 1 end
  if floor then try('SET', name, floor, 'KEEPTTL') else try('DEL', name) end
  return redis.error_reply('WRONGTYPE ' .. lock .. ' holds data that is no lock')
end

-- The common case of RELEASE.
local function free(lock, holder, pass)
  local reply = try('DEL', lock)
  if reply ~= 1 then return reply end
  if try('EXISTS', lock .. '#queue') == 1 then
    local mark = string.sub(string.match(holder, '^#?(.*)'), 1, 8)
    if pass == '1' then
      leave(lock .. '#queue', mark)
      nextWaiter(lock)
    else try('SET', lock, '#' .. mark, 'PX', 20) end
  end
  return 1
end

-- Values before the first request; changed names the locks for which that is over.
local values, changed = try('MGET', unpack(K)), {}
if values.err then values = {} end -- nothing is known: each request by its own script
local gate, low, high, floorEnd, gateTtl = values[2], nil, nil, nil, nil
if gate and values[1] and string.sub(gate, 33, 40) == start then
  low, high = string.sub(gate, 1, 16), string.sub(gate, 17, 32)
  floorEnd, gateTtl = string.sub(gate, 41, 53), string.sub(gate, 54)
end

local function single(what, first, last, ...)
  local keys = {}
  if what == 'a' or what == 'e' then keys[1] = K[1] end
  if what == 'a' then keys[2] = K[2] end
  for i = first, last do keys[#keys + 1] = K[i] end
  for i = first, last do changed[K[i]] = true end
  return pcall(scripts[what], keys, {...})
end

local replies, isPlain, key, value = {}, true, 3, 1
while A[value] do
  local what, a, b, c = A[value], A[value + 1], A[value + 2], A[value + 3]
  local lock, floor, isDone, reply = K[key], values[key + 1], true, nil
  local last = key + 1
  local isKnown = not changed[lock]
  if isKnown and what == 'r1' and values[key] == a and #c == 1 then
    last, reply = key, free(lock, a, c)
    changed[lock] = true
  elseif isKnown and what == 'a2' and low and not values[key] and (not floor or #floor == 33 and a > floor)
    and a > low and a <= high then
    reply = accept(lock, K[last], floor, a, b, c, c == gateTtl and floorEnd or floorEnd - gateTtl + c)
    changed[lock] = true
  else
    last = key + string.sub(what, 2) - 1
    isDone, reply = single(string.sub(what, 1, 1), key, last, a, b, c)
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
