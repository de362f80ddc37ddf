import { createHash } from 'node:crypto';

/** A Lua script as the server knows it. Its header names KEYS, ARGV and every reply. */
export interface Script {
  readonly text: string;
  /** Digest that EVALSHA asks for. */
  readonly sha1: string;
}

/** Turns the text in a module into what is sent: no blank line in front, so that errors name our line numbers. */
export function defineScript(lua: string): Script {
  const text = lua.trim();
  return Object.freeze({ text, sha1: createHash('sha1').update(text).digest('hex') });
}

/** Name under which a server keeps what it needs to know of marker and clock in a vote for a free lock. */
export function gateName(marker: string): string {
  return `${marker}:gate`;
}

/** Vote for a ballot: all keys or none. The reply is an integer when accepted, since arrays cost. */
export const ACQUIRE = defineScript(`
-- ACQUIRE: accept ballot p of attempt o on 1..k locks, all or none.
-- KEYS: marker gate lock1 floor1 [lock2 floor2 ...]
-- ARGV: p (ballot, microseconds, 16 digits), holder o, ttlMs
-- marker: see JOIN.  start: 8 characters of the run id of the one server that knows this text, put in front of it by the client;
--   with failover empty where that server is a replica, or was one since it was joined.
-- floor: "F prev", 16 digits each, so that strings compare like numbers; ballots <= F are refused, prev is what F was before
--   the last accept.
-- lock: the holder, or "#" and the first 8 characters of the holders of one service: free to these, and for a moment kept from others.
-- gate: "<low><high><start><end, 13 digits><ttlMs>", written here for R/16: what marker and clock said. JOIN deletes it with each
--   marker it writes, and without a marker it says nothing. While it lives, clock - R/2 <= low, and high was R/8 ahead of the
--   clock. end is high + R + ttlMs in ms, as digits: to make those of a number takes Lua as long as a write.
-- Returns 1 ACCEPTED; otherwise nothing was written (maxF and limit as digits: ioredis 6 rounds integers near 2^53):
--   {0, pttlMs, maxF, other, i}  HELD: lock i (from 0), the first held one, has this other holder; pttl -1 = without TTL
--   {-1, limit, nowUs, byClock}  STALE: p <= limit, the highest floor; byClock 1: this node's clock refuses p, too, or alone
--   {-2, ms}                     QUARANTINED: may vote in ms
--   {-3, nowUs, maxF}            AHEAD: p is more than a day ahead of the clock, and a second above the floors
--   {-4}                         UNJOINED: no marker, or that of another start (its data were replaced), or the clock went back,
--                                or this server was a replica since it was joined
--   error WRONGTYPE              a lock's name holds other data, which is kept
local call, K, A = redis.call, KEYS, ARGV
local holder, ttl = A[2], A[3]
local values = call('MGET', unpack(K))
local gate, floor, gateEnd, floorEnd, p, now, clock, voteAfter, runId, W, R = values[2], values[4]

-- The common case: one free lock, a ballot above everything. A floor is longer than p, so with p = F the comparison refuses.
local isPlain = #K == 4 and not values[3] and (not floor or #floor == 33 and A[1] > floor)
if isPlain and gate and values[1] and A[1] > string.sub(gate, 1, 16) and A[1] <= string.sub(gate, 17, 32)
  and start == string.sub(gate, 33, 40) then
  floorEnd = string.sub(gate, 41, 53)
  if string.sub(gate, 54) ~= ttl then floorEnd = floorEnd - string.sub(gate, 54) + ttl end
  gate = nil
else
  voteAfter, runId, W, R = string.match(values[1] or '', '^%S+ (%d+) (%w+) (%d+) (%d+)')
  if not voteAfter or string.sub(runId, 1, 8) ~= start then return {-4} end
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
  local wait = voteAfter - now / 1000
  W = tonumber(W)
  if wait > W then return {-4} end
  if wait > 0 then return {-2, math.ceil(wait)} end

  p, clock = tonumber(A[1]), now - R * 500
  local afterRestart = voteAfter * 1000 - W * 500
  if W > 0 and afterRestart > clock then clock = afterRestart end
  -- A floor outlives its lock by R past the later of p and now; Lua numbers below 2^53 reach commands as whole digits.
  floorEnd = ttl + R + math.ceil(math.max(p, now) / 1000)
  isPlain = isPlain and p > clock and p <= now + 86400000000
  local high = now + R * 125
  gateEnd = math.floor(now / 1000) + math.ceil(R / 16)
  -- As low as clock - R/2 can be until the gate is gone, a millisecond after its time; and nothing from the quarantine.
  local low = math.max(clock, voteAfter * 1000, (gateEnd + 1) * 1000 - R * 500)
  gate = p > low and p <= high and now >= 1e15 -- a clock before 2001 has fewer digits
    and string.format('%016.0f%016.0f%s%.0f%s', low, high, start, ttl + R + math.ceil(high / 1000), ttl)
end

if isPlain then
  -- The floor goes first: a failing second write then leaves no holder without its floor.
  call('SET', K[4], A[1] .. ' ' .. string.sub(floor or '0000000000000000', 1, 16), 'PXAT', floorEnd)
  if call('SET', K[3], holder, 'PX', ttl, 'NX') then
    if gate then redis.pcall('SET', K[2], gate, 'PXAT', gateEnd) end -- without it the next vote looks at the clock again
    return 1
  end
  if floor then call('SET', K[4], floor, 'KEEPTTL') else call('DEL', K[4]) end
  return redis.error_reply('WRONGTYPE ' .. K[3] .. ' holds data that is no lock')
end

local maxF, highest, limit, first = 0, '0', 0, nil
local kept = '#' .. string.sub(holder, 1, 8)
for i = 3, #K, 2 do
  local isKept = values[i] == kept
  if isKept then values[i] = false end
  local other, digits = values[i], string.sub(values[i + 1] or '0', 1, 16)
  local F = tonumber(digits)
  if F > maxF then maxF, highest = F, digits end
  if other and other ~= holder then
    first = first or i
  elseif not other and not isKept and call('EXISTS', K[i]) == 1 then
    return redis.error_reply('WRONGTYPE ' .. K[i] .. ' holds data that is no lock')
  else
    if other and F == p then F = p - 1 end -- our own ballot, delivered twice
    if F > limit then limit = F end
  end
end
if first then
  local pttl = call('PTTL', K[first])
  return {0, pttl < -1 and 0 or pttl, highest, values[first], (first - 3) / 2}
end
if p <= limit or p <= clock then
  return {-1, string.format('%.0f', limit), now, p <= clock and 1 or 0}
end
if p > math.max(now + 86400000000, maxF + 1000000) then return {-3, now, highest} end

for i = 3, #K, 2 do
  local before, prev = values[i + 1], '0000000000000000'
  if before then -- a later ballot of the same attempt keeps what was before the attempt
    if values[i] then prev = string.sub(before, 18, 33) else prev = string.sub(before, 1, 16) end
  end
  call('SET', K[i + 1], A[1] .. ' ' .. prev, 'PXAT', floorEnd)
  call('PSETEX', K[i], ttl, holder)
end
return 1
`);

