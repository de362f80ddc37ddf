import { defineScript } from './script.ts';

/** Look without touching. */
export const INSPECT = defineScript(`
-- INSPECT: who holds these locks, and the highest floor. Writes nothing.
-- KEYS: lock1 floor1 [lock2 floor2 ...]
-- ARGV: none
-- Returns {pttlMs, maxF, holder}: of the lock that is held longest, -1 = without TTL; {0, maxF, false} when all are free;
--   maxF as digits.
local call, K = redis.call, KEYS
local values = call('MGET', unpack(K))
local maxF, highest, pttl, holder = 0, '0', 0, false
for i = 1, #K, 2 do
  local digits = string.sub(values[i + 1] or '0', 1, 16)
  local F = tonumber(digits)
  if F > maxF then maxF, highest = F, digits end
  if values[i] then
    local left = call('PTTL', K[i])
    if left < -1 then left = 0 end
    if not holder or left == -1 or (pttl ~= -1 and left > pttl) then pttl, holder = left, values[i] end
  end
end
return {pttl, highest, holder}
`);
