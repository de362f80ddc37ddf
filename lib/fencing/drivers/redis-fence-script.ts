/** How many writers' records a fence keeps when a newer token arrives, and for how long after their last write. */
const MAX_OLD_RECORDS = 32;
export const OLD_RECORD_MS = 600_000;

/**
 * Tokens are compared as decimal text, by length and then by digits: Lua numbers can't tell 2^53 from 2^53 + 1.
 *
 * A floor is a number in decimal, `:`, and the time of the newest record that `prune` dropped in the slot, in milliseconds. The latter
 * is left out where the floor, as a time, is not below it. A floor ahead of the clock is no such time: no prune has made it.
 */
export const FENCE_FUNCTIONS = `
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function newer(a, b)
  if #a ~= #b then return #a > #b end
  return a > b
end

local function floorAt(key)
  local value = call('GET', key)
  if not value then return '0', 0 end
  call('PERSIST', key)
  local floor, last = string.match(value, '^(%d+):?(%d*)$')
  if not floor then error('The floor ' .. key .. ' is no number. Set it to one of a day ago.', 0) end
  local at = floor / 1000
  if at > now then at = 0 end
  return floor, math.max(at, tonumber(last) or 0)
end
`;

/**
 * Checks the token on every fence and, when it is the newest everywhere, remembers it and runs the commands: all in one step.
 *
 * KEYS: first the fences (hashes with the fields t = token, decimal, and h = holder), then the floor of each, then one key per
 * command. A fence that is not there needs a token that is not below its floor. Without the floor in KEYS a server of a cluster could
 * miss it while their slot moves.
 * ARGV: number of fences · token · holder · writer · number of the write · the writer's oldest write under way · then for each
 * command: its name · number of its arguments after the key · these. A claim has the writer ''.
 * Returns: {'OK', reply …} · {'REPEATED'} · {'STALE', index of the fence, its token, its holder, age}
 *
 * A client that has lost its connection may send a write again. The first fence has a field for each writer: the time of its
 * last write, the oldest one that was under way, and those since then that ran. Newer tokens leave these records for a while,
 * for a write that ran and is sent again must not be called stale. The field d has the time of the newest record that was
 * dropped, as the floor has of fences that `prune` deleted, and `age` is how long ago that is, in milliseconds: a write that was
 * sent earlier may have run.
 *
 * Records are dropped only when a newer token arrives or a higher floor, so that a repeated write without a record is refused all
 * the same.
 */
export const FENCED_WRITE_SCRIPT = shortened(`${FENCE_FUNCTIONS}
local fences, token, holder = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local writer, number, oldest = ARGV[4], ARGV[5], tonumber(ARGV[6])

local function dropRecords(fence)
  local fields, records = call('HGETALL', fence), {}
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 2) == 'w:' then
      records[#records + 1] = {fields[i], tonumber(string.match(fields[i + 1], '^%d+')) or 0}
    end
  end
  table.sort(records, function(a, b) return a[2] > b[2] end)
  for i = #records, 1, -1 do
    local field, last = unpack(records[i])
    if i <= ${MAX_OLD_RECORDS} and last > now - ${OLD_RECORD_MS} then break end
    call('HDEL', fence, field)
    local newest = math.max(last, tonumber(call('HGET', fence, 'd') or 0))
    call('HSET', fence, 'd', math.min(newest, now))
  end
end

local record, dropped = unpack(call('HMGET', KEYS[1], writer, 'd'))
record = record or '0:0:,'
local _, head, from = string.find(record, '^%d+:(%d+):')
local before = string.sub(record, head + 1)
if tonumber(number) < tonumber(from) or string.find(before, ',' .. number .. ',', 1, true) then
  return {'REPEATED'}
end
local isOther = {}
for i = 1, fences do
  local seen, by = unpack(call('HMGET', KEYS[i], 't', 'h'))
  isOther[i] = seen ~= token
  if seen then call('PERSIST', KEYS[i]) end
  local isStale = seen and (newer(seen, token) or (seen == token and by ~= holder))
  if not seen then
    seen, by = floorAt(KEYS[fences + i]), ''
    isStale = newer(seen, token)
  end
  if isStale then
    local _, last = floorAt(KEYS[fences + 1])
    return {'STALE', i, seen, by, now - math.max(tonumber(dropped) or 0, last)}
  end
end
for i = 1, fences do
  if isOther[i] then dropRecords(KEYS[i]) end
  call('HSET', KEYS[i], 't', token, 'h', holder)
end
if writer ~= '' then
  oldest = math.max(oldest, tonumber(from))
  local ran = before .. number .. ','
  if oldest > tonumber(from) then
    local kept = {''}
    for each in string.gmatch(ran, '%d+') do
      if tonumber(each) >= oldest then kept[#kept + 1] = each end
    end
    kept[#kept + 1] = ''
    ran = table.concat(kept, ',')
  end
  call('HSET', KEYS[1], writer, now .. ':' .. oldest .. ':' .. ran)
end

local replies = {'OK'}
local position = 7
for i = 2 * fences + 1, #KEYS do
  local count = tonumber(ARGV[position + 1])
  local reply = call(ARGV[position], KEYS[i], unpack(ARGV, position + 2, position + 1 + count))
  replies[#replies + 1] = reply
  position = position + 2 + count
end
return replies
`);

/** Without indents and spaces: Redis makes a sum of the text of a script for each call. No text in a script may have them. */
export function shortened(script: string): string {
  return script.replaceAll(/\n\s+/g, '\n').replaceAll(/ *(==|~=|<=|\.\.|[-=,+<>*/{}]) */g, '$1');
}
