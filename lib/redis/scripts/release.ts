import { defineScript } from './script.ts';

/** End an attempt or a held lock, where the holder still has it. */
export const RELEASE = defineScript(`
-- RELEASE: delete the locks that are still held by o.
-- KEYS: lock1 [lock2 ...] of a lock that was held; lock1 floor1 [lock2 floor2 ...] of an abandoned attempt
-- ARGV: holder o, granted (1 = was held; 0 = abandoned, its ballot is forgotten), notify (1 = publish a hint)
-- Returns how many locks were deleted; {deleted, n} when a hint reached n connections
local call, K, A = redis.call, KEYS, ARGV
local holder, granted, notify = A[1], A[2], A[3]
local deleted, listeners = 0, 0
for i = 1, #K, granted == '1' and 1 or 2 do
  if call('GET', K[i]) == holder then
    if granted ~= '1' then -- before the lock goes, so that a failure leaves both
      local floor = call('GET', K[i + 1])
      if floor and #floor == 33 then
        local prev = string.sub(floor, 18)
        if prev == '0000000000000000' then call('DEL', K[i + 1])
        else redis.pcall('SET', K[i + 1], prev .. ' ' .. prev, 'KEEPTTL') end -- without memory the lock goes all the same
      end
    end
    call('DEL', K[i])
    deleted = deleted + 1
    if notify == '1' then
      local reached = redis.pcall('PUBLISH', K[i], holder) -- a user without channels still releases
      if type(reached) == 'number' and reached > listeners then listeners = reached end
    end
  end
end
if listeners > 0 then return {deleted, listeners} end
return deleted
`);
