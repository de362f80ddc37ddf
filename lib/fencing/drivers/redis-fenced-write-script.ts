/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then one key per command.
 * ARGV: number of fences · token · holder · then for each command: its name · number of its arguments after the key · these.
 * Returns: {'OK', reply …} · {'STALE', index of the fence, its token, its holder}
 *
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 */
export const FENCED_WRITE_SCRIPT = `
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

for i = 1, fences do
  local seen = redis.call('HMGET', KEYS[i], 't', 'h')
  if seen[1] and (newer(seen[1], token) or (seen[1] == token and seen[2] ~= holder)) then
    return {'STALE', i, seen[1], seen[2]}
  end
end
for i = 1, fences do redis.call('HSET', KEYS[i], 't', token, 'h', holder) end

local replies = {'OK'}
local position = 4
for i = fences + 1, #KEYS do
  local count = tonumber(ARGV[position + 1])
  local reply = redis.call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, position + 1 + count))
  replies[#replies + 1] = reply
  position = position + 2 + count
end
return replies
`;
