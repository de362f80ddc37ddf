import { defineScript } from './script.ts';

/** At start-up: tries every command that the other scripts use, to find rights that are missing. */
export const PROBE = defineScript(`
-- PROBE: run every command of the other scripts on names that no lock can have, and clean up.
-- KEYS: probe, probe floor
-- ARGV: none
-- Returns the failures, one "command: message" each; empty when every right is there.
local lock, floor, failures = KEYS[1], KEYS[2], {}
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
try('SET', floor, '0', 'KEEPTTL')
try('EXISTS', lock)
try('PTTL', lock)
try('PUBLISH', lock, '0')
try('DEL', lock)
try('DEL', floor)
return failures
`);
