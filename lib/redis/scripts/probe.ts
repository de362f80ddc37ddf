import { defineScript } from './script.ts';

/** At start-up: tries every command that the other scripts use, to find rights that are missing. */
export const PROBE = defineScript(`
-- PROBE: run every command of the other scripts on names that no lock can have, and clean up.
-- KEYS: probe, probe floor
-- ARGV: none
-- Returns {c, failures ...}: c = 1 where CONFIG GET timeout is allowed as well, which we don't need;
--   a failure is "command: message", and there is none when every right is there.
local lock, floor, failures = KEYS[1], KEYS[2], {0}
local function try(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then failures[#failures + 1] = command .. ': ' .. reply.err end
end
try('INFO', 'server')
try('TIME')
try('MGET', lock, floor)
try('GET', lock)
try('PSETEX', floor, 1000, '0')
try('PSETEX', lock, 1000, '0')
try('PEXPIRE', lock, 1000)
try('SET', floor, '0', 'KEEPTTL')
try('EXISTS', lock)
try('PTTL', lock)
try('PUBLISH', lock, '0')
if redis.acl_check_cmd then -- not in Redis 6.2; scripts can't call these
  local function may(...)
    local known, allowed = pcall(redis.acl_check_cmd, ...)
    return known and allowed
  end
  for _, command in ipairs({'SUBSCRIBE', 'UNSUBSCRIBE'}) do
    if not may(command, lock) then failures[#failures + 1] = command .. ': the user may not, or not on ' .. lock end
  end
  if may('CONFIG', 'GET', 'timeout') then failures[1] = 1 end
end
try('DEL', lock)
try('DEL', floor)
return failures
`);
