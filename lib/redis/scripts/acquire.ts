import { defineScript } from './script.ts';

/** Where a server keeps what it needs to know of marker and clock in a vote for a free lock. */
export function gateName(marker: string): string {
  return `${marker}:gate`;
}

/** Vote for a ballot: all keys or none. The reply is an integer when accepted, since arrays cost. */
export const ACQUIRE = defineScript(`
-- ACQUIRE: accept ballot p of attempt o on 1..k locks, all or none.
-- KEYS: marker gate lock1 floor1 [lock2 floor2 ...]
-- ARGV: p (ballot, microseconds, 16 digits), holder o, ttlMs, start (from JOIN)
-- marker: "<voteAfterMs> <runId> <W ms> <R ms>".  floor: "F prev", 16 digits each, so that strings compare like numbers;
--   ballots <= F are refused, prev is what F was before the last accept.
-- gate: "<low><high><start><end, 13 digits><ttlMs>", written here for R/16: what marker and clock said. JOIN deletes it with each
--   marker it writes, and without a marker it says nothing. While it lives, clock - R/2 <= low, and high was R/8 ahead of the
--   clock. end is high + R + ttlMs in ms, as digits: to make those of a number takes Lua as long as a write.
-- Returns 1 ACCEPTED; otherwise nothing was written (maxF and limit as digits: ioredis 6 rounds integers near 2^53):
--   {0, pttlMs, maxF, other, i}  HELD: lock i (from 0), the first held one, has this other holder; pttl -1 = without TTL
--   {-1, limit, nowUs, byClock}  STALE: p <= limit; byClock 1: this node's clock set the limit, not a floor
--   {-2, ms}                     QUARANTINED: may vote in ms
--   {-3, nowUs, maxF}            AHEAD: p is more than a day ahead of the clock, and a second above the floors
--   {-4}                         UNJOINED: no marker, or that of another start (its data were replaced), or the clock went back
--   error WRONGTYPE              a lock's name holds other data, which is kept
local call, K, A = redis.call, KEYS, ARGV
local holder, ttl = A[2], A[3]
local values = call('MGET', unpack(K))
local gate, floor, gateEnd, floorEnd, p, now, clock, voteAfter, runId, W, R = values[2], values[4]

-- The common case: one free lock, a ballot above everything. A floor is longer than p, so with p = F the comparison refuses.
local isPlain = #K == 4 and not values[3] and (not floor or #floor == 33 and A[1] > floor)
if isPlain and gate and values[1] and A[1] > string.sub(gate, 1, 16) and A[1] <= string.sub(gate, 17, 32)
  and A[4] == string.sub(gate, 33, 40) then
  floorEnd = string.sub(gate, 41, 53)
  if string.sub(gate, 54) ~= ttl then floorEnd = floorEnd - string.sub(gate, 54) + ttl end
  gate = nil
else
  voteAfter, runId, W, R = string.match(values[1] or '', '^(%d+) (%w+) (%d+) (%d+)$')
  if not voteAfter or string.sub(runId, 1, 8) ~= A[4] then return {-4} end
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
    and string.format('%016.0f%016.0f%s%.0f%s', low, high, A[4], ttl + R + math.ceil(high / 1000), ttl)
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
for i = 3, #K, 2 do
  local other, digits = values[i], string.sub(values[i + 1] or '0', 1, 16)
  local F = tonumber(digits)
  if F > maxF then maxF, highest = F, digits end
  if other and other ~= holder then
    first = first or i
  elseif not other and call('EXISTS', K[i]) == 1 then
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
local byClock = 0
if clock > limit then limit, byClock = clock, 1 end
if p <= limit then return {-1, string.format('%.0f', limit), now, byClock} end
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