/** Extend a held lock; a missing key is set again where no newer ballot was accepted and the node may vote. */
export const EXTEND = defineScript(`
-- EXTEND: extend every lock of o for ttlMs, all or none. Never shortens.
-- KEYS: marker lock1 floor1 [lock2 floor2 ...]
-- ARGV: T (the granted ballot, 16 digits), holder o, ttlMs
-- marker, start, floor and lock as in ACQUIRE; a lock that is kept for somebody is missing.
-- Returns {1, n} EXTENDED, n locks were missing and are set again; otherwise nothing was written:
--   {0}      LOST: a lock has another holder (or is other data), or is missing and its floor passed T
--   {0, w}   LOST, and the lock has the word w of REVOKE instead of a holder
--   {-2, ms} QUARANTINED: a lock is missing, and the node may vote in ms
--   {-4}     UNJOINED: a lock is missing, and the node has no marker or that of another start, or its clock went back; or this
--            server was a replica since it was joined: others may write to the one that was the primary meanwhile
if start == '' then return {-4} end
local call, K, A = redis.call, KEYS, ARGV
local T, holder, ttl = tonumber(A[1]), A[2], tonumber(A[3])
local values = call('MGET', unpack(K))
local floors, missing = {}, 0
for i = 2, #K, 2 do
  local F = tonumber(string.sub(values[i + 1] or '0', 1, 16))
  floors[i] = F + 0 -- a floor that is no number fails here, before any write
  local isKept = values[i] and #values[i] == 9 and string.sub(values[i], 1, 1) == '#'
  if isKept then values[i] = false end
  if values[i] ~= holder then
    if values[i] or F > T or not isKept and call('EXISTS', K[i]) == 1 then
      return {0, values[i] and string.sub(values[i], 1, 8) == 'revoked:' and values[i] or nil}
    end
    missing = missing + 1
  end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local voteAfter, runId, W, R = string.match(values[1] or '', '^%S+ (%d+) (%w+) (%d+) (%d+)')
if missing > 0 then
  if not voteAfter or string.sub(runId, 1, 8) ~= start then return {-4} end
  local wait = voteAfter - now / 1000
  if wait > tonumber(W) then return {-4} end
  if wait > 0 then return {-2, math.ceil(wait)} end
end

for i = 2, #K, 2 do
  local F, lockLeft, floorLeft = floors[i], call('PTTL', K[i]), call('PTTL', K[i + 1])
  -- Without marker the distance that ACQUIRE put between lock and floor stands for R.
  local keep = ttl + (R or math.max(0, floorLeft - math.max(0, lockLeft)))
  local ahead = math.max(F, T) - now
  if ahead > 0 then keep = keep + math.ceil(ahead / 1000) end
  if not values[i] or F < T then
    call('PSETEX', K[i + 1], math.max(keep, floorLeft), A[1] .. ' ' .. A[1])
  elseif floorLeft >= 0 and floorLeft < keep then
    call('PEXPIRE', K[i + 1], keep) -- needs no memory: a server that has none left still extends
  end
  if not values[i] then call('PSETEX', K[i], ttl, holder)
  elseif lockLeft ~= -1 and lockLeft < ttl then call('PEXPIRE', K[i], ttl) end
end
return {1, missing}
`);

