import { defineScript } from './script.ts';

/** Renew a held lock; a missing key is set again where no newer ballot was accepted and the node may vote. */
export const EXTEND = defineScript(`
-- EXTEND: renew every lock of o for ttlMs, all or none. Never shortens.
-- KEYS: marker lock1 floor1 [lock2 floor2 ...]
-- ARGV: T (the granted ballot, 16 digits), holder o, ttlMs, start (from JOIN)
-- marker and floor as in ACQUIRE.
-- Returns {1, n} EXTENDED, n locks were missing and are set again; otherwise nothing was written:
--   {0}      LOST: a lock has another holder (or is other data), or is missing and its floor passed T
--   {-2, ms} QUARANTINED: a lock is missing, and the node may vote in ms
--   {-4}     UNJOINED: a lock is missing, and the node has no marker or that of another start, or its clock went back
local call, K, A = redis.call, KEYS, ARGV
local T, holder, ttl = tonumber(A[1]), A[2], tonumber(A[3])
local values = call('MGET', unpack(K))
local floors, missing = {}, 0
for i = 2, #K, 2 do
  local F = tonumber(string.sub(values[i + 1] or '0', 1, 16))
  floors[i] = F + 0 -- a floor that is no number fails here, before any write
  if values[i] ~= holder then
    if values[i] or F > T or call('EXISTS', K[i]) == 1 then return {0} end
    missing = missing + 1
  end
end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local voteAfter, runId, W, R = string.match(values[1] or '', '^(%d+) (%w+) (%d+) (%d+)$')
if missing > 0 then
  if not voteAfter or string.sub(runId, 1, 8) ~= A[4] then return {-4} end
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
    call('PEXPIRE', K[i + 1], keep) -- needs no memory: a server that has none left still renews
  end
  if not values[i] then call('PSETEX', K[i], ttl, holder)
  elseif lockLeft ~= -1 and lockLeft < ttl then call('PEXPIRE', K[i], ttl) end
end
return {1, missing}
`);