/** Shared by the scripts that name who is next. Never throws: without an order the lock is free to anyone. */
export const NEXT = `
-- Takes a service out of the line, except for this member.
local function leave(queue, mark, but)
  for _, member in ipairs(redis.pcall('ZRANGE', queue, 0, -1)) do
    local isPlace = string.sub(member, 1, 8) == mark and member ~= but
    -- ZREM would be a right more. Without memory the place stays where it is.
    if isPlace and redis.pcall('ZADD', queue, '-inf', member) == 0 then redis.pcall('ZPOPMIN', queue) end
  end
end
-- Keeps a free lock for the first process in line that still listens, and notifies it; and the one behind it of when that is over.
local function nextWaiter(lock)
  local queue = lock .. '#queue'
  while true do
    local head = redis.pcall('ZPOPMIN', queue)[1] -- "<mark> <graceMs> <channel>"
    if not head then return 0 end
    local mark, grace, channel = string.match(head, '^(%S+) (%d+) (.+)$')
    local reached = channel and redis.pcall('PUBLISH', channel, '0 ' .. lock)
    local isMute = type(reached) == 'table' -- users without the right: it finds its turn when it asks again, every 400 ms
    if isMute or reached and reached > 0 then
      grace = isMute and 500 or math.min(grace, 200)
      redis.pcall('SET', lock, '#' .. mark, 'PX', grace)
      local second = redis.pcall('ZRANGE', queue, 0, 0)[1]
      channel = second and string.match(second, '^%S+ %d+ (.+)$')
      if channel then redis.pcall('PUBLISH', channel, grace .. ' ' .. lock) end
      return 1
    end
  end
end`;

/** End an attempt or a held lock, where the holder still has it, and hand it to the process that waits longest. */
export const RELEASE_TEXT = `
-- RELEASE: delete the locks that are still held by o, or kept for it, or taken from it by a newer call.
-- A service that passes on a lock which was held stands in no line for it any more, whichever servers granted it.
-- KEYS: lock1 [lock2 ...] of a lock that was held; lock1 floor1 [lock2 floor2 ...] of an abandoned attempt
-- ARGV: holder o, granted (1 = was held; 0 = abandoned, its ballot is forgotten), pass (1 = it is the turn of the next in line;
--   0 = one that was held stays with the processes of o for a moment; keep <ms> = it stays held for so long at most, no more)
-- Returns how many locks were deleted.
local call, K, A = redis.call, KEYS, ARGV
--NEXT
local holder, granted, pass = A[1], A[2], A[3]
local mark = string.sub(string.match(holder, '^#?(.*)'), 1, 8)
local leaves, keep, deleted = granted == '1' and pass == '1', tonumber(string.match(pass, '^keep (%d+)')), 0
for i = 1, #K, granted == '1' and 1 or 2 do
  local queue, value = K[i] .. '#queue', call('GET', K[i])
  local isOwn = value == holder or leaves and value == '#' .. mark or value == 'revoked:by a newer call, in place of ' .. holder
  if keep then
    if isOwn and call('PTTL', K[i]) > keep then call('PEXPIRE', K[i], keep) end
    isOwn = false
  end
  if isOwn then
    if granted ~= '1' then -- before the lock goes, so that a failure leaves both
      local floor = call('GET', K[i + 1])
      if floor and #floor == 33 then
        local prev = string.sub(floor, 18)
        if prev == '0000000000000000' then call('DEL', K[i + 1])
        else redis.pcall('SET', K[i + 1], prev .. ' ' .. prev, 'KEEPTTL') end -- without memory the lock goes all the same
      end
    end
    call('DEL', K[i])
    if value == holder then deleted = deleted + 1 end
  end
  if (isOwn or leaves) and call('EXISTS', queue) == 1 then
    if leaves then leave(queue, mark) end
    if isOwn and pass == '1' then nextWaiter(K[i])
    elseif isOwn and granted == '1' then redis.pcall('SET', K[i], '#' .. mark, 'PX', 20) end
  end
end
return deleted
`;

/** Stand in line for a lock. Votes for nothing. */
export const WAIT_TEXT = `
-- WAIT: stand in line for a lock, or stay there. Votes for nothing, and needs no marker.
-- KEYS: lock
-- ARGV: member "<mark> <graceMs> <channel>", ticket (microseconds; 0 = by this server's clock), lifeMs (how long the line is kept)
-- queue, under the name of the lock and '#queue': sorted set of members by ticket, 1,000 at most.
-- Returns {ticket, ms}: the ticket as digits; ms until it is worth asking again: the rest of the lease, 0 = free, -1 = kept for
--   this process; a day where the lock is kept for another one and somebody else asks when that is over: who is next, or whose
--   WAIT found the lock free
local call, lock, queue, me = redis.call, KEYS[1], KEYS[1] .. '#queue', ARGV[1]
--NEXT
local ticket, value = ARGV[2], call('GET', lock)
local mark = string.match(me, '^%S+')
local kept = '#' .. mark
if ticket == '0' then
  local time = call('TIME')
  ticket = string.format('%.0f', time[1] * 1000000 + time[2])
end
if value == kept then return {ticket, -1} end
local isKept = value and string.sub(value, 1, 1) == '#'
-- The first in line heard when the turn is over. It goes on to look after it where it goes behind others, who did not hear.
local wasFirst = isKept and string.sub(call('ZRANGE', queue, 0, 0)[1] or '', 1, 8) == mark
if call('ZCARD', queue) < 1000 then
  -- One place for each service: that with another grace goes.
  if call('ZADD', queue, ticket, me) == 1 then leave(queue, mark, me) end
  if call('PTTL', queue) < tonumber(ARGV[3]) then call('PEXPIRE', queue, ARGV[3]) end
end
local isNamer = not value and nextWaiter(lock) == 1
if isNamer then value = call('GET', lock) end
if not value or string.sub(value, 1, 8) == mark then return {ticket, 0} end -- its own vote is given back in a moment
if value == kept then return {ticket, -1} end
local left = call('PTTL', lock)
local isBehind = isKept and not wasFirst and call('ZRANGE', queue, 0, 0)[1] ~= me
return {ticket, (isBehind or left == -1) and 86400000 or math.max(1, left)}
`;

export const RELEASE = defineScript(RELEASE_TEXT.replace('--NEXT', () => NEXT));
export const WAIT = defineScript(WAIT_TEXT.replace('--NEXT', () => NEXT));

/** Look without touching. */
export const INSPECT = defineScript(`
-- INSPECT: who holds these locks, and the highest floor. Writes nothing.
-- KEYS: lock1 floor1 [lock2 floor2 ...]
-- ARGV: beginning of the names of processes
-- Returns {pttlMs, maxF, holder, process}: of the lock that is held longest, -1 = without TTL, and what its process wrote of
--   itself, or false; {0, maxF, false, false} when all are free; maxF as digits.
--   error WRONGTYPE: a lock's name holds data that is no text
local call, K = redis.call, KEYS
local values = call('MGET', unpack(K))
local maxF, highest, pttl, holder = 0, '0', 0, false
for i = 1, #K, 2 do
  local digits = string.sub(values[i + 1] or '0', 1, 16)
  local F = tonumber(digits)
  if F > maxF then maxF, highest = F, digits end
  if values[i] and not (#values[i] == 9 and string.sub(values[i], 1, 1) == '#') then -- kept for somebody is free
    local left = call('PTTL', K[i])
    if left < -1 then left = 0 end
    if not holder or left == -1 or (pttl ~= -1 and left > pttl) then pttl, holder = left, values[i] end
  elseif not values[i] and call('EXISTS', K[i]) == 1 then
    return redis.error_reply('WRONGTYPE ' .. K[i] .. ' holds data that is no lock')
  end
end
return {pttl, highest, holder, holder and call('MGET', ARGV[1] .. string.sub(holder, 1, 8))[1]}
`);

/** The script of the start-up: tries every command that the other scripts use, to find rights that are missing. */
export const PROBE = defineScript(`
-- PROBE: run every command of the other scripts on names that no lock can have, and clean up.
-- KEYS: probe, probe floor
-- ARGV: none
-- Returns the failures, each as "command: message"; none when every right is there.
local lock, floor, queue, failures = KEYS[1], KEYS[2], KEYS[1] .. '#queue', {}
for _, command in ipairs({
  {'INFO', 'server'}, {'TIME'}, {'MGET', lock, floor}, {'GET', lock}, {'PSETEX', floor, 1000, '0'}, {'PSETEX', lock, 1000, '0'},
  {'PEXPIRE', lock, 1000}, {'SET', floor, '0', 'KEEPTTL'}, {'EXISTS', lock}, {'PTTL', lock}, {'ZADD', queue, 1, '0'},
  {'ZCARD', queue}, {'ZRANGE', queue, 0, 0}, {'ZPOPMIN', queue}, {'PUBLISH', lock, '0'},
  {'DEL', lock}, {'DEL', floor}, {'DEL', queue},
}) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err then failures[#failures + 1] = command[1] .. ': ' .. reply.err end
end
if redis.acl_check_cmd then -- not in Redis 6.2; scripts can't call these
  local known, allowed = pcall(redis.acl_check_cmd, 'SUBSCRIBE', lock)
  if not (known and allowed) then failures[#failures + 1] = 'SUBSCRIBE: the user may not, or not on ' .. lock end
end
return failures
`);
